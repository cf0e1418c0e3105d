"""A run that begins where a policy already is, not with a fresh network."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path

from handrail.errors import InvalidPolicy, InvalidRun
from handrail.learning import Reinforce
from handrail.policies import Policy
from handrail.rulebook import Rulebook
from handrail.runs.run import Run, make_agent


def start_run_from(
    policy: Policy, folder: str | Path, rulebook: Rulebook, modules: Sequence[str] = ()
) -> Run:
    """Start a run from a policy, held to the constraints before anything is written.

    Args:
        policy: of the network that the constraint file describes; stays as it is.
        folder: that is empty or not there yet.
        rulebook: what to learn under.
        modules: that register the environment, to be named to whoever opens the run.

    Raises:
        InvalidPolicy: if its network is another one: nobody could resume such a run.
    """
    own = policy.with_module(deepcopy(policy.module))
    env, settings = rulebook.make_environment(), rulebook.settings.learner
    first = Reinforce.with_settings(env, own, rulebook, settings).checkpoint()
    try:
        make_agent(rulebook, first)
    except InvalidRun as error:
        raise InvalidPolicy(
            "A run is learned on with the network that its constraint file describes, and this "
            f"policy has another one. {error}"
        ) from error
    return Run.create(folder, rulebook, modules, first)
