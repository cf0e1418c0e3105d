"""PPO of RLlib with constraints, configured as any algorithm of RLlib is."""

from __future__ import annotations

from operator import attrgetter
from typing import Any, Self, final

import ray
from numpy.typing import ArrayLike
from ray.rllib.algorithms.ppo import PPO, PPOConfig
from ray.rllib.env.env_runner_group import EnvRunnerGroup

from handrail.errors import InvalidArgument, InvalidPolicy
from handrail.learning import FIXED, Terms
from handrail.rllib.env_runner import HeldEnvRunner
from handrail.rllib.learner import HeldPPOLearner
from handrail.rulebook import AnyConstraints
from handrail.settings import OnUnproven, Reach, Selection

_WEIGHTS = "learner/rl_module"  # of a group of learners


@final
class HeldPPO(PPO):
    """PPO whose env runners act only by policies that obey."""

    @classmethod
    def get_default_config(cls) -> HeldPPOConfig:
        """As RLlib asks for it, where it is given a dictionary."""
        return HeldPPOConfig()

    def setup(self, config: Any) -> None:
        """Make runners and the learner."""
        super().setup(config)
        for group in self._groups():
            for refusal in filter(None, group.foreach_env_runner(attrgetter("refusal"))):
                raise InvalidPolicy(refusal)
        self._give_weights()

    def restore_from_path(self, *path: Any, **settings: Any) -> None:
        """Go on from a file."""
        super().restore_from_path(*path, **settings)
        self._give_weights()

    def _give_weights(self) -> None:
        """Those of the learner to every runner, and wait until all have them.

        RLlib does not wait, and drops what it would send to a runner that is still busy with what
        it was sent before. Nor does it send any to the local one first, with whose weights it
        brings back remote ones that died.
        """
        state = self.learner_group.get_state(components=_WEIGHTS, inference_only=True)["learner"]
        shared = ray.put(state)  # once for all machines
        for group in self._groups():
            group.foreach_env_runner(lambda runner: runner.take_over(ray.get(shared)))

    def _groups(self) -> list[EnvRunnerGroup]:
        """Of env runners: for training, and for evaluation if that has its own."""
        groups = self.env_runner_group, self.eval_env_runner_group
        return [one for one in groups if one is not None]


@final
class HeldPPOConfig(PPOConfig):
    """`PPOConfig` with constraints: `HeldPPOConfig().environment(…).constraints(…)`.

    Everything else is configured as for PPO. What cannot be held is refused by `build_algo`.
    """

    def __init__(self, algo_class: type[PPO] | None = None) -> None:
        super().__init__(algo_class=algo_class or HeldPPO)
        self.env_runner_cls = HeldEnvRunner
        self.terms: Terms | None = None

    def constraints(
        self,
        constraints: AnyConstraints,
        *,
        tolerance: float | None = None,
        selection: Selection | str | None = None,
        reach: Reach = "auto",
        references: ArrayLike | None = None,
        prove: bool = False,
        on_unproven: OnUnproven = "refuse",
    ) -> Self:
        """What every policy that samples must obey.

        Args:
            constraints: a list, a `Rulebook`, or the path or bundled name of a constraint file,
                which is read here: other machines need not have it. Of a file only the constraints
                count; its settings are for `Reinforce`.
            tolerance: the largest violation allowed at points; by default 1e-5. States of regions
                have none.
            selection: how regions are held, or the name of a way; by default `Everywhere()`.
            reach: how far what is asked may move the policy elsewhere: 0 (only where I said) to 10
                (advice for everywhere), `Fading(…)` as experience arrives, or "auto".
            references: (n, n_observations), where the policy should stay as it is for as long as
                there is no experience; by default random states of the observation space.
            prove: end every holding with a proof for every region, as `Everywhere(prove=True)`.
            on_unproven: what becomes of a policy that holds on every state that was tried, but
                could not be proven: "refuse" it, or "keep" it, without ever calling it proven.
        """
        self.terms = Terms.of(
            constraints, tolerance, selection, reach, references, prove, on_unproven
        )
        return self

    def get_default_learner_class(self) -> type[HeldPPOLearner]:
        """The one that holds."""
        return HeldPPOLearner

    def validate(self) -> None:
        """Refuse what would let a policy act that is not held, or is not what constraints mean."""
        super().validate()
        if self.terms is None:
            raise InvalidArgument(
                "There is nothing to hold. Say what: HeldPPOConfig().constraints('cartpole.yaml'), "
                "or use PPOConfig."
            )
        self._refuse_others_in_charge()
        self._refuse_connectors()

    def _refuse_others_in_charge(self) -> None:
        """Of the learner's weights, or of which weights act."""
        if not (self.enable_rl_module_and_learner and self.enable_env_runner_and_connector_v2):
            raise InvalidArgument(
                "Handrail works with RLlib's new API stack only. Leave config.api_stack(…) out."
            )
        if self.is_multi_agent:
            raise InvalidArgument(
                "Constraints are about one policy, but this configuration has several agents. Use "
                "an environment of one agent, without config.multi_agent(…)."
            )
        if self.num_learners > 1:
            raise InvalidArgument(
                f"The module is held by one learner, but num_learners is {self.num_learners}: "
                "several would each hold a copy of their own. Use config.learners(num_learners=0), "
                "or 1 for one on another machine."
            )
        if self.learner_class is not HeldPPOLearner:
            raise InvalidArgument(
                f"HeldPPOLearner holds the constraints, but learner_class is "
                f"{self.learner_class.__name__}. Leave it out."
            )
        if self.env_runner_cls is not HeldEnvRunner:
            raise InvalidArgument(
                f"HeldEnvRunner samples by held policies only, but env_runner_cls is "
                f"{getattr(self.env_runner_cls, '__name__', None)}. Leave it out."
            )
        if self.evaluation_parallel_to_training:
            raise InvalidArgument(
                "evaluation_parallel_to_training=True evaluates weights from the middle of an "
                "update, which need not obey. Leave it at False."
            )

    def _refuse_connectors(self) -> None:
        """Between observations and the module, or between the module and actions."""
        if (
            self._env_to_module_connector is not None
            or not self.add_default_connectors_to_env_to_module_pipeline
            or self.observation_filter != "NoFilter"
        ):
            raise InvalidPolicy(
                "Constraints speak of the environment's own numbers, but this configuration has "
                "connectors between them and the module (env_to_module_connector or "
                "observation_filter, such as MeanStdFilter): constraints would be held and "
                "measured at the wrong states. Leave them out, and change observations in the "
                f"environment: {FIXED}"
            )
        if (
            self._module_to_env_connector is not None
            or not self.add_default_connectors_to_module_to_env_pipeline
        ):
            raise InvalidPolicy(
                "This configuration has connectors between the module and the environment "
                "(module_to_env_connector), so what is done is not what the held module says. "
                "Change actions in the environment, with a wrapper."
            )
