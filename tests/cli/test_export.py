"""`handrail export`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import gymnasium as gym
import numpy as np
import onnxruntime
import pytest
import torch

import handrail as hr
from handrail.export.numpy_file import LOADER
from handrail.rulebook.rulebook import load_rulebook, parse, with_settings
from handrail.runs.run import Run
from tests.cli.conftest import Caller
from tests.export.test_exported import by_numpy, by_onnx, random_states

Command = Callable[..., tuple[int, str]]
FILE = """
environment: CartPole-v1
observations: [x, x_dot, phi, phi_dot]
actions: [left, right]
constraints:
  - name: lean right
    region: {x: [-1, 1], x_dot: 0, phi: [0.15, 0.2], phi_dot: [0, 0.1]}
    require: right >= 0.9
  - name: lean left
    where: {x: [-1, 0, 1], x_dot: 0, phi: -0.2, phi_dot: 0}
    require: left >= 0.9
settings: {episodes: 2, network: {hidden: [100]}}
"""


@pytest.fixture
def command(handrail: Caller) -> Command:
    def call(*arguments: str | Path) -> tuple[int, str]:
        """Exit code, and what `handrail export …` said."""
        code, out, error = handrail("export", *arguments)
        return code, out + error

    return call


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export") / "group"
    for seed in (0, 1):
        Run.create(folder / f"seed-{seed}", with_settings(parse(FILE, "file"), seed=seed)).learn()
    return folder


def test_the_command_on_a_run(command: Command, group: Path, tmp_path: Path) -> None:
    run = group / "seed-1"
    code, text = command(run, "--format", "numpy")
    assert code == 0, text
    assert "file, seed 1: policy after 2 episodes" in text
    assert "constraints satisfied (rows at points: 3, regions: 1)" in text
    assert LOADER.strip() in text
    states = random_states(20, 4)
    expected = Run.open(run).agent().policy.outputs(states)
    np.testing.assert_allclose(by_numpy(run / "policy.npz", states), expected, atol=1e-12)

    code, text = command(run, "--format", "numpy")
    assert code != 0
    assert re.search(r"policy.npz exists already. Delete it first, or choose .* --out", text)

    code, text = command(run, "-o", tmp_path / "mine.onnx")
    assert code == 0, text
    np.testing.assert_allclose(by_onnx(tmp_path / "mine.onnx", states)[1], expected, atol=1e-12)
    session = onnxruntime.InferenceSession(tmp_path / "mine.onnx")
    about = session.get_modelmeta().custom_metadata_map
    assert about["constraints"] == FILE
    assert json.loads(about["actions"]) == ["left", "right"]


@pytest.mark.parametrize("name", ["policy.npz", "policy.onnx"])
def test_the_same_policy_gives_the_same_file(
    command: Command, group: Path, tmp_path: Path, name: str
) -> None:
    kind = "numpy" if name.endswith("npz") else "onnx"
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        code, text = command(group / "seed-0", "--format", kind, "-o", tmp_path / folder / name)
        assert code == 0, text
    assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_the_command_takes_other_constraints(command: Command, group: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(FILE.replace("right >= 0.9", "left >= 0.9"))
    target = tmp_path / "policy.npz"
    code, text = command(
        *(group / "seed-0", "--format", "numpy", "--constraints", other, "-o", target)
    )
    assert code == 0, text
    assert "constraints NOT satisfied" in text
    with np.load(target) as archive:
        assert json.loads(str(archive["metadata"]))["constraints"] == other.read_text()


def test_the_command_refuses_a_wrong_ending(command: Command, group: Path, tmp_path: Path) -> None:
    target = tmp_path / "policy.onnx"
    code, text = command(group / "seed-0", "--format", "numpy", "-o", target)
    assert code != 0
    assert f"--out {target} is the name of a file of the format onnx: say --format onnx" in text
    assert not target.exists()
    code, text = command(group / "seed-0", "-o", tmp_path / "policy.npz")
    assert "say --format numpy, or" in text
    code, text = command(group / "seed-0", "-o", tmp_path / "policy.pt")
    assert "format onnx is written as a .onnx file, so --out" in text


def test_a_run_that_has_learned_nothing_has_no_policy(command: Command, tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", parse(FILE, "file"))
    code, text = command(run.folder, "--format", "numpy")
    assert code != 0
    assert "has learned nothing yet, so there is no policy. Continue it first" in text
    assert not (run.folder / "policy.npz").exists()


def test_the_command_wants_one_run(command: Command, group: Path, tmp_path: Path) -> None:
    code, text = command(group)
    assert code != 0
    assert re.search(
        r"A file holds one policy, but .* holds 2 runs. Name one of them:.*seed-0", text
    )
    code, text = command(tmp_path)
    assert "holds no run" in text
    code, text = command(tmp_path / "nothing.safetensors")
    assert "There is no file" in text


def test_the_command_on_a_saved_learner(command: Command, tmp_path: Path) -> None:
    policy = hr.CategoricalPolicy.mlp(gym.make("CartPole-v1"), hidden=[50], seed=0)
    agent = hr.Reinforce("CartPole-v1", policy, list(load_rulebook("cartpole").constraints))
    agent.learn(episodes=1, progress_bar=False)
    agent.save(tmp_path / "agent.safetensors")
    code, text = command(tmp_path / "agent.safetensors", "--format", "numpy")
    assert code == 0, text
    states = random_states(20, 4)
    np.testing.assert_allclose(
        by_numpy(tmp_path / "agent.npz", states), policy.probabilities(states), atol=1e-12
    )
    with np.load(tmp_path / "agent.npz") as archive:
        report = json.loads(str(archive["metadata"]))["report"]
    assert len(report["rows"]) == 18
    assert report["satisfied"] is True


def test_the_command_on_a_model_of_stable_baselines3(command: Command, tmp_path: Path) -> None:
    sb3 = pytest.importorskip("stable_baselines3")
    model = sb3.PPO("MlpPolicy", "CartPole-v1", device="cpu", seed=0)
    model.save(tmp_path / "model.zip")
    for kind, ending in (("onnx", ".onnx"), ("numpy", ".npz")):
        code, text = command(tmp_path / "model.zip", "--format", kind)
        assert code == 0, text
        assert "PPO after 0 steps" in text
        assert (tmp_path / f"model{ending}").is_file()
    states = random_states(20, 4)
    with torch.no_grad():
        observations = torch.as_tensor(states, dtype=torch.float32)
        expected = model.policy.get_distribution(observations).distribution.probs.numpy()
    np.testing.assert_allclose(by_onnx(tmp_path / "model.onnx", states)[1], expected, atol=1e-6)
    np.testing.assert_allclose(by_numpy(tmp_path / "model.npz", states), expected, atol=1e-6)
    assert "note: if it was trained with VecNormalize, it sees normalised observations" in text
    assert "no constraints" in text

    target = tmp_path / "with.npz"
    arguments = ("--format", "numpy", "--constraints", "cartpole", "-o", target)
    code, text = command(tmp_path / "model.zip", *arguments)
    assert code == 0, text
    assert "constraints NOT satisfied (rows at points: 18, regions: 0)" in text
    with np.load(target) as archive:
        about = json.loads(str(archive["metadata"]))
    assert about["constraints"] == load_rulebook("cartpole").text
    assert about["actions"] == ["left", "right"]
    code, text = command(tmp_path / "model.zip", "--constraints", "acrobot")
    assert code != 0
    assert "acrobot names 6 observations" in text
