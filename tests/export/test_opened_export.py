"""Exported files, read back: the same network, and certificates of the file itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

import handrail as hr
from handrail.export.opened_export import open_export
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


@pytest.mark.parametrize("activation", ["relu", "tanh", "elu", "silu", "sigmoid", "hardtanh"])
def test_what_is_read_back_is_the_same_network(activation: str, tmp_path: Path) -> None:
    policy = categorical(activation)
    states = BOX.sample(50, np.random.default_rng(1))
    for ending, write in ((".onnx", hr.export_onnx), (".npz", hr.export_numpy)):
        write(policy, tmp_path / f"p{ending}")
        opened = open_export(tmp_path / f"p{ending}")
        np.testing.assert_allclose(opened.policy.raw(states), policy.raw(states), atol=1e-13)
        assert opened.certificate == b""


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
    gelu = categorical("gelu")
    hr.export_onnx(gelu, tmp_path / "gelu.onnx")
    with pytest.raises(hr.errors.InvalidPolicy, match=r"the operation Div.* Prove the policy"):
        open_export(tmp_path / "gelu.onnx")
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


@pytest.mark.parametrize("change", ["alpha", "extra", "softmax", "input"])
def test_a_graph_that_computes_something_else_is_refused(change: str, tmp_path: Path) -> None:
    path = tmp_path / "p.onnx"
    hr.export_onnx(categorical(), path)
    model = onnx.load(path)
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
