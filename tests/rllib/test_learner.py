"""The learner: its module obeys when it is made, updated and loaded, and nothing else changes."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from ray.rllib.core import DEFAULT_MODULE_ID

import handrail as hr
from handrail.rllib import HeldPPOLearner
from tests.support.pendulum import RULES
from tests.support.rllib_models import CARTPOLE, STATES, TOLERANCE, learner, ppo, violation


def module_of(made: HeldPPOLearner) -> Any:
    return made.module[DEFAULT_MODULE_ID].unwrapped()


def parameters(made: HeldPPOLearner) -> dict[str, torch.Tensor]:
    return {name: one.detach().clone() for name, one in module_of(made).named_parameters()}


def break_it(made: HeldPPOLearner) -> None:
    with torch.no_grad():
        module_of(made).pi.net.mlp[0].bias += torch.tensor([5.0, 0.0])


def test_a_fresh_module_obeys() -> None:
    made = learner(ppo())
    assert violation(module_of(made), CARTPOLE) <= TOLERANCE
    (first,) = made.history
    assert first.timesteps == 0
    assert first.violation_before > 0.4
    assert first.violation_after <= TOLERANCE


def test_only_the_actor_is_touched_and_never_the_optimisers_state() -> None:
    made = learner(ppo())
    break_it(made)
    before, moments = parameters(made), copy.deepcopy(made._get_optimizer_state())
    made.after_gradient_based_update(timesteps={"num_env_steps_sampled_lifetime": 128})
    assert made.history[-1].timesteps == 128
    assert made.history[-1].violation_before > 0.1
    assert violation(module_of(made), CARTPOLE) <= TOLERANCE
    after = parameters(made)
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed
    assert all(name.startswith(("encoder.actor_encoder", "pi.")) for name in changed)
    assert moments == made._get_optimizer_state()


def test_states_of_episodes_are_where_it_should_stay_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Episode:
        """Of four steps, and the observation behind the last one."""

        def __len__(self) -> int:
            return 4

        def get_observations(self, indices: slice) -> Any:
            return np.arange(20.0).reshape(5, 4)[indices]

    made = learner(ppo())
    seen: list[Any] = []
    monkeypatch.setattr(made._keeper, "learned_from", seen.append)
    batch = made._learner_connector.connectors[0](batch={}, episodes=[Episode(), Episode()])
    assert batch == {}
    np.testing.assert_array_equal(seen[0], np.tile(np.arange(16.0).reshape(4, 4), (2, 1)))


class TestStates:
    def test_it_goes_on_from_another_one(self) -> None:
        made = learner(ppo())
        made.after_gradient_based_update(timesteps={"num_env_steps_sampled_lifetime": 64})
        made._weights_seq_no = 1
        fresh = learner(ppo())
        fresh.set_state(made.get_state())
        assert fresh.history[-1].timesteps == 64
        assert fresh._keeper.memory().keys() == made._keeper.memory().keys()
        for name, one in parameters(made).items():
            assert torch.equal(one, parameters(fresh)[name])

    def test_weights_that_do_not_obey_are_held(self) -> None:
        made = learner(ppo())
        break_it(made)
        made._weights_seq_no = 1
        assert violation(module_of(made), CARTPOLE) > 0.1
        fresh = learner(ppo())
        fresh.set_state(made.get_state("rl_module"))
        assert fresh.history[-1].violation_before > 0.1
        assert violation(module_of(fresh), CARTPOLE) <= TOLERANCE

    def test_so_are_those_of_a_file(self, tmp_path: Path) -> None:
        made = learner(ppo())
        break_it(made)
        module_of(made).save_to_path(tmp_path)
        fresh = learner(ppo())
        fresh.restore_from_path(tmp_path, component=f"rl_module/{DEFAULT_MODULE_ID}")
        assert fresh.history[-1].violation_before > 0.1
        assert violation(module_of(fresh), CARTPOLE) <= TOLERANCE


class TestRefusals:
    def test_an_action_that_there_is_not(self) -> None:
        rule = hr.AtLeast(0.9, 7, hr.Points(STATES[:1]), name="seventh")
        with pytest.raises(hr.errors.HandrailError, match="action 7"):
            learner(ppo(constraints=[rule]))

    def test_a_file_of_another_environment(self) -> None:
        with pytest.raises(hr.errors.HandrailError, match="8"):
            learner(ppo(constraints="lunar_lander"))

    def test_constraints_that_contradict_each_other(self) -> None:
        both = [*CARTPOLE, hr.AtMost(0.5, 0, hr.Points(STATES[:1]), name="no")]
        with pytest.raises(hr.errors.UnsatisfiedConstraints, match=r"0 timesteps .*as PPO left it"):
            learner(ppo(constraints=both))

    def test_layers_that_the_critic_shares(self) -> None:
        config = ppo().rl_module(model_config={"vf_share_layers": True})
        with pytest.raises(hr.errors.InvalidPolicy, match='"vf_share_layers": False'):
            learner(config)

    def test_actions_on_another_scale(self) -> None:
        config = ppo("Pendulum-v1", RULES).rl_module(model_config={"free_log_std": True})
        with pytest.raises(hr.errors.InvalidPolicy, match="normalize_actions=False"):
            learner(config, "Pendulum-v1")


def test_mean_actions() -> None:
    config = ppo("Pendulum-v1", RULES).rl_module(model_config={"free_log_std": True})
    made = learner(config.environment(normalize_actions=False), "Pendulum-v1")
    assert violation(module_of(made), RULES) <= TOLERANCE
    assert made.history[0].violation_before > 0.1
