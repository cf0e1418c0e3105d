"""Exported files, read back: the same network, and certificates of the file itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import nn

import handrail as hr
from handrail.export.onnx_file import range_in_float32
from handrail.export.opened_export import open_export
from handrail.policies import ACTIVATIONS
from handrail.proof.certificate_file import verify_certificates
from tests.conftest import sharpen, spaces

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

BOX = hr.Box([-1.0] * 3, [1.0] * 3)


def categorical(activation: str = "tanh", hidden: tuple[int, ...] = (24, 16)) -> Any:
    policy = hr.CategoricalPolicy.mlp(spaces(3, 2), list(hidden), activation, seed=1)
    sharpen(policy, 4.0)
    return policy


def rule(policy: Any, slack: float = 0.02) -> hr.AtLeast:
    """That holds with a little to spare."""
    states = np.concatenate([BOX.sample(20_000, np.random.default_rng(0)), BOX.corners])
    lowest = float(policy.outputs(states)[:, 0].min())
    return hr.AtLeast(lowest - slack, 0, BOX, name="enough")


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_what_is_read_back_is_the_same_network(activation: str, tmp_path: Path) -> None:
    """Of every activation of the table; GELU in float32, as onnxruntime has it."""
    policy = categorical(activation)
    states = BOX.sample(50, np.random.default_rng(1))
    for ending, write in ((".onnx", hr.export_onnx), (".npz", hr.export_numpy)):
        exported = write(policy, tmp_path / f"p{ending}")
        opened = open_export(tmp_path / f"p{ending}")
        same = policy.in_float32() if exported.precision == "float32" else policy
        assert exported.precision == "float64" or (activation, ending) == ("gelu", ".onnx")
        close = 1e-6 if exported.precision == "float32" else 1e-13
        np.testing.assert_allclose(opened.policy.raw(states), same.raw(states), atol=close)
        assert opened.certificate == b""
        read = opened.policy.layers()
        assert read is not None
        assert [one.name for one in read.activations] == [activation, activation, "id"]


def test_leaky_relu_in_float32(tmp_path: Path) -> None:
    """Where its slope is an attribute."""
    policy = categorical("leaky_relu", (8,))
    hr.export_onnx(policy, tmp_path / "p.onnx", float32=True)
    opened = open_export(tmp_path / "p.onnx").policy
    assert opened.dtype == torch.float32
    states = BOX.sample(50, np.random.default_rng(1))
    np.testing.assert_allclose(opened.raw(states), policy.in_float32().raw(states), atol=1e-6)


SPACES = gym.spaces.Box(-1.0, 3.0, (3,)), gym.spaces.Box(-2.0, 1.0, (2,))
GAIN = np.array([[0.5, -1.0, 0.2], [0.0, 0.3, 0.1]])
FIXED_LAYERS: dict[str, dict[str, Any]] = {
    "scaled": {"scale": [2.0, 300.0, 1.0]},
    "centred": {"scale": "auto"},
    "bounded": {"bounded": "tanh"},
    "residual": {"residual": GAIN},
    "all of them": {"scale": "auto", "bounded": "hardtanh", "residual": GAIN},
}


@pytest.mark.parametrize(
    ("which", "float32"), [*((one, False) for one in FIXED_LAYERS), ("all of them", True)]
)
def test_layers_that_are_not_learned_are_read_back(
    which: str, float32: bool, tmp_path: Path
) -> None:
    given = FIXED_LAYERS[which]
    policy = hr.GaussianPolicy.mlp(SPACES, [16, 8], "tanh", seed=0, **given)
    rng = np.random.default_rng(3)
    with torch.no_grad():  # beside a controller, the last weights begin at 0
        for one in policy.parameters:
            one.add_(torch.as_tensor(0.1 * rng.normal(size=one.shape)))
    same = policy.in_float32() if float32 else policy
    box = hr.Box([-0.2] * 3, [0.2] * 3)
    states = box.sample(200, rng)
    highest = float(policy.outputs(box.sample(20_000, rng))[:, 0].max())
    assert highest < 0.9
    asked = hr.AtMost(highest + 0.05, hr.Mean(0), box, name="asked")
    path = tmp_path / "p.onnx"
    exported = hr.export_onnx(policy, path, [asked], float32=float32, prove=True)
    opened = open_export(path)
    close = 1e-6 if float32 else 1e-13
    np.testing.assert_allclose(opened.policy.raw(states), same.raw(states), atol=close)
    session = onnxruntime.InferenceSession(path)
    dtype = np.float32 if float32 else np.float64
    (ran,) = session.run(["mean"], {"observations": states.astype(dtype)})
    np.testing.assert_allclose(ran, same.raw(states), atol=1e-5 if float32 else 1e-12)
    assert exported.certificates is not None
    again = hr.proof.verify_certificates(path, opened.policy, [asked], content=opened.certificate)
    assert [one.status for one in again] == [one.status for one in exported.certificates]
    assert exported.certificates.certified, str(exported.certificates)


def test_continuous_actions_and_float32(tmp_path: Path) -> None:
    space = gym.spaces.Box(-1.0, 1.0, (3,)), gym.spaces.Box(-2.0, 2.0, (2,))
    policy = hr.GaussianPolicy.mlp(space, [8], "relu", seed=0, std=0.5)
    hr.export_onnx(policy, tmp_path / "p.onnx", float32=True)
    opened = open_export(tmp_path / "p.onnx").policy
    assert isinstance(opened, hr.GaussianPolicy)
    assert opened.dtype == torch.float32
    np.testing.assert_array_equal(opened.std, np.broadcast_to(policy.std, (2,)))
    states = BOX.sample(50, np.random.default_rng(1))
    np.testing.assert_allclose(opened.raw(states), policy.in_float32().raw(states), atol=1e-6)


def test_a_certificate_travels_and_is_proven_again_from_the_file(tmp_path: Path) -> None:
    policy = categorical()
    asked = [rule(policy)]
    for ending, write in ((".onnx", hr.export_onnx), (".npz", hr.export_numpy)):
        path = tmp_path / f"p{ending}"
        exported = write(policy, path, asked, prove=True)
        assert exported.certificates is not None
        assert exported.certificates.certified
        assert "Of this file, in float64: 1 of 1 certified" in str(exported)
        opened = open_export(path)
        (again,) = verify_certificates(path, opened.policy, asked, content=opened.certificate)
        assert again.certified
        document = json.loads(opened.certificate)
        assert document["dtype"] == "float64"
        other = categorical("tanh", (24, 8))
        with pytest.raises(hr.errors.InvalidCertificate, match="is about other weights"):
            verify_certificates(path, other, asked, content=opened.certificate)
        forged = opened.certificate.replace(b'"certified"', b'"unknown"')
        with pytest.raises(hr.errors.InvalidCertificate, match="altered after it was written"):
            verify_certificates(path, opened.policy, asked, content=forged)


def test_a_float32_file_is_proven_as_it_computes(tmp_path: Path) -> None:
    """Whatever onnxruntime computes in float32 obeys, at states that were chosen to break it."""
    policy = categorical()
    asked = rule(policy, slack=1e-3)
    path = tmp_path / "p.onnx"
    exported = hr.export_onnx(policy, path, [asked], float32=True, prove=True)
    assert exported.precision == "float32"
    assert exported.certificates is not None
    (certificate,) = exported.certificates
    assert certificate.certified
    assert json.loads(open_export(path).certificate)["dtype"] == "float32"
    in_float64 = hr.certify(policy, asked)
    assert certificate.lowest is not None
    assert in_float64.lowest is not None
    assert certificate.lowest < in_float64.lowest  # what rounding may do is taken off
    session = onnxruntime.InferenceSession(path)
    states = _near_the_worst(policy)
    (values,) = session.run(["probabilities"], {"observations": states.astype(np.float32)})
    assert values[:, 0].min() >= certificate.lowest - 1e-7  # the softmax itself, on top


def _near_the_worst(policy: Any) -> Any:
    """60,000 states in a tiny box around the worst one."""
    rng = np.random.default_rng(2)
    some = np.concatenate([BOX.sample(20_000, rng), BOX.corners])
    worst = some[policy.outputs(some)[:, 0].argmin()]
    return np.clip(worst + rng.uniform(-1e-3, 1e-3, (60_000, 3)), -1.0, 1.0)


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    normalised = nn.Sequential(nn.LayerNorm(3), nn.Linear(3, 2)).double()
    hr.export_onnx(hr.CategoricalPolicy(normalised), tmp_path / "n.onnx", states=np.zeros((1, 3)))
    with pytest.raises(hr.errors.InvalidPolicy, match=r"the operation .* Prove the policy"):
        open_export(tmp_path / "n.onnx")
    with pytest.raises(hr.errors.InvalidArgument, match=r"ends with \.onnx or \.npz"):
        open_export(tmp_path / "policy.zip")
    with pytest.raises(hr.errors.InvalidArgument, match="cannot be read: No such file"):
        open_export(tmp_path / "missing.onnx")
    (tmp_path / "bad.onnx").write_bytes(b"nothing")
    with pytest.raises(hr.errors.InvalidPolicy, match=r"no ONNX file|not an ONNX file that"):
        open_export(tmp_path / "bad.onnx")
    (tmp_path / "bad.npz").write_bytes(b"nothing")
    with pytest.raises(hr.errors.InvalidPolicy, match="no file of `export_numpy`"):
        open_export(tmp_path / "bad.npz")


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("exported") / "p.onnx"
    hr.export_onnx(categorical(), path)
    open_export(path)  # as it is, it is read
    return path


@pytest.mark.parametrize("change", ["alpha", "extra", "softmax", "input"])
def test_a_graph_that_computes_something_else_is_refused(
    change: str, exported: Path, tmp_path: Path
) -> None:
    path = tmp_path / "p.onnx"
    model = onnx.load(exported)
    nodes = model.graph.node
    if change == "alpha":
        next(one for one in nodes[0].attribute if one.name == "alpha").f = 2.0
    elif change == "extra":
        nodes.append(onnx.helper.make_node("Relu", ["logits"], ["more"]))
    elif change == "softmax":
        nodes[-1].attribute[0].i = 0
    else:
        nodes[2].input[0] = "observations"
    onnx.save(model, path)
    with pytest.raises(hr.errors.InvalidPolicy, match="cannot be read back"):
        open_export(path)


@pytest.mark.parametrize(("activation", "constant"), [("gelu", 0.5), ("softplus", 20.0)])
def test_other_constants_of_an_activation_are_another_one(
    activation: str, constant: float, tmp_path: Path
) -> None:
    path = tmp_path / "p.onnx"
    hr.export_onnx(categorical(activation, (8,)), path)
    model = onnx.load(path)
    constants = [one for one in model.graph.initializer if not one.dims]
    (found,) = (one for one in constants if onnx.numpy_helper.to_array(one) == constant)
    other = (onnx.numpy_helper.to_array(found) * 1.5).astype(_precision(found))
    found.CopyFrom(onnx.numpy_helper.from_array(other, found.name))
    onnx.save(model, path)
    with pytest.raises(hr.errors.InvalidPolicy, match="cannot be read back"):
        open_export(path)


def _precision(initializer: Any) -> Any:
    return onnx.numpy_helper.to_array(initializer).dtype


def test_a_slope_of_float32_is_not_one_of_float64(tmp_path: Path) -> None:
    """As other exporters write LeakyReLU: 0.01 to eight digits."""
    path = tmp_path / "p.onnx"
    hr.export_onnx(categorical("leaky_relu", (8,)), path)
    model = onnx.load(path)
    nodes = [one for one in model.graph.node if one.op_type not in ("Mul", "Max")]
    given, returned = nodes[0].output[0], nodes[1].input[0]
    leaky = onnx.helper.make_node("LeakyRelu", [given], [returned], alpha=0.01)
    del model.graph.node[:]
    model.graph.node.extend([nodes[0], leaky, *nodes[1:]])
    onnx.save(model, path)
    with pytest.raises(hr.errors.InvalidPolicy, match="the operation LeakyRelu"):
        open_export(path)


NOISY = {"one": ([-2.0], [2.0]), "two": ([-2.0, -1.0], [2.0, 1.0])}


@pytest.mark.parametrize("float32", [False, True])
@pytest.mark.parametrize("dimensions", NOISY)
def test_noise_that_depends_on_the_state_is_read_back_and_proven(
    dimensions: str, float32: bool, tmp_path: Path
) -> None:
    low, high = NOISY[dimensions]
    acts = gym.spaces.Box(*np.array([low, high], dtype=np.float32))
    observed = gym.spaces.Box(-1.0, 1.0, (3,))
    policy = hr.VaryingGaussianPolicy.mlp((observed, acts), hidden=[8], seed=0, std=0.3)
    last = len(low) - 1
    rules = [
        hr.AtMost(0.25, hr.Std(last), BOX, name="quiet"),
        hr.LikelyWithin(0.9, 0, BOX, high=1.9, name="drawn"),
        hr.AtLeast(0.1, hr.Mean(0), hr.Points([0.5, 0.5, 0.5]), name="forward"),
    ]
    hr.enforce(policy, rules, selection=hr.Everywhere(margin=1e-3)).raise_if_unsatisfied()
    path = tmp_path / "p.onnx"
    exported = hr.export_onnx(policy, path, rules[:2], prove=True, float32=float32)
    assert exported.certificates is not None
    assert exported.certificates.certified
    again = open_export(path).policy
    assert isinstance(again, hr.VaryingGaussianPolicy)
    assert str(again.dtype) == ("torch.float32" if float32 else "torch.float64")
    states = np.random.default_rng(0).uniform(-1.0, 1.0, (50, 3)).astype(np.float32)
    states64 = states.astype(np.float64)
    near = 1e-6 if float32 else 1e-12
    np.testing.assert_allclose(again.outputs(states64), policy.outputs(states64), atol=near)
    session = onnxruntime.InferenceSession(path)
    given = states if float32 else states64
    by_onnx = np.concatenate(session.run(["mean", "std"], {"observations": given}), axis=1)
    np.testing.assert_allclose(by_onnx, again.outputs(states64), atol=near)
    assert hr.measure(again, rules).worst_violation < 1e-5
    certificate = open_export(path).certificate
    verified = verify_certificates(path, again, rules[:2], content=certificate)
    assert [one.certified for one in verified] == [True, True]
    assert json.loads(certificate)["dtype"] == ("float32" if float32 else "float64")
    if not float32:
        assert again.quantity == policy.quantity

    model = onnx.load(path)
    nodes = model.graph.node
    (added,) = (one for one in nodes if one.op_type == "Add")
    middle = next(one for one in model.graph.initializer if one.name in added.input)
    known = onnx.numpy_helper.to_array(middle)
    for other in (known * 1.5, np.nextafter(known, 9.0)):  # other noise than the range says
        middle.CopyFrom(onnx.numpy_helper.from_array(other.astype(known.dtype), middle.name))
        onnx.save(model, path)
        with pytest.raises(
            hr.errors.InvalidPolicy, match=r"other outputs than .*deviations in their range"
        ):
            open_export(path)


def test_noise_in_float32_has_a_range_within_its_own_that_float32_has_exactly() -> None:
    rng = np.random.default_rng(0)
    most = 10.0 ** rng.uniform(-3.0, 3.0, 1000)
    least = most * 10.0 ** rng.uniform(-6.0, -0.01, 1000)
    low, high = range_in_float32(least, most)
    assert (least <= low).all()
    assert (high <= most).all()
    for exact in (low, high, 0.5 * (low + high), 0.5 * (high - low)):
        np.testing.assert_array_equal(exact.astype(np.float32).astype(np.float64), exact)
    assert (np.maximum(low - least, most - high) <= 2.5e-7 * most).all()
    narrow = np.array([1.0]), np.array([1.0 + 1e-9])
    np.testing.assert_array_equal(range_in_float32(*narrow), narrow)
