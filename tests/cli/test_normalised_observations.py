"""Commands about a model that was trained behind VecNormalize, and its statistics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stable_baselines3 import PPO

import handrail as hr
from handrail._types import Array
from handrail.sb3 import load, policy_of
from tests.cli.conftest import Caller
from tests.support.sb3_models import normalised, ppo, probabilities

RULES = """
environment: CartPole-v1
observations: [x, x_dot, phi, phi_dot]
actions: [left, right]
constraints:
  - name: leaning left
    region: {x: 0, x_dot: 0, phi: [-0.2, -0.1], phi_dot: [-0.5, 0]}
    require: right <= 0.2
"""
PHI = np.linspace(-0.2, -0.1, 101)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, its statistics, and constraints."""
    made = tmp_path_factory.mktemp("normalised")
    envs = normalised()
    model = ppo(envs)
    model.learn(128)
    model.save(made / "model.zip")
    envs.save(str(made / "statistics.pkl"))
    (made / "rules.yaml").write_text(RULES)
    return made


def right(folder: Path, name: str) -> Array:
    """Its probability at states of the box, by Stable-Baselines3 alone."""
    envs: Any = normalised().load(str(folder / "statistics.pkl"), normalised().venv)
    states = np.stack([0.0 * PHI, 0.0 * PHI, PHI, 0.0 * PHI - 0.2], axis=1)
    return probabilities(PPO.load(folder / name, device="cpu"), envs.normalize_obs(states))[:, 1]


def test_edited_proven_verified_exported_and_evaluated(folder: Path, handrail: Caller) -> None:
    rules = ("--constraints", folder / "rules.yaml")
    statistics = ("--statistics", folder / "statistics.pkl")
    assert right(folder, "model.zip").max() > 0.2
    edited = folder / "edited.zip"
    code, out, error = handrail(
        "edit", folder / "model.zip", *rules, *statistics, "-o", edited, "--prove"
    )
    assert (code, error) == (0, "")
    assert "note:" not in out
    assert right(folder, "edited.zip").max() <= 0.2
    code, out, _ = handrail("prove", edited, *rules, *statistics)
    assert code == 0
    assert "1 of 1 certified" in out
    certificate = folder / "edited.zip.certificate.json"
    code, out, _ = handrail("verify", certificate, edited, *rules, *statistics)
    assert code == 0
    assert out.endswith("holds.\n")
    code, _, error = handrail("verify", certificate, edited, *rules)  # of normalised numbers
    assert code == 2
    assert "is about other weights than those of this policy" in error
    code, out, _ = handrail("evaluate", edited, *rules, *statistics, "--episodes", "2")
    assert code == 0
    assert "; 0 of " in out
    policy = policy_of(load(edited, statistics=folder / "statistics.pkl"))
    played = hr.evaluate(policy, "CartPole-v1", episodes=2)
    assert f"{played.mean:.1f} ± {played.deviation:.1f}" in out
    code, out, _ = handrail("export", edited, *rules, *statistics, "--format", "numpy", "--prove")
    assert code == 0
    exported = hr.export.open_export(folder / "edited.npz").policy
    states = np.stack([0.0 * PHI, 0.0 * PHI, PHI, 0.0 * PHI - 0.2], axis=1)
    np.testing.assert_allclose(
        exported.outputs(states)[:, 1], right(folder, "edited.zip"), atol=1e-6
    )


def test_what_is_refused(folder: Path, handrail: Caller, tmp_path: Path) -> None:
    statistics = ("--statistics", folder / "statistics.pkl")
    rules = ("--constraints", folder / "rules.yaml")
    for arguments, words in (
        ((tmp_path, *statistics), f"belong to a .zip of Stable-Baselines3, but {tmp_path} is none"),
        ((tmp_path, "--best", *statistics), "--best is about a run, --statistics about a .zip"),
        (
            (folder / "model.zip", *rules, "--statistics", folder / "rules.yaml"),
            "cannot be read: UnpicklingError",
        ),
    ):
        for command in ("prove", "evaluate"):
            code, _, error = handrail(command, *arguments)
            assert code == 2
            assert words in error
