"""Files about observations of several axes, such as a board: every verb takes their states flat.

Flat is in C order, as Gymnasium, torch and Stable-Baselines3 flatten. Each answer is checked at the
board itself, (5, 5), by whoever acts there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.base_class import BaseAlgorithm

import handrail as hr
from handrail.errors import InvalidConstraint, InvalidRulebook, ShapeMismatch
from handrail.rulebook import Rulebook, constraints_of, parse
from handrail.runs import Run
from handrail.sb3 import Handrail, policy_of
from tests.cli.conftest import Caller
from tests.export.test_exported import by_onnx
from tests.support.environments import BOARD, Board, piece
from tests.support.sb3_models import Pictures, Two, Watch, ppo, probabilities

SQUARES = [(row, column) for row in range(5) for column in range(5)]

# Swapped by any other order: the transposed square of one is that of the other.
SEEN = np.stack([piece(0, 3), piece(3, 0)])

NETWORKS: dict[str, dict[str, Any]] = {
    "plain": {},
    "shared extractor": {"features_extractor_class": Two},
    "own extractor": {"features_extractor_class": Two, "share_features_extractor": False},
}


def place(square: tuple[int, int], **others: str) -> str:
    """Every observation of a file: a piece on one square, but as others are said."""
    seen = {f"at_{r}{c}": f"{int((r, c) == square)}" for r, c in SQUARES}
    return ", ".join(f"{name}: {value}" for name, value in {**seen, **others}.items())


TEXT = f"""
environment: {BOARD}
observations: [{", ".join(f"at_{r}{c}" for r, c in SQUARES)}]
actions: [left, right]
constraints:
  - {{name: above, where: {{{place((0, 3))}}}, require: left >= 0.9}}
  - {{name: below, where: {{{place((3, 0))}}}, require: right >= 0.9}}
  - {{name: middle, region: {{{place((2, 1), at_00="[0, 0.2]")}}}, require: right >= 0.6}}
settings: {{episodes: 2, network: {{hidden: [32]}}}}
"""


@pytest.fixture
def rules() -> Rulebook:
    return parse(TEXT, "board")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "board.yaml"
    path.write_text(TEXT, encoding="utf-8")
    return path


def model_of(kind: type[BaseAlgorithm] = PPO, **network: Any) -> Any:
    settings = {"net_arch": [32], **network}
    make: Any = kind
    return make("MlpPolicy", Board(), n_steps=64, seed=0, device="cpu", policy_kwargs=settings)


def worst(acting: Any) -> float:
    """Of the probabilities (…, 2, 2) at the two boards."""
    return float((0.9 - np.asarray(acting)[..., [0, 1], [0, 1]]).max())


class TestStableBaselines3:
    @pytest.mark.parametrize("network", NETWORKS)
    @pytest.mark.parametrize("kind", [PPO, A2C])
    def test_the_callback_holds_what_acts(
        self, kind: type[BaseAlgorithm], network: str, rules: Rulebook
    ) -> None:
        model, watch, rail = model_of(kind, **NETWORKS[network]), Watch(SEEN), Handrail(rules)
        model.learn(128, callback=[rail, watch])
        assert len(watch.seen) == 128
        assert worst(watch.seen) <= 1e-5
        greedy = [int(model.predict(board, deterministic=True)[0]) for board in SEEN]
        assert greedy == [0, 1]
        result = hr.evaluate(model, BOARD, rules, episodes=1)
        assert result.satisfied
        assert result.lengths == (8,)

    @pytest.mark.parametrize("network", NETWORKS)
    def test_flat_states_are_the_same_states(self, network: str) -> None:
        model = model_of(**NETWORKS[network])
        policy, boards = policy_of(model), np.random.default_rng(0).random((9, 5, 5))
        space = Board().observation_space
        flat = np.array([gym.spaces.utils.flatten(space, board) for board in boards])
        np.testing.assert_allclose(policy.outputs(flat), policy.outputs(boards), atol=1e-7)
        np.testing.assert_allclose(policy.outputs(flat), probabilities(model, boards), atol=1e-6)

    @pytest.mark.parametrize("scaled", [True, False])
    def test_flat_images_do_not_say_where_their_channels_are(self, scaled: bool) -> None:
        """The same numbers are one image with channels last, and another with channels first."""
        model = ppo(Pictures((3, 4, 2)), policy_kwargs={"normalize_images": scaled})
        assert model.observation_space.shape == (2, 3, 4)
        flat = hr.AtLeast(0.9, 1, hr.Points(np.zeros((1, 24))), name="flat")
        with pytest.raises(ShapeMismatch, match=r"flat images do not .*give them the shape \(2, 3"):
            model.learn(64, callback=Handrail([flat]))
        with pytest.raises(ShapeMismatch, match="flat images do not say where their channels are"):
            hr.enforce(policy_of(model), [flat])


def test_a_learner_and_the_verbs(rules: Rulebook, tmp_path: Path) -> None:
    policy = hr.CategoricalPolicy.mlp(gym.make(BOARD), hidden=[32], seed=0)
    assert not hr.diagnose(policy, rules).conflicts
    agent = hr.Reinforce(BOARD, policy, rules, seed=0)
    for record in agent.learn(episodes=3, progress_bar=False):
        assert record.violation_after is not None
        assert record.violation_after <= 1e-6
    assert worst(agent.probabilities(SEEN)) <= 1e-6
    assert hr.certify(agent.policy, rules, tolerance=1e-6).certified
    assert hr.evaluate(agent, BOARD, rules, episodes=1).satisfied
    other = hr.CategoricalPolicy.mlp(gym.make(BOARD), hidden=[32], seed=1)
    visited = np.random.default_rng(0).random((50, 5, 5))
    edited = hr.edit(other, rules, visited).raise_if_refused()
    assert edited.influence.largest_change > 0.0
    assert worst(other.outputs(SEEN)) <= 1e-6
    hr.export_onnx(other, tmp_path / "board.onnx", rules, states=visited)
    np.testing.assert_allclose(
        by_onnx(tmp_path / "board.onnx", SEEN)[1], other.outputs(SEEN), atol=1e-6
    )


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((25, 1), r"but the policy observes \(5, 5\)\. Give the states the shape of the obs.*flat"),
        ((5, 4), r"states of shape \(5, 4\), but the policy observes \(5, 5\)\.$"),
        ((24,), r"states of shape \(24,\), but the policy observes \(5, 5\)\.$"),
    ],
)
def test_other_shapes_are_refused(shape: tuple[int, ...], message: str) -> None:
    spaces = Board().observation_space, Board().action_space
    given = [hr.AtLeast(0.9, 1, hr.Points(np.zeros((1, *shape))), name="a")]
    with pytest.raises(ShapeMismatch, match=message):
        constraints_of(given, spaces)


def test_shapes_are_not_mixed() -> None:
    policy = hr.CategoricalPolicy.mlp(gym.make(BOARD), hidden=[8], seed=0)
    board = hr.AtLeast(0.9, 1, hr.Points(SEEN[:1]), name="board")
    region = hr.AtLeast(0.9, 1, hr.Box(np.zeros(25), np.ones(25)), name="region")
    with pytest.raises(
        InvalidConstraint,
        match=r"'region' speaks of states of shape \(25,\), but 'board' of shape \(5, 5\)\. .* the "
        r"same quantities, all of them flat: state\.reshape\(-1\)\.$",
    ):
        hr.enforce(policy, [board, region])
    flat = hr.AtLeast(0.9, 1, hr.Points(SEEN[:1].reshape(1, 25)), name="board")
    assert hr.enforce(policy, [flat, region]).satisfied
    assert policy.outputs(SEEN[:1])[0, 1] >= 0.9 - 1e-6


def test_a_network_that_takes_no_flat_states_is_refused_in_words(rules: Rulebook) -> None:
    class Rows(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(5, 2, dtype=torch.float64)

        def forward(self, boards: torch.Tensor) -> torch.Tensor:
            outputs: torch.Tensor = self.layer(boards).mean(dim=1)
            return outputs

    with pytest.raises(InvalidRulebook, match=r"names 25 observations .*does not take them"):
        hr.enforce(hr.CategoricalPolicy(Rows()), rules)


def test_the_commands(file: Path, handrail: Caller, tmp_path: Path) -> None:
    def call(*arguments: str | Path) -> str:
        code, out, error = handrail(*arguments, "--import", "tests.support.environments")
        assert code == 0, error
        return " ".join(out.split())

    assert "All constraints can hold together" in call("check", file)
    model, run = tmp_path / "model.zip", tmp_path / "run"
    model_of().save(model)
    Run.create(run, parse(TEXT, "board")).learn()
    visited = tmp_path / "visited.npy"
    np.save(visited, np.random.default_rng(0).random((50, 5, 5)))
    for source, ending, tolerance in ((model, ".zip", "1e-5"), (run, ".safetensors", "1e-6")):
        edited = tmp_path / f"{source.stem}_edited{ending}"
        about = (edited, "--constraints", file)
        call("edit", source, *about[1:], "--out", edited, "--states", visited, "--prove")
        assert "0 of 1,002 constraint rows viol" in call("evaluate", *about, "--episodes", "1")
        proven = call("prove", *about, "--tolerance", tolerance)
        assert f"{edited}: 3 of 3 certified" in proven
        certificate = tmp_path / f"{edited.name}.certificate.json"
        assert call("verify", certificate, *about, "--tolerance", tolerance).endswith(
            f"{certificate} holds within {float(tolerance):g}."
        )
        exported = tmp_path / f"{edited.name}.onnx"
        call("export", *about, "--out", exported)
        shaped = ending == ".zip"  # a run plays on flat boards
        boards = SEEN if shaped else SEEN.reshape(2, 25)
        assert worst(by_onnx(exported, boards)[1]) <= 1e-5
    again = PPO.load(tmp_path / "model_edited.zip", device="cpu")
    assert worst(probabilities(again, SEEN)) <= 1e-5
