"""The callback: constraints hold whenever the model acts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, final, get_args

import numpy as np
from numpy.typing import ArrayLike
from stable_baselines3.common.callbacks import BaseCallback, CallbackList, EventCallback
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

from handrail.errors import InvalidArgument
from handrail.learning import Holding, Terms
from handrail.proof import Certificate
from handrail.rulebook import AnyConstraints
from handrail.sb3.acting_network import ActingNetwork
from handrail.sb3.experience import Experience, experience_of
from handrail.sb3.exploration import KeptExploration
from handrail.sb3.keeper import ModelKeeper
from handrail.sb3.normalisation import StillNormalisation
from handrail.sb3.pressure import Pressure, take_off
from handrail.settings import OnUnproven, Reach, Selection, check_count

Explore = Literal["freely", "allowed"]


@final
class Handrail(BaseCallback):
    """Makes a model obey before it acts, and again before every later rollout.

    The constraints hold when training starts, before each rollout after an update, and when
    training ends: the policy that acts obeys, and so does the one you get. Between two rollouts the
    algorithm changes the policy as it likes, but that policy does not act. In a list of callbacks
    put this one first: those in front of it are told of a rollout before the policy is held.

    Only the actor's parameters are changed, in place: the critic and what both share stay bit for
    bit as they are. So does the optimiser's state: Adam's moments remain those of the gradients it
    was given, and the next step starts from where the constraints hold. A box that can be fenced
    off in the network is, before the first step, and gradients go round the fence while it trains.

    Of SAC, TD3 and DDPG, constraints are about the deterministic action, of DQN and QR-DQN about
    the greedy one; what noise adds to it, and random actions, nobody holds unless `explore` says
    so. Their target networks are left alone: they never act.

    Args:
        constraints: a list, a `Rulebook`, or the path or bundled name of a constraint file. Of a
            file only the constraints count; its settings are for `Reinforce`.
        tolerance: the largest violation allowed at points; by default 1e-5, of a model in float64
            1e-6. States of regions have none. Where float32 is coarser than that (4 spacings of
            the largest bound), it counts instead.
        selection: how regions are held, or the name of a way; by default `Everywhere()`.
        reach: how far what is asked may move the policy elsewhere: 0 (only where I said) to 10
            (advice for everywhere), `Fading(…)` as experience arrives, or "auto".
        references: (n, *observation_shape), where the policy should stay as it is for as long as
            there is no experience; by default random states of the observation space.
        prove: end every holding with a certificate for every region, as `Everywhere(prove=True)`.
        on_unproven: what becomes of a policy that holds on every state that was tried, but could
            not be proven: "refuse" it, or "keep" it, without ever calling it proven.
        pressure: strength of a pull towards the constraints inside every step of the optimiser,
            so that an update leaves less to be corrected; 0 for none. Not of off-policy models.
        every: of an off-policy model, gradient steps from one holding to the next. With 1, every
            policy that acts is looked at, and held if it does not obey. With more, those in between
            act as they are, and `worst_violation` says how far they went.
        explore: of DQN and QR-DQN, whether random steps are taken "freely", or among the actions
            that are "allowed" where constraints speak, those before `learning_starts` as well.
    """

    def __init__(
        self,
        constraints: AnyConstraints,
        *,
        tolerance: float | None = None,
        selection: Selection | str | None = None,
        reach: Reach = "auto",
        references: ArrayLike | None = None,
        prove: bool = False,
        on_unproven: OnUnproven = "refuse",
        pressure: float = 0.0,
        every: int = 1,
        explore: Explore = "freely",
    ) -> None:
        super().__init__()
        check_count("every", every)
        if explore not in get_args(Explore):
            raise InvalidArgument(f'explore is "freely" or "allowed", but got {explore!r}.')
        if not (np.isfinite(pressure) and pressure >= 0.0):
            raise InvalidArgument(
                f"The pressure must be 0 (none) or positive and finite, not {pressure!r}."
            )
        self._terms = Terms.of(
            constraints, tolerance, selection, reach, references, prove, on_unproven
        )
        self._strength = float(pressure)
        self._every = every
        self._explore = explore
        self._exploration: KeptExploration | None = None
        self._keeper: ModelKeeper | None = None
        self._experience: Experience | None = None
        self._pressure: Pressure | None = None
        self._history: list[Holding] = []
        self._certificates: tuple[Certificate, ...] = ()
        self._is_off_policy = False
        self._told = self._acts = False  # of a rollout of this training, and in one
        self._acting: ActingNetwork | None = None  # since it was last looked at
        self._steps = 0  # of the environments since then
        self._held_after = 0  # gradient steps

    @property
    def history(self) -> tuple[Holding, ...]:
        """Every holding so far, of the present model."""
        return tuple(self._history)

    @property
    def worst_violation(self) -> float:
        """The largest violation of any policy that acted; positive means broken, -inf: none yet."""
        return max((one.violation_after for one in self._history), default=-np.inf)

    @property
    def seconds(self) -> float:
        """Spent on holding."""
        return sum(one.seconds for one in self._history)

    @property
    def certificates(self) -> tuple[Certificate, ...]:
        """Of the constraints on regions, from the last holding, where a proof was asked for."""
        return self._certificates

    def _init_callback(self) -> None:
        """What cannot be held is refused here, before training; learning on goes on from here."""
        self._is_off_policy = isinstance(self.model, OffPolicyAlgorithm)
        self._told, self._acts, self._acting = False, False, None
        if self._pressure is not None:
            self._pressure.end()  # left on another model by a training that was interrupted
        if self._keeper is not None:
            self._keeper.end()  # left on another model, or on this one, by an interruption
        if self._keeper is None or not self._keeper.keeps(self.model):
            self._refuse_settings_of_others()
            self._keeper = ModelKeeper(self.model, self._terms)
            self._experience = experience_of(self.model, self._keeper.normalisation)
            self._history, self._certificates = [], ()
            self._exploration = self._kept_exploration(self._keeper)
            if self._strength:
                self._pressure = Pressure(
                    self.model, self._keeper.policy, self._strength, self._keeper.enforcer.tolerance
                )
        self._keeper.begin()
        if not self._is_off_policy:
            take_off(self.model.policy.optimizer)  # left on this one, by whatever callback
        if self._keeper.normalisation is not None:
            self._keeper.normalisation.begin()

    def _refuse_settings_of_others(self) -> None:
        name = type(self.model).__name__
        if self._is_off_policy and self._strength:
            raise InvalidArgument(
                f"pressure pulls while an update takes many steps without being held, but {name} "
                "is held after every update. Leave pressure at 0."
            )
        if not self._is_off_policy and self._every != 1:
            raise InvalidArgument(
                f"every={self._every} counts gradient steps of off-policy models, but {name} is "
                "held once before every rollout. Leave it at 1, and collect more steps a rollout."
            )

    def _kept_exploration(self, keeper: ModelKeeper) -> KeptExploration | None:
        if self._explore == "freely":
            return None
        return KeptExploration(self.model, keeper.allowed_actions())

    def _on_training_start(self) -> None:
        _refuse_several(self.locals.get("callback"))
        self._hold()
        if self._exploration is not None:
            self._exploration.begin()

    def _on_rollout_start(self) -> None:
        first, self._told, self._acts = not self._told, True, True
        # Callbacks behind this one may have changed the policy since training started.
        if first and self._is_as_it_acts():
            return
        if self._is_off_policy and not self._is_due_to_move():
            self._hold_if_needed()
        else:
            self._hold()

    def _is_due_to_move(self) -> bool:
        """Whether an off-policy model has observed enough for its statistics to move."""
        normalisation = None if self._keeper is None else self._keeper.normalisation
        return normalisation is not None and normalisation.is_due

    def _on_step(self) -> bool:
        if not self._told:
            raise InvalidArgument(
                "Nobody told Handrail that a rollout starts, so the constraints are not made to "
                "hold after updates. Give it to `learn` itself, alone or in a list, not to another "
                "callback."
            )
        self._steps += 1
        # After 1, 2, 4, … steps: what torch counts, or what is still there, is found at the end.
        if not self._steps & (self._steps - 1) and not self._seems_as_it_acts():
            raise self._changed("before")
        assert self._keeper is not None  # _init_callback comes first
        if self._keeper.normalisation is not None:
            self._observe(self._keeper.normalisation)
        return True

    def _changed(self, when: str) -> InvalidArgument:
        return InvalidArgument(
            f"Something else than Handrail changed the policy while it acts, {when} step "
            f"{self.num_timesteps}, so what acted may not have obeyed. Have callbacks change "
            "policies when a rollout starts, and put Handrail behind these in the list."
        )

    def _observe(self, normalisation: StillNormalisation) -> None:
        """What is normalised must be so as the policy that was held has it."""
        if not normalisation.is_as_held():
            raise InvalidArgument(
                f"Something else than Handrail changed how VecNormalize normalises while the "
                f"model acts, before step {self.num_timesteps}, so what acted may not have obeyed. "
                "Leave its statistics and settings alone until `learn` ends."
            )
        normalisation.observe()

    def _on_rollout_end(self) -> None:
        assert self._keeper is not None  # _init_callback comes first
        assert self._experience is not None
        self._acts = False
        if self._told and not self._is_as_it_acts():
            raise self._changed("in the rollout before")
        news = self._experience.news()
        if news is not None:
            self._keeper.learned_from(news)
        if self._pressure is not None:
            self._pressure.begin(self._keeper.enforcer)

    def _on_training_end(self) -> None:
        assert self._keeper is not None  # _init_callback comes first
        if self._acts and not self._is_as_it_acts():
            # It ends in the middle of a rollout. Somebody has changed the policy, perhaps only now,
            # as those do who bring back the best one: it counts as one that acted.
            self._note(self._keeper.as_it_is())
        self._acts = False
        self._hold()
        self._let_go()

    def _let_go(self) -> None:
        """Of what the user had set."""
        if self._exploration is not None:
            self._exploration.end()
        if self._keeper is not None:
            self._keeper.end()
            if self._keeper.normalisation is not None:
                self._keeper.normalisation.end()

    def _seems_as_it_acts(self) -> bool:
        return self._acting is not None and self._acting.seems_unchanged()

    def _is_as_it_acts(self) -> bool:
        return self._acting is not None and self._acting.is_unchanged()

    def _hold_if_needed(self) -> None:
        """Rollouts of an off-policy model are short, and mostly there is nothing to do."""
        assert self._keeper is not None  # _init_callback comes first
        if self._is_as_it_acts():  # nothing was learned, as at first, or TD3 moved its critic only
            return
        holding, obeys = self._keeper.look()
        due = self._gradient_steps() - self._held_after >= self._every
        if due and (not obeys or self._certificates):  # a look is no proof
            self._hold(holding.violation_before)
        else:
            self._note(holding)

    def _gradient_steps(self) -> int:
        return int(getattr(self.model, "_n_updates", 0))

    def _hold(self, before: float | None = None) -> None:
        if self._pressure is not None:
            self._pressure.end()
        assert self._keeper is not None  # _init_callback comes first
        hold = self._keeper.hold_and_watch if self._is_off_policy else self._keeper.hold
        try:
            holding, result = hold(before)
        except BaseException:
            self._let_go()  # this training is over
            raise
        self._certificates = result.certificates
        self._held_after = self._gradient_steps()
        self._note(holding)

    def _note(self, holding: Holding) -> None:
        """Of the policy that acts from here."""
        if self._acting is None:
            assert self._keeper is not None  # _init_callback comes first
            self._acting = self._keeper.acting_network()
        else:
            self._acting.look_again()
        self._steps = 0
        self._history.append(holding)
        record = self.logger.record
        for name, value in holding.logged().items():
            record(f"handrail/{name}", value)


def _refuse_several(callback: object) -> None:
    """What one rail holds, the next would change again, and neither would know."""
    rails = [one for one in _flat(callback) if isinstance(one, Handrail)]
    if len(rails) > 1:
        raise InvalidArgument(
            f"There are {len(rails)} Handrails on one model, and each would undo what the others "
            "hold. Give all constraints to one: Handrail([*constraints, *others]); those of a file "
            "are load_rulebook(path).constraints."
        )


def _flat(callback: object) -> Iterator[object]:
    """A callback, those of a list, and those inside others."""
    yield callback
    if isinstance(callback, CallbackList):
        for one in callback.callbacks:
            yield from _flat(one)
    elif isinstance(callback, EventCallback) and callback.callback is not None:
        yield from _flat(callback.callback)
