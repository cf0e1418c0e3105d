"""Files about MultiDiscrete and MultiBinary actions: every verb knows the names of their branches.

What is held is compared with the probabilities that whoever acts computes for himself.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3 import PPO

import handrail as hr
from handrail._types import Array
from handrail.constraints import Branch
from handrail.errors import InvalidRulebook
from handrail.report import episode_figure, policy_figure
from handrail.rulebook import Rulebook, parse
from handrail.runs import Run, open_policy
from handrail.sb3 import Handrail, policy_of
from handrail.studio.python_code import python_of
from tests.cli.conftest import Caller
from tests.support.constraint_files import VALIDATOR
from tests.support.environments import CAR, Car

NAMED = "{gear: [low, middle, high], brake: [off, on]}"

TEXT = f"""
environment: {CAR}
observations: [gap, speed]
actions: {NAMED}
constraints:
  - {{name: near, region: {{gap: [-1, -0.5], speed: [-1, 1]}}, require: brake.on >= 0.9}}
  - name: slow
    where: {{gap: [-0.75, 0.5], speed: -0.5}}
    require: gear.middle + gear.high <= 0.1
  - {{name: fast, where: {{gap: 0.5, speed: 0.5}}, prefer: gear.high by 0.5}}
  - {{name: far, where: {{gap: 1, speed: 0}}, any of: [brake.off >= 0.8, gear.low >= 0.8]}}
  - {{name: eager, region: {{gap: [0, 0.5], speed: 0}}, lipschitz: gear.high within 8 per gap}}
settings: {{episodes: 1, network: {{hidden: [16]}}, selection: {{sample: 300}}}}
picture: {{across: gap, up: speed, across_range: [-1, 1], up_range: [-1, 1], action: brake.on}}
"""

NEAR = np.random.default_rng(0).uniform([-1, -1], [-0.5, 1], (200, 2))
SLOW, FAST, FAR = np.array([[-0.75, -0.5], [0.5, -0.5]]), np.array([[0.5, 0.5]]), np.array([[1, 0]])


def worst(gear: Any, brake: Any) -> float:
    """The largest violation, from functions of states that return (n, 3) and (n, 2)."""
    fast = np.log(gear(FAST))[0]
    return max(
        float((0.9 - brake(NEAR)[:, 1]).max()),
        float((gear(SLOW)[:, 1:].sum(axis=1) - 0.1).max()),
        float((fast[:2] - fast[2] + 0.5).max()),
        float(min(0.8 - brake(FAR)[0, 0], 0.8 - gear(FAR)[0, 0])),
    )


@pytest.fixture
def rules() -> Rulebook:
    return parse(TEXT, "car")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "car.yaml"
    path.write_text(TEXT, encoding="utf-8")
    return path


def test_what_a_file_says(rules: Rulebook) -> None:
    assert rules.actions == ("gear.low", "gear.middle", "gear.high", "brake.off", "brake.on")
    assert rules.branches == (3, 2)
    near, slow, fast, *_ = rules.constraints
    assert isinstance(near, hr.AtLeast)
    assert near.action == Branch((3, 2), 1, 1)
    assert isinstance(slow, hr.AtMost)
    assert slow.action == Branch((3, 2), 0, {1: 1.0, 2: 1.0})
    assert isinstance(fast, hr.Prefer)
    assert fast.action == Branch((3, 2), 0, 2)
    assert "actions: gear (low, middle, high), brake (off, on)" in str(rules)
    assert rules.picture is not None
    assert rules.picture.action == 4
    VALIDATOR.validate(json.loads(json.dumps(rules.source.data)))


def test_a_run_names_the_modules_of_an_environment_that_its_file_cannot_be_read_without(
    rules: Rulebook, handrail: Caller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Run.create(tmp_path / "run", rules, ["tests.support.environments"])
    monkeypatch.delitem(gym.registry, CAR)
    code, _, error = handrail("resume", tmp_path / "run")
    assert code == 2
    assert f"Gymnasium knows no environment '{CAR}'" in error
    typed = f"handrail resume {tmp_path / 'run'} --import tests.support.environments"
    assert error.endswith(f"Type: {typed}")


def test_every_verb_of_the_command_line(file: Path, handrail: Caller, tmp_path: Path) -> None:
    more = ("--import", "tests.support.environments")
    code, out, error = handrail("check", file, *more)
    assert code == 0, error
    assert "brake.on >= 0.9" in out
    assert "actions: gear (low, middle, high), brake (off, on)" in out
    code, _, error = handrail("train", file, "--out", tmp_path / "run", *more)
    assert code == 0, error
    run = Run.open(tmp_path / "run" / "seed-0")
    assert all(one.violation_after is not None for one in run.records())
    policy = run.agent().policy
    assert isinstance(policy, hr.BranchedPolicy)
    assert worst(*(lambda s, k=k: policy.probabilities(s)[k] for k in (0, 1))) <= 1e-6
    code, out, error = handrail("evaluate", tmp_path / "run", "--episodes", "2", *more)
    assert code == 0, error
    code, out, error = handrail("prove", tmp_path / "run", *more)
    assert code == 0, error
    assert "near" in out
    code, _, error = handrail("export", tmp_path / "run", "--format", "numpy", *more)
    assert code == 0, error
    opened = open_policy(next(tmp_path.rglob("*.npz")), "The test opens one")
    assert opened.spaces[1] == gym.spaces.MultiDiscrete([3, 2])
    np.testing.assert_allclose(opened.policy.outputs(NEAR), policy.outputs(NEAR), atol=1e-9)


def test_pictures_name_the_actions_of_branches(rules: Rulebook) -> None:
    policy = hr.BranchedPolicy.mlp(Car(), hidden=[16], seed=0)
    hr.enforce(policy, rules).raise_if_unsatisfied()
    titles = [axes.get_title() for axes in policy_figure(policy, rules).axes]
    assert "probability of “brake.on”" in titles
    assert len([one for one in titles if one.startswith("probability of")]) == 5
    done = {"gear": 0, "brake": 0}
    for axes in episode_figure(policy, rules).axes:
        for line in axes.lines:
            if line.get_label() == "what was done":
                branch = axes.get_title(loc="left").partition("“")[2].partition(".")[0]
                done[branch] += np.size(line.get_xdata())
    assert done == {"gear": 8, "brake": 8}  # every step chooses once in each


def test_the_program_of_the_studio_makes_the_same_constraints() -> None:
    """Of a file without alternatives, which only the file can say."""
    simple = parse("\n".join(one for one in TEXT.splitlines() if "any of" not in one), "car")
    program = python_of(simple).replace("print(hr.enforce(policy, constraints))", "")
    made: dict[str, Any] = {}
    exec(program, made)
    assert isinstance(made["policy"], hr.BranchedPolicy)
    found = hr.measure(made["policy"], made["constraints"]).worst_violation
    assert found == hr.measure(made["policy"], simple).worst_violation


def by_model(model: PPO, branch: int) -> Any:
    def probabilities(states: Array) -> Array:
        with torch.no_grad():
            seen = torch.as_tensor(states, dtype=torch.float32)
            found: Any = model.policy.get_distribution(seen)
        if isinstance(model.action_space, gym.spaces.MultiBinary):
            on = found.distribution.probs[:, branch].numpy()
            return np.stack([1.0 - on, on], axis=1).astype(np.float64)
        return np.asarray(found.distribution[branch].probs, dtype=np.float64)

    return probabilities


def test_a_model_is_held_to_a_file(rules: Rulebook) -> None:
    network = {"net_arch": [16]}
    model = PPO("MlpPolicy", Car(), 3e-4, 16, 16, seed=0, device="cpu", policy_kwargs=network)
    rail = Handrail(rules)
    model.learn(32, callback=rail)
    assert worst(by_model(model, 0), by_model(model, 1)) <= 1e-4
    found = hr.evaluate(model, CAR, rules, episodes=1)
    assert found.satisfied
    certificates = hr.certify(policy_of(model), rules, tolerance=1e-2)
    assert certificates.certified


def test_binary_actions_have_two_names_each() -> None:
    text = TEXT[: TEXT.index("constraints:")].replace("[low, middle, high]", "[low, high]")
    text += "constraints: [{name: a, where: {gap: 0, speed: 0}, require: gear.high >= 0.9}]"
    model = PPO("MlpPolicy", Car(binary=True), n_steps=32, batch_size=32, seed=0, device="cpu")
    rules = parse(text, "binary")
    model.learn(32, callback=Handrail(rules))
    assert by_model(model, 0)(np.zeros((1, 2)))[0, 1] >= 0.9 - 1e-4
    with pytest.raises(InvalidRulebook, match=r"line 4, actions.gear: this file names 2 actions"):
        rules.make_environment()


REQUIRED = [
    ("gear.low + brake.on <= 0.1", "is about several branches, gear and brake, each of which"),
    ("gear.low >= brake.on", "is about several branches, gear and brake"),
    ("gear.low >= brake.on + 0.1*gap", "is about several branches, gear and brake"),
    ("brake >= 0.9", "unknown action or observation 'brake'. This file names gear.low, "),
    ("on >= 0.9", "unknown action or observation 'on'"),
    ("brake.onn >= 0.9", "Did you mean 'brake.on'?"),
    ("brake.on >= 95", "The probability of brake.on is always between 0 and 1, but the bound is"),
    ("brake.on >= 1", "brake.on"),
    ("brake.on + brake.off <= 0.9", "weighs all 2 actions alike"),
    ("P(gear.low >= 0) >= 0.9", "is about continuous actions, but those of this file are discrete"),
]


@pytest.mark.parametrize(("require", "message"), REQUIRED)
def test_what_cannot_be_required_of_branches(require: str, message: str) -> None:
    text = TEXT[: TEXT.index("  - ")] + (
        f"  - name: a\n    where: {{gap: 0, speed: 0}}\n    require: {require}\n"
    )
    with pytest.raises(InvalidRulebook) as refused:
        parse(text, "car")
    assert str(refused.value).startswith("car, line 8")
    assert message in str(refused.value)


OTHERS = [
    ("prefer: gear.low over brake.on", "several branches, gear and brake"),
    ("prefer: brake over gear.low", "unknown action 'brake'"),
    ("symmetric: {mirror: {gap: -gap}, within: 0.1}", "symmetry of branches is not known"),
    ("barrier: {h: gap, gain: {gap: 1}, rate: 1}", "a barrier is a condition on continuous"),
]


@pytest.mark.parametrize(("asked", "message"), OTHERS)
def test_what_else_cannot_be_asked_of_branches(asked: str, message: str) -> None:
    text = TEXT[: TEXT.index("  - ")] + (
        f"  - name: a\n    region: {{gap: [0, 1], speed: 0}}\n    {asked}\n"
    )
    with pytest.raises(InvalidRulebook, match=message):
        parse(text, "car")


DECLARED = [
    ("{gear: [low, high], brake: [0, 1]}", "line 4, actions.brake: expected a list of names"),
    ("{gear: [low, high], brake: on}", "actions.brake: expected a list of names such as [low,"),
    ("{gear: [low, high], brake: [on]}", "actions.brake: a branch with a single action leaves"),
    ("{gear: [low, low], brake: [off, on]}", "actions.gear[1]: the name 'low' is already used on"),
    ("{gear: [low, 2], brake: [off, on]}", "actions.gear: expected a list of names"),
    ("{gear: [lo-w, high], brake: [off, on]}", "'lo-w' is no name here"),
    ("{gear.a: [low, high], brake: [off, on]}", "'gear.a' is no name here"),
]


@pytest.mark.parametrize(("declared", "message"), DECLARED)
def test_what_is_no_declaration_of_branches(declared: str, message: str) -> None:
    with pytest.raises(InvalidRulebook) as refused:
        parse(TEXT.replace(NAMED, declared), "car")
    assert message in str(refused.value)


FITTING = [
    (CAR, "[left, right]", "line 4, actions: this file speaks of one choice, left, right, but "),
    (CAR, "{a: [0, 1]}", "speaks of one choice, a from 0 to 1, but Handrail/Car-v0 chooses in br"),
    (CAR, "{gear: [low, middle, high]}", "names the branches gear (low, middle, high), but"),
    (CAR, "{gear: [a, b], brake: [off, on]}", "actions.gear: this file names 2 actions of gear"),
    (
        "MountainCar-v0",
        NAMED,
        "names branches, gear (low, middle, high), brake (off, on), but M",
    ),
    ("MountainCarContinuous-v0", NAMED, "has 1 continuous actions. Give each a range: {torque"),
]


@pytest.mark.parametrize(("environment", "declared", "message"), FITTING)
def test_branches_that_the_environment_does_not_have(
    environment: str, declared: str, message: str
) -> None:
    required = {"[": "left", "{a": "a"}.get(declared[: 1 + (declared[1] == "a")], "gear.a")
    required = required if required != "gear.a" or "[a, b]" in declared else "gear.low"
    text = f"""
environment: {environment}
observations: [gap, speed]
actions: {declared}
constraints: [{{name: a, where: {{gap: 0, speed: 0}}, require: {required} >= 0.5}}]
"""
    with pytest.raises(InvalidRulebook) as refused:
        parse(text, "car").make_environment()
    assert message in str(refused.value)


def test_a_policy_of_other_branches_is_refused(rules: Rulebook) -> None:
    policy = hr.BranchedPolicy.mlp((Car().observation_space, gym.spaces.MultiBinary(2)))
    with pytest.raises(InvalidRulebook, match=r"names 3 actions of gear .*, but the policy choos"):
        hr.measure(policy, rules)
