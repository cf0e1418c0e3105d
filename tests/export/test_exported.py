"""Exported files: they say what the policy says, run without Handrail, and carry the report."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

import handrail as hr
from handrail._types import Array
from handrail.export import exported
from handrail.export.numpy_file import LOADER
from handrail.policies.activation import ACTIVATIONS
from handrail.rulebook.rulebook import load_rulebook, parse
from handrail.sb3.callback import Handrail
from handrail.sb3.policy import policy_of
from tests.conftest import small_policy, spaces
from tests.policies.test_gaussian import gaussian, states
from tests.support.paths import ROOT
from tests.support.pendulum import RULES, TORQUE
from tests.support.sb3_models import Pictures, ppo

DOCS = ROOT / "docs" / "guides" / "export.md"
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


def rules() -> list[hr.Constraint]:
    return list(load_rulebook("cartpole").constraints)


def random_states(n: int, *shape: int) -> Array:
    return np.random.default_rng(7).normal(size=(n, *shape))


def by_onnx(path: Path, states: Array) -> tuple[Array, Array]:
    """Logits and probabilities, as a user of the file computes them."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (observations,) = session.get_inputs()
    assert observations.name == "observations"
    assert [one.name for one in session.get_outputs()] == ["logits", "probabilities"]
    kind = {"tensor(double)": np.float64, "tensor(float)": np.float32}[observations.type]
    logits, probabilities = session.run(None, {"observations": states.astype(kind)})
    return logits, probabilities


def loader_of_the_docs() -> str:
    (text,) = re.findall(r"```python\n(from math import erfc\n.*?)```", DOCS.read_text(), re.DOTALL)
    return str(text)


def by_numpy(path: Path, states: NDArray[Any]) -> Array:
    """By the very lines of the docs."""
    namespace: dict[str, Any] = {}
    exec(loader_of_the_docs(), namespace)
    with np.load(path, allow_pickle=False) as archive:
        result: Array = namespace["outputs"](dict(archive), states)
    return result


@pytest.fixture(scope="module")
def obedient() -> hr.CategoricalPolicy:
    """The paper's network, made to obey the paper's constraints."""
    policy = hr.CategoricalPolicy.mlp(gym.make("CartPole-v1"), seed=0)
    hr.enforce(policy, rules()).raise_if_unsatisfied()
    return policy


def test_onnx_in_float64(obedient: hr.CategoricalPolicy, tmp_path: Path) -> None:
    path = tmp_path / "policy.onnx"
    before = [parameter.detach().clone() for parameter in obedient.parameters]
    result = hr.export_onnx(
        obedient,
        path,
        rules(),
        observations=["x", "x_dot", "phi", "phi_dot"],
        actions=["left", "right"],
        constraint_file="environment: CartPole-v1",
    )
    for n in (1, 300):
        states = random_states(n, 4)
        logits, probabilities = by_onnx(path, states)
        assert probabilities.dtype == np.float64
        np.testing.assert_allclose(logits, obedient.logits(states), atol=1e-12)
        np.testing.assert_allclose(probabilities, obedient.probabilities(states), atol=1e-12)
    for parameter, old in zip(obedient.parameters, before, strict=True):
        assert torch.equal(parameter, old)
    assert result.precision == "float64"
    assert result.rounding == 0.0
    assert result.largest_difference < 1e-12
    assert result.states_compared == 18 + 1 + 256
    assert str(result).startswith(f"{path}: float64, within ")
    assert "satisfied (rows at points: 18, regions: 0), worst violation -" in str(result)

    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    assert [one.version for one in model.opset_import] == [18]
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "states"
    assert str(ROOT).encode() not in path.read_bytes()

    about = {entry.key: entry.value for entry in model.metadata_props}
    assert about["handrail"] == hr.__version__
    assert json.loads(about["observations"]) == ["x", "x_dot", "phi", "phi_dot"]
    assert json.loads(about["actions"]) == ["left", "right"]
    assert about["constraints"] == "environment: CartPole-v1"
    assert json.loads(about["largest_difference"]) == result.largest_difference
    report = json.loads(about["report"])
    assert report == result.report
    measured = hr.measure(obedient, rules())
    assert [row["name"] for row in report["rows"]] == list(measured.labels)
    assert [row["violation"] for row in report["rows"]] == measured.violations.tolist()
    assert [row["value"] for row in report["rows"]] == measured.values.tolist()
    assert [row["state"] for row in report["rows"]] == measured.states.tolist()
    assert {(row["lower"], row["upper"]) for row in report["rows"]} == {(0.95, None)}
    assert report["worst_violation"] == measured.worst_violation
    assert report["satisfied"] is True


def test_onnx_falls_back_to_float32_where_the_runtime_has_no_float64(tmp_path: Path) -> None:
    module = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.LayerNorm(36), nn.Linear(36, 3)
    ).double()
    policy = hr.CategoricalPolicy(module)
    states = random_states(5, 1, 5, 5)
    result = hr.export_onnx(policy, tmp_path / "policy.onnx", states=states)
    assert result.precision == "float32"
    assert 1e-12 < result.largest_difference < 1e-6
    assert result.rounding == 0.0
    assert str(result).endswith("; no constraints")
    assert module.training
    assert policy.dtype == torch.float64
    _, probabilities = by_onnx(tmp_path / "policy.onnx", states)
    np.testing.assert_allclose(probabilities, policy.probabilities(states), atol=1e-6)


class Undecided(nn.Module):
    """What it computes depends on the batch, which no graph can say."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.layer(states)
        return result if float(states.sum()) > 0.0 else -result


def test_a_model_says_what_it_observes_behind_a_features_extractor(tmp_path: Path) -> None:
    model = ppo(Pictures(), "CnnPolicy")
    written = hr.export_onnx(policy_of(model), tmp_path / "policy.onnx")
    session = onnxruntime.InferenceSession(written.path)
    assert session.get_inputs()[0].shape[1:] == [1, 36, 36]
    with pytest.raises(
        hr.errors.InvalidPolicy, match=r"itself, PreparedActor, is of no kind.* Export it as ONNX"
    ):
        hr.export_numpy(policy_of(model), tmp_path / "policy.npz")


def test_what_torch_cannot_trace_is_refused(tmp_path: Path) -> None:
    with pytest.raises(hr.errors.InvalidPolicy, match="torch cannot export Undecided as ONNX"):
        hr.export_onnx(
            hr.CategoricalPolicy(Undecided()), tmp_path / "policy.onnx", states=[[0] * 3]
        )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("missing", ["onnxruntime", "onnxscript"])
def test_missing_packages_are_named(
    missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(
        hr.errors.InvalidArgument, match=rf'{missing}: pip install "handrail\[onnx\]"'
    ):
        hr.export_onnx(small_policy(), tmp_path / "policy.onnx")


@pytest.mark.parametrize("activation", list(ACTIVATIONS))
def test_numpy_by_the_lines_of_the_docs(activation: str, tmp_path: Path) -> None:
    policy = hr.CategoricalPolicy.mlp(spaces(3, 4), hidden=[40, 20], activation=activation, seed=1)
    result = hr.export_numpy(policy, tmp_path / "policy.npz")
    states = 100.0 * random_states(50, 3)
    difference = np.abs(by_numpy(tmp_path / "policy.npz", states) - policy.probabilities(states))
    assert difference.max() < 1e-12
    assert result.precision == "float64"
    assert result.largest_difference < 1e-12


def test_the_loader_is_short_and_that_of_the_docs() -> None:
    assert loader_of_the_docs() == LOADER
    lines = [line for line in LOADER.splitlines() if line.strip()]
    assert len(lines) <= 26
    assert max(len(line) for line in lines) <= 100
    assert [line for line in lines if "import" in line] == [
        "from math import erfc",
        "import numpy as np",
    ]


def test_numpy_metadata_and_regions(tmp_path: Path) -> None:
    book = parse(FILE, "file")
    agent = hr.make_agent(book)
    path = tmp_path / "policy.npz"
    hr.export_numpy(
        agent.policy,
        path,
        book.constraints,
        observations=book.observations,
        actions=book.actions,
        constraint_file=book.text,
    )
    with np.load(path, allow_pickle=False) as archive:
        file = dict(archive)
    assert sorted(file) == [
        *("activations", "bias_0", "bias_1", "metadata", "outputs", "weight_0", "weight_1")
    ]
    assert file["activations"].tolist() == ["relu", "id"]
    assert file["weight_0"].shape == (4, 100)
    about = json.loads(str(file["metadata"]))
    assert about["constraints"] == FILE
    assert about["observations"] == ["x", "x_dot", "phi", "phi_dot"]
    report = about["report"]
    assert {row["name"] for row in report["rows"]} == {f"lean left [{k}]" for k in range(3)}
    (region,) = report["regions"]
    assert region["name"] == "lean right"
    assert region["states_measured"] == 1000
    assert region["lower"] == 0.9
    worst = agent.policy.outputs(np.array(region["state"])[None])[0, 1]
    assert region["value"] == pytest.approx(worst, abs=1e-12)
    assert region["violation"] == pytest.approx(0.9 - worst, abs=1e-12)
    assert report["satisfied"] is True


def test_the_report_says_what_is_violated(tmp_path: Path) -> None:
    policy = small_policy()
    broken = hr.AtLeast(0.99, 0, hr.Points([[0.0, 0.0, 0.0]]), name="too much")
    result = hr.export_numpy(policy, tmp_path / "policy.npz", [broken])
    assert result.report["satisfied"] is False
    assert result.report["worst_violation"] == pytest.approx(
        0.99 - policy.probabilities([0.0, 0.0, 0.0])[0]
    )
    assert "NOT satisfied" in str(result)


def test_numpy_of_float32_images_nested_layers_and_no_bias(tmp_path: Path) -> None:
    inner = nn.Sequential(nn.Identity(), nn.Linear(12, 8, bias=False), nn.Tanh(), nn.Dropout(0.5))
    module = nn.Sequential(nn.Flatten(), inner, nn.Linear(8, 5), nn.Linear(5, 3)).eval()
    policy = hr.CategoricalPolicy(module)
    states = random_states(6, 3, 4)
    result = hr.export_numpy(policy, tmp_path / "policy.npz", states=states)
    assert result.precision == "float64"
    assert 0.0 < result.rounding < 1e-6
    found = by_numpy(tmp_path / "policy.npz", states.reshape(6, 12))
    np.testing.assert_allclose(found, policy.probabilities(states), atol=1e-6)


def test_numpy_computes_in_float64_whatever_it_is_given(tmp_path: Path) -> None:
    policy = hr.CategoricalPolicy.mlp(spaces(3, 4), hidden=[40], seed=1, dtype=torch.float32)
    result = hr.export_numpy(policy, tmp_path / "policy.npz")
    assert result.precision == "float64"
    states = random_states(50, 3).astype(np.float32)  # as environments observe
    found = by_numpy(tmp_path / "policy.npz", states)
    assert found.dtype == np.float64
    exact = policy.in_float64(states).outputs(states)
    np.testing.assert_allclose(found, exact, atol=1e-12)


@pytest.mark.parametrize(
    ("layers", "named"),
    [
        ([nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 2)], r"'1', LayerNorm\(\(4,\), .* of no"),
        ([nn.Tanh(), nn.Linear(3, 2)], r"'0', Tanh\(\), does not follow a Linear layer"),
        ([nn.Linear(3, 4), nn.Tanh(), nn.ReLU(), nn.Linear(4, 2)], r"'2', ReLU\(\), does not foll"),
        ([nn.Linear(3, 4), nn.ELU(alpha=0.5), nn.Linear(4, 2)], r"'1', ELU\(alpha=0.5\), has opti"),
        ([nn.Linear(3, 4), nn.GELU("tanh"), nn.Linear(4, 2)], r"'1', GELU\(approximate='tanh'\)"),
    ],
)
def test_other_networks_are_for_onnx(layers: list[nn.Module], named: str, tmp_path: Path) -> None:
    policy = hr.CategoricalPolicy(nn.Sequential(*layers))
    with pytest.raises(hr.errors.InvalidPolicy, match=rf"layer {named}.*Export it as ONNX"):
        hr.export_numpy(policy, tmp_path / "policy.npz", states=np.zeros((1, 3)))
    assert not list(tmp_path.iterdir())


def test_float32_of_large_actions_says_that_they_are_large(tmp_path: Path) -> None:
    """It blamed the weights, which are those of a fresh network."""
    newtons = gym.spaces.Box(-1.0, 1.0, (3,)), gym.spaces.Box(-5e3, 5e3, (1,))
    policy = hr.GaussianPolicy.mlp(newtons, hidden=(64,), bounded="tanh", activation="tanh")
    with pytest.raises(
        hr.errors.InvalidPolicy,
        match=r"differ from the policy's by up to \d\.\de-04, which is more than 1e-06\. Actions "
        r"are as large as \d\.\d+e\+03 there, and float32 has seven digits of them: have the po",
    ):
        hr.export_onnx(policy, tmp_path / "policy.onnx", float32=True)
    steep = small_policy()
    with torch.no_grad():
        for one in steep.parameters:
            one.mul_(30.0)
    with pytest.raises(hr.errors.InvalidPolicy, match="Very large weights do this in float32"):
        hr.export_onnx(steep, tmp_path / "policy.onnx", float32=True)
    assert not list(tmp_path.iterdir())


def test_a_file_that_differs_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exported, "AGREEMENT", 1e-20)
    path = tmp_path / "policy.npz"
    with pytest.raises(
        hr.errors.InvalidPolicy, match="not written: computed there in float64, outputs "
    ):
        hr.export_numpy(small_policy(), path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"policy": nn.Linear(3, 2)}, "Expected a policy to export, but got Linear. Of a learner"),
        ({"observations": ["x"]}, "`observations` must name all 3 observations .* but has 1: x"),
        ({"actions": ["a", "b"]}, "`actions` must name all 3 actions .* but has 2: a, b"),
        ({"actions": "abc"}, "`actions` must be a list of names, but got 'abc'"),
        ({"states": [1.0, 2.0, 3.0]}, r"`states` must be finite .* have shape \(3,\)"),
        ({"states": [[np.nan] * 3]}, "`states` must be finite"),
        (
            {"states": [["a", "b"]]},
            "`states` must be finite numbers of shape .*: could not convert",
        ),
        ({"tolerance": -1.0}, "tolerance must be a finite number from 0 on, not -1.0"),
        ({"tolerance": "a"}, "tolerance must be a finite number from 0 on, not 'a'"),
        (
            {"states": [[0.0] * 4], "constraints": [hr.AtLeast(0.1, 0, hr.Points([0, 0, 0]))]},
            r"states have shape \(4,\), but constraints speak of states of shape \(3,\)",
        ),
        (
            {"policy": hr.CategoricalPolicy(nn.Sequential(nn.Flatten(), nn.Linear(3, 2)))},
            "cannot be told from its first layer, Flatten. Give some states",
        ),
        ({"path": "/nowhere/policy.npz"}, "/nowhere/policy.npz cannot be written: No such file"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    arguments: dict[str, Any], message: str, tmp_path: Path
) -> None:
    usual = {"policy": small_policy(), "path": tmp_path / "policy.npz"}
    with pytest.raises(hr.HandrailError, match=message):
        hr.export_numpy(**{**usual, **arguments})
    assert not list(tmp_path.iterdir())


def test_exported_means(tmp_path: Path) -> None:
    policy = gaussian(3, 2, hidden=[30], activation="tanh")
    rules = [hr.AtLeast(0.5, TORQUE, hr.Points([0.1, 0.2, 0.3]), name="up")]
    hr.enforce(policy, rules).raise_if_unsatisfied()
    some = states(50)
    hr.export_numpy(policy, tmp_path / "policy.npz", rules)
    namespace: dict[str, Any] = {}
    exec(LOADER, namespace)
    file = dict(np.load(tmp_path / "policy.npz"))
    np.testing.assert_allclose(namespace["outputs"](file, some), policy.mean(some), atol=1e-12)
    metadata = json.loads(str(file["metadata"]))
    assert metadata["quantity"] == "mean"
    assert metadata["std"] == policy.std.tolist()
    assert len(metadata["std"]) == 2
    assert metadata["report"]["satisfied"]
    exported = hr.export_onnx(policy, tmp_path / "policy.onnx", rules)
    assert exported.largest_difference <= 1e-12
    session = onnxruntime.InferenceSession(tmp_path / "policy.onnx")
    assert json.loads(session.get_modelmeta().custom_metadata_map["std"]) == metadata["std"]
    shared = hr.GaussianPolicy(policy.module, 0.5)
    hr.export_numpy(shared, tmp_path / "shared.npz")
    about = json.loads(str(np.load(tmp_path / "shared.npz")["metadata"]))
    assert about["std"] == [0.5, 0.5]
    (mean,) = session.run(["mean"], {"observations": some})
    np.testing.assert_allclose(mean, policy.mean(some), atol=1e-12)


def test_a_single_constraint_and_a_wrong_ending_are_refused(tmp_path: Path) -> None:
    with pytest.raises(hr.errors.InvalidConstraint, match=r"the single Between 'leave it alone'"):
        Handrail(RULES[0])  # type: ignore[arg-type]
    with pytest.raises(hr.errors.InvalidArgument, match=r"expected a name that ends with \.onnx"):
        hr.export_onnx(gaussian(), tmp_path / "policy.npz")
    with pytest.raises(hr.errors.InvalidArgument, match=r"expected a name that ends with \.npz"):
        hr.export_numpy(gaussian(), tmp_path / "policy.onnx")
