"""`handrail check`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import handrail as hr
from handrail.learning.episode import Start
from tests.cli.conftest import Caller
from tests.runs.test_run import TEXT


def test_check_explains_in_words(handrail: Caller) -> None:
    code, out, _ = handrail("check", "cartpole")
    assert code == 0
    assert "push right: right >= 0.95 at 9 states (x from -2 to 2, x_dot 0, phi 0.25" in out
    assert "18 rows, kernel condition" in out
    assert (
        "All constraints can hold together. Every constraint holds after 1 iteration: worst" in out
    )


LEANING = """
environment: CartPole-v1
observations: [x, x_dot, phi, phi_dot]
actions: [left, right]
constraints:
  - name: push right
    where: {x: [-1, 1], x_dot: 0, phi: 0.2, phi_dot: 0.1}
    require: right >= 0.9
settings: {network: {hidden: [100]}}
"""
OTHER_SIDE = """
  - name: push left
    where: {x: [-1, 1], x_dot: 0, phi: -0.2, phi_dot: -0.1}
    require: left >= 0.9
settings:"""


def elsewhere(out: str) -> tuple[str, float, float, float, dict[str, float]]:
    """What changed: the action, its mean before and after, the largest change, and where."""
    found = re.search(
        r"^Elsewhere: P\((\w+)\) ([\d.]+) → ([\d.]+) on average, at most ([\d.]+) at \((.*)\)\.$",
        out,
        re.MULTILINE,
    )
    assert found is not None, out
    action, *numbers, state = found.groups()
    where = {name: float(value) for name, value in (one.split(" = ") for one in state.split(", "))}
    return action, *map(float, numbers), where  # type: ignore[return-value]


def test_check_says_what_holding_changes_elsewhere(handrail: Caller, tmp_path: Path) -> None:
    """The numbers are those of the learner's own first holding."""
    file = tmp_path / "leaning.yaml"
    file.write_text(LEANING)
    code, out, _ = handrail("check", file)
    assert code == 0
    action, before, after, largest, where = elsewhere(out)
    book = hr.load_rulebook(file)
    env = book.make_environment()
    fresh, held = hr.runs.make_policy(book, env), hr.make_agent(book).policy
    begin = env.reset(seed=Start.of(book.settings.seed, 0).environment)[0].astype(np.float64)
    references = hr.enforcement.references_before_experience(
        None, env.observation_space, book, begin[None]
    )
    assert references is not None
    number = book.actions.index(action)
    assert before == pytest.approx(fresh.outputs(references.states)[:, number].mean(), abs=0.006)
    assert after == pytest.approx(held.outputs(references.states)[:, number].mean(), abs=0.006)
    change = np.abs(held.outputs(references.states) - fresh.outputs(references.states))
    assert largest == pytest.approx(change.max(), abs=0.006)
    state = references.states[change.max(axis=1).argmax()]
    assert list(where) == ["x", "x_dot", "phi", "phi_dot"]
    assert list(where.values()) == pytest.approx(list(state), rel=0.01)


def test_check_says_how_far_one_sided_knowledge_reaches(handrail: Caller, tmp_path: Path) -> None:
    file = tmp_path / "leaning.yaml"
    file.write_text(LEANING)
    _, alone, _ = handrail("check", file)
    assert (
        "The constraints are one-sided: some choice has none in its favour, so they move the rest "
        "as little as they can (reach 1e-05, after 1 update 0.001; as advice for everywhere: "
        "--set reach=10)." in alone
    )
    file.write_text(LEANING.replace("\nsettings:", OTHER_SIDE))
    _, both, _ = handrail("check", file)
    assert (
        "The constraints cover both sides of a choice, so they are advice for everywhere (reach "
        "10)." in both
    )
    file.write_text(LEANING)
    _, everywhere, _ = handrail("check", file, "--set", "reach=10")
    assert "some choice has none in its favour; reach is set to 10." in everywhere
    file.write_text(LEANING.replace("settings: {", "settings: {reach: {first: 1, updates: 5}, "))
    assert "; reach is set to 1, after 5 updates 0.001." in handrail("check", file)[1]
    # As advice for everywhere, what is one-sided moves the rest of the policy to that side.
    moved, stayed = (abs(one[2] - one[1]) for one in map(elsewhere, (everywhere, alone)))
    assert moved > 2.0 * stayed


WIDE = """
environment: CartPole-v1
observations: [x, x_dot, phi, phi_dot]
actions: [left, right]
constraints:
  - name: push right
    region: {x: [-2.5, 2.5], x_dot: 0, phi: [0.2, 0.25], phi_dot: 0}
    require: right >= 0.9
  - name: push left
    region: {x: [-2.5, 2.5], x_dot: 0, phi: [-0.25, -0.2], phi_dot: 0}
    require: left >= 0.9
settings: {network: {hidden: [500]}, enforcement: one_step, selection: maximum_deviation}
"""


def test_check_says_where_one_state_cannot_stand_for_a_region(
    handrail: Caller, tmp_path: Path
) -> None:
    file = tmp_path / "wide.yaml"
    file.write_text(WIDE)
    code, out, _ = handrail("check", file)
    assert code == 0
    found = re.search(
        r"^note: 'push (?:right|left)' and 1 more: too wide in x for 1 state at a time "
        r"\(maximum_deviation\)\. A step that moves the policy by 1 at x = (\S+) moves it by "
        r"(\S+) at x = (\S+)\. Cut along x into (\d+) parts or more, or hold the whole: selection "
        r"everywhere\.$",
        out,
        re.MULTILINE,
    )
    assert found is not None, out
    moved, share, reached, parts = map(float, found.groups())
    assert (abs(moved), reached) == (2.5, -moved)
    assert 0.0 < share < 0.1
    assert 4 <= parts <= 7
    width = 5.0 / parts
    file.write_text(WIDE.replace("[-2.5, 2.5]", f"[-2.5, {width - 2.5}]"))
    assert "too wide" not in handrail("check", file)[1]


@pytest.mark.parametrize("setting", ["selection=everywhere", "enforcement=exact"])
def test_where_the_whole_is_held_no_region_is_too_wide(
    handrail: Caller, tmp_path: Path, setting: str
) -> None:
    """Exact enforcement holds every state that a selection could choose."""
    file = tmp_path / "wide.yaml"
    file.write_text(WIDE)
    assert "too wide" not in handrail("check", file, "--set", setting)[1]


def test_check_names_conflicts(handrail: Caller, tmp_path: Path) -> None:
    file = tmp_path / "torn.yaml"
    file.write_text(
        TEXT.replace(
            "settings:",
            "  - {name: go back, where: {position: 0.2, one: 1}, require: back >= 0.9}\nsettings:",
        )
    )
    code, out, error = handrail("check", str(file))
    assert code == 2
    assert "conflict: 'go on [0]' and 'go back' ask for probabilities that do not exist" in out
    assert error == "error: These constraints contradict each other. Relax one of each conflict."


def test_check_notes_states_that_are_never_observed(handrail: Caller, tmp_path: Path) -> None:
    file = tmp_path / "far.yaml"
    file.write_text(TEXT.replace("position: [0.2, 0.6]", "position: [0.2, 7]"))
    code, out, _ = handrail("check", str(file), "--import", "tests.runs.test_run")
    assert code == 0
    assert "note: 1 of 2 states of 'go on' lie outside the observation space." in out


def test_modules_of_the_present_folder_are_imported(
    tmp_path: Path, handrail: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    (tmp_path / "my_own_envs.py").write_text("import tests.runs.test_run\n")
    (tmp_path / "broken_envs.py").write_text("raise RuntimeError('boom')\n")
    (tmp_path / "corridor.yaml").write_text(TEXT)
    assert handrail("check", "corridor.yaml", "--import", "my_own_envs")[0] == 0
    code, _, error = handrail("check", "corridor.yaml", "--import", "broken_envs")
    assert code == 2
    assert "--import broken_envs: RuntimeError: boom." in error
    _, _, error = handrail("check", "corridor.yaml", "--import", "my_own_envs.py")
    assert "expected the name of a module, such as my_own_envs." in error


TANK = """
environment: Tank-v0
observations: [pressure, temperature, level]
actions: {valve: [-1, 1]}
constraints:
  - name: open
    region: {pressure: [1.6e+5, 1.8e+5], temperature: [285, 300], level: [0.1, 0.8]}
    require: valve >= 0.5
  - name: close
    region: {pressure: [1.6e+5, 1.8e+5], temperature: [285, 300], level: [1.2, 1.9]}
    require: valve <= -0.5
settings: {network: {hidden: [64]}}
"""


def test_check_says_when_scaling_is_the_remedy(handrail: Caller, tmp_path: Path) -> None:
    gym.register("Tank-v0", entry_point="tests.support.environments:Tank")
    try:
        plain, scaled = tmp_path / "plain.yaml", tmp_path / "scaled.yaml"
        plain.write_text(TANK)
        scaled.write_text(TANK.replace("[64]", "[64], scale: auto"))
        code, out, error = handrail("check", str(plain))
        advice = "Scale the observations: settings: {network: {scale: auto}}"
        small = "temperature (up to 3.2e+02) and level (up to 2) are small beside pressure"
        assert code == 2
        assert small in out + error
        assert advice in out + error
        code, out, error = handrail("check", str(scaled))
        assert code == 0
        assert advice not in out + error
        assert "All constraints can hold together." in out
        # Whoever does not check is told by the training, before its first step.
        code, out, error = handrail("train", str(plain), "--episodes", "1", "--out", tmp_path / "r")
        assert code == 2
        assert "small beside pressure (up to 1.8e+05)" in error
        assert advice in error
    finally:
        del gym.registry["Tank-v0"]
