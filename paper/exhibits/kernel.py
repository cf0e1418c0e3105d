"""Figures 1 and 2: the matrices of the augmented batch, with real numbers."""

from __future__ import annotations

import numpy as np

from handrail._threads import one_thread
from handrail._types import Array
from handrail.constraints import expand
from handrail.enforcement import predict_step, solve_returns, update
from handrail.learning import Round, make_player
from handrail.rulebook import load_rulebook
from handrail.runs import make_policy
from handrail.tangent import Batch, policy_gradient, predict_change, tangent_kernel
from paper.drawing.measurements import kernel_figure
from paper.exhibit import Claim, Content, Drawing, Exhibit
from paper.results import Results

_STEP_SIZE = 1e-4
_STEPS_SHOWN = 40


def _kernel(_: Results) -> Content:
    """The kernel of a batch with the constrained states behind it, as figures 1 and 2 have it."""
    book = load_rulebook("cartpole")
    env = book.make_environment()
    policy = make_policy(book, env)
    with one_thread():
        episode = make_player(env, 1).play(policy, Round(0, 0, 0))[0]
        states, actions = episode.states[:_STEPS_SHOWN], episode.actions[:_STEPS_SHOWN]
        batch = Batch(states, actions, np.linspace(1.0, -1.0, len(actions)))
        rows = expand(book.constraints, policy).rows()
        everything = np.concatenate([states, rows.states])
        kernel = tangent_kernel(policy, everything, flat=True)
        by_kernel = _change_by_kernel(kernel, policy.outputs(states), batch)
        directly = predict_change(policy, batch, everything, _STEP_SIZE)
        gap = float(np.abs(by_kernel - directly.ravel()).max() / np.abs(directly).max())
        step = predict_step(policy, policy_gradient(policy, batch), rows, _STEP_SIZE)
        returns = solve_returns(step, "returns", soft=False)
        update(policy, returns)
        reached = rows.values(policy.outputs(rows.states))
    before = float(rows.violations(returns.before).max())
    after = float(rows.violations(reached).max())
    return Content(
        claims=(
            Claim(
                "The kernel of the augmented batch gives the change of the policy at any state "
                "(section 2.2).",
                f"kernel times returns and our prediction without a kernel differ by {gap:.0e} of "
                "the largest change",
                gap < 1e-8,
            ),
            Claim(
                "Returns at the constrained states can be solved for so that the step satisfies "
                "the constraints, approximately.",
                f"worst violation of the 18 constraints: {before:+.3f} before a step, "
                f"{after:+.3f} after it, where {returns.worst_violation:+.1e} was predicted",
                returns.worst_violation <= 1e-6 and after < 0.5 * before,
                "The kernel is linear and the softmax is not: the first of these steps falls "
                "short, and the paper's learner takes a few. hr.enforce repeats it at once.",
            ),
        ),
        drawings=(
            Drawing(
                "matrices",
                kernel_figure(kernel, len(states) * 2),
                f"The tangent kernel of {len(states)} steps of an episode and the 18 constrained "
                "states of Cartpole, two actions each: the blocks of the paper's figures 1 and 2, "
                "with real numbers.",
            ),
        ),
    )


def _change_by_kernel(kernel: Array, probabilities: Array, batch: Batch) -> Array:
    """Section 2.2: α Θ G/π, where G/π of an action that was not taken is 0; (n·n_A,)."""
    n_actions = probabilities.shape[1]
    taken = np.eye(n_actions)[np.asarray(batch.actions)]
    weights = (np.asarray(batch.returns)[:, None] * taken / probabilities).ravel()
    change: Array = _STEP_SIZE * kernel[:, : len(weights)] @ weights
    return change


KERNEL = Exhibit("matrices", "Figures 1 and 2", "The kernel of the augmented batch", _kernel)
