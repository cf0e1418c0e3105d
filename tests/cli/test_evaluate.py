"""`handrail evaluate` on files: edited policies, saved learners, models of Stable-Baselines3."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import handrail as hr
from handrail.cli import app as commands
from handrail.cli import evaluate as scoring
from handrail.rulebook.rulebook import parse, with_settings
from handrail.runs.policy_file import open_policy
from handrail.runs.run import Run
from handrail.sb3.callback import TOLERANCE
from tests.runs.test_run import TEXT
from tests.support.sb3_models import ppo

Evaluate = Callable[..., tuple[int, str, str]]


@pytest.fixture
def evaluate(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Evaluate:
    def call(*arguments: str | Path) -> tuple[int, str, str]:
        """Exit code, output and errors of `handrail evaluate …`."""
        monkeypatch.setattr(sys, "argv", ["handrail", "evaluate", *map(str, arguments)])
        monkeypatch.setattr(scoring.out, "width", 200)
        with pytest.raises(SystemExit) as exit_code:
            commands.main()
        captured = capsys.readouterr()
        return int(exit_code.value.code or 0), captured.out, captured.err

    return call


def test_a_saved_learner(evaluate: Evaluate, tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", parse(TEXT, "corridor"))
    run.learn()
    agent = run.agent()
    agent.save(tmp_path / "agent.safetensors")
    code, out, error = evaluate(tmp_path / "agent.safetensors", "--episodes", "3")
    assert (code, error) == (0, "")
    expected = hr.evaluate(
        agent, run.rulebook.make_environment(), list(run.rulebook.constraints), 3, tolerance=1e-6
    )
    assert f"agent.safetensors: policy after {agent.episodes} episodes: {expected}" in out
    assert "of 2 rows above 0" in out
    stricter = tmp_path / "stricter.yaml"
    stricter.write_text(TEXT.replace("on >= 0.9", "on >= 0.9999"))
    for path in (tmp_path / "agent.safetensors", tmp_path / "run"):
        code, out, _ = evaluate(path, "--constraints", stricter, "--episodes", "2")
        assert code == 0
        assert "2 of 2 constraint rows violated" in out


def test_a_model_of_stable_baselines3(evaluate: Evaluate, tmp_path: Path) -> None:
    model = ppo()
    model.save(tmp_path / "model.zip")
    code, _, error = evaluate(tmp_path / "model.zip")
    assert code == 2
    assert "does not say which environment its policy acts in" in error
    assert "--constraints FILE" in error
    code, out, error = evaluate(
        tmp_path / "model.zip", "--constraints", "cartpole", "--episodes", "3", "--deterministic"
    )
    assert (code, error) == (0, "")
    book = hr.load_rulebook("cartpole")
    expected = hr.evaluate(
        model, book.make_environment(), list(book.constraints), 3, deterministic=True
    )
    assert f"PPO after 0 steps: {expected}" in out
    assert "18 of 18 constraint rows violated" in out
    assert "note: if it was trained with VecNormalize" in out


def test_a_model_is_not_held_to_more_than_float32_can(tmp_path: Path) -> None:
    ppo().save(tmp_path / "model.zip")
    opened = open_policy(tmp_path / "model.zip", "")
    book = hr.load_rulebook("cartpole")
    assert book.settings.tolerance == 1e-6
    assert opened.with_constraints_of(book).tolerance == opened.tolerance == TOLERANCE == 1e-5
    coarse = with_settings(book, tolerance=1e-3)
    assert opened.with_constraints_of(coarse).tolerance == 1e-3


def test_what_cannot_be_evaluated(evaluate: Evaluate, tmp_path: Path) -> None:
    ppo().save(tmp_path / "model.zip")
    for arguments, words in (
        ((tmp_path / "model",), f"Did you mean {tmp_path / 'model.zip'}?"),
        ((tmp_path / "model.zip", "--constraints", "acrobot"), "acrobot names 6 observations"),
        ((tmp_path,), "holds no run"),
    ):
        code, _, error = evaluate(*arguments)
        assert code == 2
        assert words in error
