"""Rulebooks: what a file says, with other settings, and given to every verb."""

from __future__ import annotations

import dataclasses
import json
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from torch import nn

import handrail as hr
from handrail.constraints.output_bounds import AtLeast
from handrail.errors import InvalidRulebook
from handrail.rulebook import (
    constraints_of,
    load_rulebook,
    parse,
    with_settings,
)
from handrail.rulebook.environment import EnvironmentSpec
from handrail.rulebook.picture import Picture
from handrail.settings import Everywhere, MaximumDeviation, MaximumReturn, RunSettings
from tests.support.constraint_files import (
    HEAD,
    ONE,
    VALIDATOR,
)


def test_everything_a_file_says() -> None:
    text = (
        "description: All of it\n"
        "environment: {id: CartPole-v1, max_episode_steps: 7, options: {sutton_barto_reward: true}}"
        "\nobservations: [x, x_dot, phi, phi_dot]\nactions: [left, right]\n"
        "definitions: {anything: [goes]}\n"
        "settings: {episodes: 3, step_size: 1e-3, "
        "network: {hidden: [8], scale: {phi: 0.5}, centre: {x: 2}}}\n"
        "pass_mark: 5\n"
        "picture: {across: phi, up: x, across_range: [-1, 1], up_range: [0, 2], at: {x_dot: 3}, "
        "action: right}\n" + ONE
    )
    rules = parse(text, "all.yaml")
    assert (rules.name, rules.text, rules.description) == ("all", text, "All of it")
    assert rules.environment == EnvironmentSpec("CartPole-v1", 7, {"sutton_barto_reward": True})
    assert rules.observations == ("x", "x_dot", "phi", "phi_dot")
    assert rules.actions == ("left", "right")
    assert rules.settings == RunSettings.model_validate(
        {
            "episodes": 3,
            "step_size": 1e-3,
            "network": {"hidden": [8], "scale": {"phi": 0.5}, "centre": {"x": 2}},
        }
    )
    assert rules.scale() == (1.0, 1.0, 0.5, 1.0)
    assert rules.mlp_arguments() == {"scale": rules.scale(), "centre": (2.0, 0.0, 0.0, 0.0)}
    ranges = with_settings(rules, network={"scale": "auto", "centre": {}})
    assert ranges.mlp_arguments() == {"scale": "auto"}
    assert ranges.scale() == (1.0, 1.0, 1.0, 1.0)
    assert rules.pass_mark == 5.0
    assert rules.picture == Picture(2, 0, (-1.0, 1.0), (0.0, 2.0), (0.0, 3.0, 0.0, 0.0), 1)
    env = rules.make_environment()
    assert env.spec is not None
    assert env.spec.max_episode_steps == 7
    env.close()
    assert pickle.loads(pickle.dumps(rules)).sentences == rules.sentences
    with pytest.raises(dataclasses.FrozenInstanceError):
        rules.name = "other"  # type: ignore[misc]


def test_settings_from_the_command_line() -> None:
    rules = parse(HEAD + "settings: {episodes: 3, network: {hidden: [8]}}\n" + ONE, "few.yaml")
    changed = with_settings(rules, seed=4, network={"activation": "tanh"})
    assert changed.settings.model_dump(exclude_unset=True) == {
        "episodes": 3,
        "seed": 4,
        "network": {"hidden": [8], "activation": "tanh"},
    }
    assert rules.settings.seed == 0
    assert changed.constraints is rules.constraints
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"step_size": -1.0}, "few, settings.step_size: expected greater than 0, but got -1.0."),
        ({"sed": 1}, "few, settings.sed: unknown key 'sed' in settings. Known here: step_size, "),
        ({"network": 3}, "few, settings.network: expected a mapping of keys and values"),
        (
            {"network": {"hiden": [3]}},
            "Known here: hidden, activation, std, std_range, std_varies, scale, centre, bounded, "
            "residual.",
        ),
        ({"network": {"scale": {"y": 1.0}}}, "settings.network.scale: unknown observation 'y'."),
        ({"network": {"centre": {"y": 1.0}}}, "settings.network.centre: unknown observation 'y'."),
        (
            {"network": {"std": 0.2}},
            "settings.network.std: it is how widely continuous actions vary, but these are "
            "discrete. Leave it out.",
        ),
    ]
    for overrides, message in wrong:
        with pytest.raises(InvalidRulebook, match=re.escape(message)):
            with_settings(rules, **overrides)


SELECTED: list[tuple[str, Any, hr.Everywhere | hr.MaximumReturn | hr.MaximumDeviation]] = [
    ("", None, Everywhere()),
    ("everywhere", None, Everywhere()),
    ("{prove: true, margin: 0.1}", None, Everywhere(prove=True, margin=0.1)),
    ("maximum_deviation", None, MaximumDeviation()),
    ("{strategy: maximum_return, points: 9, states: 2}", None, MaximumReturn(points=9, states=2)),
    ("", "maximum_return", MaximumReturn()),
    ("", {"prove": True}, Everywhere(prove=True)),
    ("{margin: 0.1}", {"prove": True}, Everywhere(prove=True, margin=0.1)),
    ("{margin: 0.1}", "everywhere", Everywhere(margin=0.1)),
    ("{margin: 0.1}", "maximum_return", MaximumReturn()),
    ("{margin: 0.1}", MaximumReturn(points=3), MaximumReturn(points=3)),
    ("{strategy: maximum_return, points: 9}", {"states": 2}, MaximumReturn(points=9, states=2)),
    (
        "{strategy: maximum_return, points: 9}",
        {"strategy": "maximum_deviation", "states": 2},
        MaximumDeviation(states=2),
    ),
    ("{strategy: maximum_return, points: 9}", Everywhere(sample=5), Everywhere(sample=5)),
]


@pytest.mark.parametrize(("written", "override", "expected"), SELECTED)
def test_selections_are_merged(
    written: str, override: Any, expected: hr.Everywhere | hr.MaximumReturn | hr.MaximumDeviation
) -> None:
    selection = f"selection: {written}" if written else ""
    rules = parse(f"{HEAD}settings: {{seed: 3, {selection}}}\n{ONE}", "few.yaml")
    VALIDATOR.validate(rules.source.data)
    if override is not None:
        rules = with_settings(rules, selection=override)
    assert rules.settings.selection == expected
    again = with_settings(rules, episodes=7)
    assert again.settings.selection == expected
    # As a saved run does it.
    saved = json.loads(json.dumps(rules.settings.model_dump()))
    assert with_settings(parse(rules.text, "few"), **saved).settings == rules.settings


def test_wrong_selections_from_the_command_line() -> None:
    rules = parse(f"{HEAD}settings: {{selection: maximum_return}}\n{ONE}", "few.yaml")
    wrong: list[tuple[Any, str]] = [
        (3, "few, settings.selection: expected everywhere, maximum_return or maximum_deviation"),
        ("everwhere", "but got 'everwhere'. Did you mean 'everywhere'?"),
        ({"prove": True}, "few, settings.selection.prove: unknown key 'prove' in selection 'max"),
        ({"points": 0}, "few, settings.selection.points: expected greater than or equal to 1, but"),
    ]
    for override, message in wrong:
        with pytest.raises(InvalidRulebook, match=re.escape(message)):
            with_settings(rules, selection=override)


BATCH = hr.Batch(np.array([[0.0, 0.0, 0.1, 0.0]]), np.array([1]), np.array([1.0]))


def exported(policy: hr.Policy, given: Any) -> object:
    with TemporaryDirectory() as folder:
        return hr.export_numpy(policy, Path(folder) / "policy.npz", given).report


VERBS: dict[str, Callable[[hr.Policy, Any], object]] = {
    "measure": lambda policy, given: hr.measure(policy, given).violations.tolist(),
    "diagnose": lambda policy, given: str(hr.diagnose(policy, given)),
    "enforce": lambda policy, given: hr.enforce(policy, given).worst_violation,
    "edit": lambda policy, given: hr.edit(policy, given).relative_change,
    "certify": lambda policy, given: [one.lowest for one in hr.certify(policy, given)],
    "safe_returns": lambda policy, given: hr.safe_returns(policy, BATCH, given, 1e-3).multipliers[
        0
    ],
    "evaluate": lambda policy, given: str(hr.evaluate(policy, "CartPole-v1", given, episodes=1)),
    "Reinforce": lambda policy, given: str(hr.Reinforce("CartPole-v1", policy, given)),
    "export_numpy": exported,
    "constraints_of": lambda policy, given: [one.name for one in constraints_of(given, policy)],
}


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_takes_a_list_a_rulebook_a_path_or_a_name(verb: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(load_rulebook("cartpole").text, encoding="utf-8")
    rules = load_rulebook("cartpole")
    answers = [
        VERBS[verb](hr.CategoricalPolicy.mlp(gym.make("CartPole-v1"), hidden=(64,), seed=1), given)
        for given in (list(rules.constraints), rules, "cartpole", "cartpole.yaml", file, str(file))
    ]
    assert all(answer == answers[0] for answer in answers)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_refuses_a_file_about_another_environment(verb: str) -> None:
    policy = hr.CategoricalPolicy.mlp(gym.make("CartPole-v1"), hidden=(8,), seed=1)
    message = r"acrobot names 6 observations \(cos1, .*environment \(Acrobot-v1\)\?"
    with pytest.raises(InvalidRulebook, match=message):
        VERBS[verb](policy, "acrobot")
    with pytest.raises(InvalidRulebook, match=r"'cartpool' does not exist.*Did you mean 'cartpole"):
        VERBS[verb](policy, "cartpool")


def test_a_file_with_another_kind_or_number_of_actions() -> None:
    rules = load_rulebook("cartpole")
    three = hr.CategoricalPolicy(nn.Linear(4, 3))
    with pytest.raises(InvalidRulebook, match=r"names 2 actions \(left.*the policy has 3"):
        constraints_of(rules, three)
    continuous = hr.GaussianPolicy(nn.Linear(4, 1), std=1.0)
    with pytest.raises(InvalidRulebook, match="discrete actions, but the policy has 1 contin"):
        constraints_of(rules, continuous)
    constraints_of(rules, hr.CategoricalPolicy(nn.Linear(4, 2)))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (AtLeast(0.9, 0, hr.Points([0.0] * 4), "alone"), "the single AtLeast 'alone'. Write [con"),
        (7, "or the path or bundled name of a constraint file, but got int."),
        (iter([]), "but got list_iterator."),
    ],
)
def test_what_is_no_list_of_constraints(given: Any, message: str) -> None:
    policy = hr.CategoricalPolicy(nn.Linear(4, 2))
    for verb in ("measure", "diagnose", "enforce", "edit", "constraints_of"):
        with pytest.raises(hr.errors.InvalidConstraint, match=re.escape(message)):
            VERBS[verb](policy, given)


def test_certify_takes_one_or_many() -> None:
    rules = load_rulebook("cartpole")
    policy = hr.CategoricalPolicy.mlp(gym.make("CartPole-v1"), hidden=(64,), seed=1)
    hr.enforce(policy, rules)
    one, many = hr.certify(policy, rules.constraints[0]), hr.certify(policy, rules, tolerance=1e-6)
    assert isinstance(one, hr.Certificate)
    assert isinstance(many, hr.Certificates)
    assert [each.name for each in many] == [each.name for each in rules.constraints]
    assert many.certified
    assert many.worst_violation <= 1e-6
    assert many[0].name == one.name
    assert len(many[:2]) == 2
    assert str(many).startswith(f"{len(many)} of {len(many)} certified")
    with pytest.raises(hr.errors.InvalidConstraint, match="The list of constraints is empty"):
        hr.certify(policy, [])
