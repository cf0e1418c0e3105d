"""Slopes in files: what they become, in words, and through a whole run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import handrail as hr
from handrail.errors import InvalidConstraint
from handrail.rulebook.requirement import DeclaredActions
from handrail.rulebook.slope_requirement import parse_lipschitz, parse_monotone

NAMES = ["x", "x_dot", "phi", "phi_dot"]
DISCRETE = DeclaredActions.of(["left", "right"])
CONTINUOUS = DeclaredActions.of({"force": [-1.0, 1.0], "brake": [0.0, 1.0]})
REGION = "{x: [-1, 1], x_dot: [-1, 1], phi: [-0.2, 0.2], phi_dot: [-1, 1]}"


def write(tmp_path: Path, actions: str, constraint: str) -> hr.Rulebook:
    path = tmp_path / "rules.yaml"
    path.write_text(
        f"environment: CartPole-v1\nobservations: [{', '.join(NAMES)}]\nactions: {actions}\n"
        f"constraints:\n  - name: steer\n    region: {REGION}\n    {constraint}\n"
    )
    return hr.load_rulebook(path)


@pytest.mark.parametrize(
    ("text", "output", "index", "asked"),
    [
        ("force increasing in phi", hr.Mean(0), 2, "increasing"),
        ("  brake   decreasing in x_dot ", hr.Mean(1), 1, "decreasing"),
        ("0.5*force - brake increasing in x", hr.Mean({0: 0.5, 1: -1.0}), 0, "increasing"),
    ],
)
def test_monotone_is_read(text: str, output: Any, index: int, asked: str) -> None:
    read = parse_monotone(text, CONTINUOUS, NAMES)
    assert (read.output, read.index, read.asked) == (output, index, asked)


def test_lipschitz_is_read() -> None:
    read = parse_lipschitz("right within 2.5e-1 per phi", DISCRETE, NAMES)
    assert (read.output, read.index, read.asked) == (1, 2, 0.25)
    assert read.key != parse_lipschitz("right within 0.3 per phi", DISCRETE, NAMES).key
    assert read.key == parse_lipschitz("right  within 0.25 per phi", DISCRETE, NAMES).key


def test_nothing_but_actions_can_rise() -> None:
    with pytest.raises(InvalidConstraint, match="unknown action 'phi'"):
        parse_monotone("phi increasing in x", CONTINUOUS, NAMES)
    with pytest.raises(InvalidConstraint, match=r"unknown action 'left \+ right'"):
        parse_monotone("left + right increasing in x", DISCRETE, NAMES)


def test_a_file_becomes_constraints_and_words(tmp_path: Path) -> None:
    book = write(tmp_path, "[left, right]", "monotone: right increasing in phi")
    (rule,) = book.constraints
    assert isinstance(rule, hr.Monotone)
    assert (rule.output, rule.in_, rule.direction, rule.name) == (1, 2, "increasing", "steer")
    assert book.sentences[0].startswith("steer: right increasing in phi ")


def test_a_list_makes_a_constraint_each(tmp_path: Path) -> None:
    texts = "[right within 5 per phi, right within 1 per x]"
    book = write(tmp_path, "[left, right]", f"lipschitz: {texts}")
    first, second = book.constraints
    assert isinstance(first, hr.Lipschitz)
    assert isinstance(second, hr.Lipschitz)
    assert (first.constant, first.in_, second.constant, second.in_) == (5.0, 2, 1.0, 0)
    assert first.name == "steer: right within 5 per phi"


def test_a_run_learns_within_slopes_and_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    book = write(tmp_path, "[left, right]", "monotone: right decreasing in phi")
    policy = hr.CategoricalPolicy.mlp(gym.make("CartPole-v1"), [16], "tanh", seed=0)
    selection = hr.Everywhere(prove=True)
    learner = hr.Reinforce("CartPole-v1", policy, book, selection=selection)
    learner.learn(episodes=2)
    learner.save(tmp_path / "learner")
    again = hr.Reinforce.load(tmp_path / "learner")
    again.learn(episodes=1)
    assert hr.certify(again.policy, book).certified
