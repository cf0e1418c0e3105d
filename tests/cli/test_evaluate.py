"""`handrail evaluate`: runs, edited policies, saved learners, models of Stable-Baselines3."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

import handrail as hr
from handrail.rulebook.rulebook import parse, with_settings
from handrail.runs.policy_file import open_policy
from handrail.runs.run import Run
from tests.cli.conftest import Caller
from tests.cli.test_prove import LEANING
from tests.runs.test_run import TEXT
from tests.support.sb3_models import ppo


def test_evaluate_reports_scores_and_obedience(group: Path, handrail: Caller) -> None:
    code, out, _ = handrail("evaluate", str(group), "--episodes", "3")
    assert code == 0
    assert out.count("3 episodes:") == 2
    assert "0 of 2 constraint rows violated" in out
    assert "go on [0]" in out


def test_an_interrupted_evaluation_says_where(handrail: Caller, tmp_path: Path) -> None:
    text = TEXT.replace("Corridor-v0", "IsInterruptedInEpisode5-v0")
    Run.create(tmp_path / "run", with_settings(parse(text, "corridor"), episodes=1)).learn()
    code, _, error = handrail("evaluate", tmp_path / "run")
    assert code == 130
    assert "Episode 5: Interrupted while waiting for step 1 of the environment IsInterr" in error


def test_evaluate_says_what_it_plays(group: Path, handrail: Caller, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(group / "seed-4", copy)
    _, out, _ = handrail("evaluate", str(copy), "--episodes", "1", "--rows", "1")
    assert "seed 4 (policy after 12 episodes)" in out
    assert "1 further row no worse" in out
    max((copy / "checkpoints").iterdir()).unlink()  # that before the first step is left
    _, out, _ = handrail("evaluate", str(copy), "--episodes", "1")
    assert "policy after 0 episodes, 12 behind what was recorded: resume it first" in out


def test_a_saved_learner(handrail: Caller, tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", parse(TEXT, "corridor"))
    run.learn()
    agent = run.agent()
    agent.save(tmp_path / "agent.safetensors")
    code, out, error = handrail("evaluate", tmp_path / "agent.safetensors", "--episodes", "3")
    assert (code, error) == (0, "")
    expected = hr.evaluate(
        agent, run.rulebook.make_environment(), list(run.rulebook.constraints), 3, tolerance=1e-6
    )
    assert f"agent.safetensors: policy after {agent.episodes} episodes: {expected}" in out
    assert "2 constraint rows within their bounds" in out
    stricter = tmp_path / "stricter.yaml"
    stricter.write_text(TEXT.replace("on >= 0.9", "on >= 0.9999"))
    for path in (tmp_path / "agent.safetensors", tmp_path / "run"):
        code, out, _ = handrail("evaluate", path, "--constraints", stricter, "--episodes", "2")
        assert code == 0
        assert "2 of 2 constraint rows violated" in out


def test_a_model_of_stable_baselines3(handrail: Caller, tmp_path: Path) -> None:
    model = ppo()
    model.save(tmp_path / "model.zip")
    code, _, error = handrail("evaluate", tmp_path / "model.zip")
    assert code == 2
    assert "does not say which environment its policy acts in" in error
    assert "--constraints FILE" in error
    code, out, error = handrail(
        "evaluate",
        tmp_path / "model.zip",
        "--constraints",
        "cartpole",
        "--episodes",
        "3",
        "--deterministic",
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
    assert opened.with_constraints_of(book).tolerance is None  # as exactly as its precision allows
    found = hr.evaluate(opened.policy, book.make_environment(), book.constraints, episodes=1)
    assert found.tolerance == 1e-5
    coarse = with_settings(book, tolerance=1e-3)
    assert opened.with_constraints_of(coarse).tolerance == 1e-3


def test_what_cannot_be_evaluated(handrail: Caller, tmp_path: Path) -> None:
    ppo().save(tmp_path / "model.zip")
    for arguments, words in (
        ((tmp_path / "model",), f"Did you mean {tmp_path / 'model.zip'}?"),
        ((tmp_path / "model.zip", "--constraints", "acrobot"), "acrobot names 6 observations"),
        ((tmp_path,), "holds no run"),
    ):
        code, _, error = handrail("evaluate", *arguments)
        assert code == 2
        assert words in error


def test_fresh_states(handrail: Caller, tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", parse(LEANING, "leaning"))
    run.learn()
    _, out, _ = handrail("evaluate", run.folder, "--episodes", "1", "--fresh", "3000")
    assert "On 3,000 fresh states of the regions: 0 violated (0.00%)" in out


def test_the_best_policy_of_a_run(handrail: Caller, tmp_path: Path) -> None:
    settings = {"episodes": 105, "step_size": 0.002}
    run = Run.create(tmp_path / "run", with_settings(parse(TEXT, "corridor"), **settings))
    run.learn()
    best = run.best()
    which = f"best policy, after {best.checkpoint.progress.episodes} episodes, of which the last"
    code, out, _ = handrail("evaluate", run.folder, "--best", "--episodes", "2")
    assert code == 0
    assert f"seed 4 ({which} 100 averaged {best.average:.1f}): 2 episodes: " in out
    _, by_file, _ = handrail(
        *("evaluate", run.folder, "--best", "--constraints", run.folder / "constraints.yaml"),
        *("--episodes", "2"),
    )
    assert which in by_file
    code, out, _ = handrail("prove", run.folder, "--best")
    assert (code, which in out) == (0, True)
    certificate = run.folder / "best.certificate.json"
    code, out, _ = handrail("verify", certificate, run.folder, "--best")
    assert code == 0
    assert f"{certificate} holds." in out
    code, _, error = handrail("verify", certificate, run.folder)
    assert code == 2
    assert "other weights" in error
    code, out, _ = handrail("export", run.folder, "--best", "--format", "numpy")
    assert code == 0
    assert which in out
    exported = hr.export.open_export(run.folder / "best.npz").policy
    states = run.best_agent().policy.outputs([[0.3, 1.0]])
    np.testing.assert_allclose(exported.outputs([[0.3, 1.0]]), states, rtol=0.0, atol=1e-15)
    run.agent().save(tmp_path / "agent.safetensors")
    code, _, error = handrail("evaluate", tmp_path / "agent.safetensors", "--best")
    assert code == 2
    assert "Only a run keeps its best policy beside its last" in error


def test_a_constraint_file_in_the_place_of_a_run(handrail: Caller, tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(TEXT)
    code, _, error = handrail("evaluate", tmp_path / "rules.yaml")
    assert code == 2
    assert "is a text, such as a constraint file, but what is asked for here is a run or" in error
    assert "Constraints are named by --constraints" in error
