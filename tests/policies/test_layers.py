"""The one reader of networks: what it reads, what it refuses, and that it notices changes.

What computes a network's outputs without calling it must say what `module(x)` says, or leave it to
torch; proofs and NumPy files, which cannot, must refuse.
"""

from __future__ import annotations

import copy
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.nn.utils import parametrizations, parametrize, prune

import handrail as hr
from handrail.policies import ACTIVATIONS, IDENTITY, RELU
from handrail.policies import fused_network as fused_module
from handrail.policies.layers import Layers, Refusal
from handrail.policies.network import Architecture
from handrail.policies.residual import Residual
from handrail.policies.scaler import Scaler
from handrail.tangent.factors import Factoriser, OuterFactor
from tests.conftest import spaces

STATES = np.random.default_rng(0).normal(size=(6, 3))
REGION = hr.Box([-1.0] * 3, [1.0] * 3)


def plain(width: int = 16) -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(3, width), nn.ReLU(), nn.Linear(width, 2)).double()


def layers_of(module: nn.Module) -> Layers:
    read = Layers.of(module)
    assert isinstance(read, Layers)
    return read


# --- what is refused, and answered by the module itself ------------------------------------------


class Doubling(nn.Linear):
    def forward(self, input: Tensor) -> Tensor:
        return 2.0 * super().forward(input)


class Halving(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        return 0.5 * weight


class Backwards(nn.Sequential):
    def forward(self, input: Tensor) -> Tensor:
        output: Tensor = super().forward(input)  # type: ignore[no-untyped-call]
        return output.flip(1)


def flipped(module: nn.Module) -> None:
    module.register_forward_hook(lambda _, __, output: output.flip(1))


def cleared_and_flipped(module: nn.Module) -> None:
    """As people do who do not keep the handle."""
    module._forward_hooks = OrderedDict()
    flipped(module)


def replaced_forward(module: Any) -> None:
    own = module.forward
    module.forward = lambda x: 3.0 * own(x)


def replaced_call(module: Any) -> None:
    own = module._call_impl
    module._call_impl = lambda x: 3.0 * own(x)


def replaced_weight(module: Any) -> None:
    module.__dict__["weight"] = 2.0 * module.weight.detach()


def another_class(module: nn.Module) -> None:
    module.__class__ = Doubling


def older_norm(norm: Callable[[nn.Module], Any]) -> Callable[[nn.Module], None]:
    def change(module: nn.Module) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            norm(module)
        with torch.no_grad():
            for name in ("weight_g", "weight_orig"):
                if hasattr(module, name):
                    getattr(module, name).mul_(2.0)

    return change


def pruned(module: nn.Module) -> None:
    prune.l1_unstructured(module, "weight", amount=0.5)


def shared_weight(module: nn.Sequential) -> None:
    module.insert(2, nn.Linear(16, 16).double())
    module.insert(3, nn.Tanh())
    module.insert(4, module[2])


def tied_weight(module: nn.Sequential) -> None:
    module.insert(2, nn.Linear(16, 16).double())
    module.insert(3, nn.Linear(16, 16).double())
    module[3].weight = module[2].weight


def sliced(module: Any) -> None:
    """Half of the hidden units gone, on the same memory."""
    with torch.no_grad():
        module[0].weight.data = module[0].weight.data[:8]
        module[0].bias.data = module[0].bias.data[:8]
        module[2].weight.data = module[2].weight.data[:, :8]


def awake(module: nn.Sequential) -> None:
    module.append(nn.Dropout(0.0).train())


# Name: what is done, and what the refusal says.
ODDITIES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "hook on the network": (flipped, "the network itself, Sequential, has a hook"),
    "hook on a layer": (lambda m: flipped(m[2]), "layer '2', Linear(.*), has a hook"),
    "hook on an activation": (lambda m: flipped(m[1]), "layer '1', ReLU(), has a hook"),
    "pre-hook": (
        lambda m: m[2].register_forward_pre_hook(lambda _, inputs: (2.0 * inputs[0],)),
        "layer '2', Linear(.*), has a hook",
    ),
    "pre-hook on the network": (
        lambda m: m.register_forward_pre_hook(lambda _, inputs: (-inputs[0],)),
        "the network itself, Sequential, has a hook",
    ),
    "hook behind hooks cleared": (
        cleared_and_flipped,
        "the network itself, Sequential, has a hook",
    ),
    "backward hook": (
        lambda m: m[2].register_full_backward_hook(lambda *_: None),
        "layer '2', Linear(.*), has a hook",
    ),
    "forward of a layer": (lambda m: replaced_forward(m[0]), "'0', .*, has forward replaced"),
    "forward of an activation": (lambda m: replaced_forward(m[1]), "'1', .*, has forward replaced"),
    "forward of the network": (replaced_forward, "itself, Sequential, has forward replaced"),
    "call of a layer": (lambda m: replaced_call(m[2]), "'2', .*, has _call_impl replaced"),
    "weight that is no parameter": (lambda m: replaced_weight(m[2]), "'2', .* has weight replaced"),
    "class of a layer": (lambda m: another_class(m[0]), "'0', .* is a Linear that may compute"),
    "class of the network": (
        lambda m: setattr(m, "__class__", Backwards),
        "itself, Backwards, is a Sequential that may compute something else",
    ),
    "parametrised": (
        lambda m: parametrize.register_parametrization(m[0], "weight", Halving()),
        "layer '0', ParametrizedLinear, is parametrised",
    ),
    "weight norm": (
        lambda m: parametrizations.weight_norm(m[2]),
        "layer '2', ParametrizedLinear, is parametrised",
    ),
    "spectral norm": (
        lambda m: parametrizations.spectral_norm(m[2]).eval(),
        "layer '2', ParametrizedLinear, is parametrised",
    ),
    "older weight norm": (
        lambda m: older_norm(nn.utils.weight_norm)(m[2]),
        "layer '2', Linear(.*), has a hook",
    ),
    "older spectral norm": (
        lambda m: older_norm(nn.utils.spectral_norm)(m[2].eval()),
        "layer '2', Linear(.*), has a hook",
    ),
    "pruned": (lambda m: pruned(m[2]), "layer '2', Linear(.*), has a hook"),
    "a layer twice": (shared_weight, "layer '4', Linear(.*), shares its weights"),
    "a weight twice": (tied_weight, "layer '3', Linear(.*), shares its weights"),
    "weights sliced": (sliced, r"layer '0', .*, has a weight of shape \(8, 3\)"),
    "another activation": (
        lambda m: m.__setitem__(1, nn.Mish()),
        "layer '1', Mish(), is of no kind that can be looked into",
    ),
    "one more layer": (
        lambda m: m.append(nn.LogSoftmax(dim=1)),
        "layer '3', LogSoftmax(dim=1), is of no kind",
    ),
    "dropout awake": (awake, "layer '3', Dropout(p=0.0, .*), is random in training mode"),
    "flattened late": (
        lambda m: m.insert(1, nn.Flatten()),
        "layer '1', Flatten(.*), is not in front of all others",
    ),
    "two activations": (
        lambda m: m.insert(2, nn.Tanh()),
        r"layer '2', Tanh\(\), does not follow a Linear layer",
    ),
}  # fmt: skip

# These change no output (yet).
CHANGE_NOTHING = {
    "backward hook",
    "weight norm",
    "one more layer",
    "dropout awake",
    "flattened late",
}


def pattern(text: str) -> str:
    """As written, but for `.*`, with parentheses meant."""
    return text if "\\" in text else text.replace("(", r"\(").replace(")", r"\)")


def agree(policy: hr.CategoricalPolicy) -> None:
    """Whatever evaluates the policy says what the module says."""
    with torch.no_grad():
        logits = policy.module(torch.tensor(STATES)).numpy()
    expected = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(policy.probabilities(STATES), expected, rtol=1e-11)
    one_by_one = np.array([policy.probabilities(state) for state in STATES])
    np.testing.assert_allclose(one_by_one, expected, rtol=1e-11)
    for seed, state in enumerate(STATES):
        drawn = policy.draw(expected[seed : seed + 1], [np.random.default_rng(seed)])[0]
        assert policy.act(state, np.random.default_rng(seed)) == drawn
    np.testing.assert_allclose(
        hr.tangent.tangent_kernel(policy, STATES[:3], flat=True),
        kernel_by_torch(policy, STATES[:3]),
        rtol=1e-8,
        atol=1e-10,
    )


def kernel_by_torch(policy: hr.CategoricalPolicy, states: Any) -> Any:
    probabilities = torch.softmax(policy.module(torch.tensor(states)), dim=1).flatten()
    gradients = [
        torch.cat([part.flatten() for part in torch.autograd.grad(
            one, policy.parameters, retain_graph=True, materialize_grads=True
        )])
        for one in probabilities
    ]  # fmt: skip
    rows = torch.stack(gradients)
    return (rows @ rows.T).numpy()


@pytest.mark.parametrize("numba", [True, False])
@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("name", ODDITIES)
def test_only_the_module_itself_says_what_an_odd_network_says(
    name: str, late: bool, numba: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(3)  # some oddities begin with random vectors of their own
    change, reason = ODDITIES[name]
    if not numba:
        monkeypatch.setattr(fused_module, "find_spec", lambda _: None)
    module: Any = hr.CategoricalPolicy.mlp(spaces(3, 2), [16], seed=3).module
    untouched = hr.CategoricalPolicy(copy.deepcopy(module)).probabilities(STATES)
    if late:  # the policy has been read, and used
        policy = hr.CategoricalPolicy(module)
        policy.probabilities(STATES)
        policy.probabilities(STATES[0])
        change(module)
    else:
        change(module)
        policy = hr.CategoricalPolicy(module)
    agree(policy)
    agree(policy)  # and leaves the network as it is
    assert policy.layers() is None
    assert policy.fused() is None
    changed = np.abs(policy.probabilities(STATES) - untouched).max() > 1e-6
    assert changed == (name not in CHANGE_NOTHING)  # the oddity is one that matters
    rule = hr.AtLeast(1e-9, action=1, where=REGION)
    words = pattern(reason)
    with pytest.raises(
        hr.errors.InvalidPolicy, match=f"can be proven about this network: .*{words}"
    ):
        hr.certify(policy, rule)
    with pytest.raises(hr.errors.InvalidPolicy, match=f"cannot hold this network: .*{words}"):
        hr.export_numpy(policy, tmp_path / "policy.npz", states=STATES)
    assert not list(tmp_path.iterdir())
    assert Architecture.of(module) is None


@contextmanager
def everywhere(register: Any, hook: Any) -> Iterator[None]:
    handle = register(hook)
    try:
        yield
    finally:
        handle.remove()


@pytest.mark.parametrize(
    ("register", "hook"),
    [
        (register_module_forward_hook, lambda _, __, output: 0.5 * output),
        (register_module_forward_pre_hook, lambda _, inputs: (0.5 * inputs[0],)),
    ],
)
def test_hooks_on_every_module_of_torch(register: Any, hook: Any) -> None:
    policy = hr.CategoricalPolicy.mlp(spaces(3, 2), [16], seed=3)
    before = policy.probabilities(STATES)
    with everywhere(register, hook):
        agree(policy)
        assert np.abs(policy.probabilities(STATES) - before).max() > 1e-3
        with pytest.raises(hr.errors.InvalidPolicy, match="hooks that run in every module"):
            hr.certify(policy, hr.AtLeast(0.1, 0, REGION))
    np.testing.assert_allclose(policy.probabilities(STATES), before, rtol=1e-12)
    assert hr.certify(policy, hr.AtLeast(1e-9, 0, REGION)).certified


def quantised() -> nn.Module:
    module = plain().float()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        converted: nn.Module = torch.ao.quantization.quantize_dynamic(module, {"2"}, torch.qint8)
    return converted


def test_a_quantised_layer_is_refused() -> None:
    """Torch rounds its inputs by the largest of the batch: one state and many would differ."""
    policy = hr.CategoricalPolicy(quantised())
    for states in (STATES, STATES[0]):
        with pytest.raises(
            hr.errors.InvalidPolicy, match="'2' is quantised: it rounds by what else"
        ):
            policy.probabilities(states)
    with pytest.raises(hr.errors.InvalidPolicy, match="layer '2', Linear, is quantised"):
        hr.certify(policy, hr.AtLeast(0.1, 0, REGION))


def test_a_lazily_made_layer_is_left_to_torch() -> None:
    module = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.LazyLinear(2))
    policy = hr.CategoricalPolicy(module)
    rule = hr.AtLeast(1e-9, 0, REGION)
    with pytest.raises(hr.errors.InvalidPolicy, match=r"'2', LazyLinear.* has no weights yet"):
        hr.certify(policy, rule)
    one_by_one = [policy.probabilities(state) for state in STATES]
    np.testing.assert_allclose(one_by_one, policy.probabilities(STATES), rtol=1e-6)
    assert hr.certify(policy, rule).certified  # it has them now


def test_half_precision_is_left_to_torch() -> None:
    read = Layers.of(plain().bfloat16())
    assert isinstance(read, Refusal)
    assert "layer '0', Linear" in read.reason
    assert "has a weight in bfloat16" in read.reason


def transposed(module: Any) -> None:
    """Another matrix on the same memory."""
    module[2].weight.data = module[2].weight.data.T


def remade(module: nn.Sequential) -> None:
    del module[1]


def reordered(module: nn.Sequential) -> None:
    module[2], module[4] = module[4], module[2]


@pytest.mark.parametrize("change", [transposed, remade, reordered])
def test_a_plain_network_that_becomes_another_plain_one(change: Any) -> None:
    torch.manual_seed(0)
    layers = [nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8)]
    module = nn.Sequential(*layers, nn.ReLU(), nn.Linear(8, 2)).double()
    policy = hr.CategoricalPolicy(module)
    before = policy.probabilities(STATES[0])
    change(module)
    agree(policy)
    assert np.abs(policy.probabilities(STATES[0]) - before).max() > 1e-4
    assert policy.layers() is not None


def test_options_changed_later_are_noticed() -> None:
    leaky = nn.LeakyReLU()
    module = nn.Sequential(nn.Linear(3, 8), leaky, nn.Linear(8, 2)).double()
    policy = hr.CategoricalPolicy(module)
    policy.probabilities(STATES[0])
    leaky.negative_slope = 0.9
    agree(policy)
    sleeping = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5), nn.ReLU(), nn.Linear(8, 2)).double()
    policy = hr.CategoricalPolicy(sleeping.eval())
    agree(policy)
    assert policy.layers() is not None
    sleeping.train()
    with pytest.raises(hr.errors.InvalidPolicy, match="Dropout '1' is random in training mode"):
        policy.probabilities(STATES[0])


def test_a_copy_of_a_policy_has_weights_of_its_own() -> None:
    policy = hr.CategoricalPolicy.mlp(spaces(3, 2), [16], seed=3)
    copied = copy.deepcopy(policy)
    before = copied.probabilities(STATES[0])
    with torch.no_grad():
        policy.parameters[3][0] += 3.0
    np.testing.assert_array_equal(copied.probabilities(STATES[0]), before)
    with torch.no_grad():
        copied.parameters[3][1] += 3.0
    agree(copied)


@pytest.mark.parametrize("name", ["hook on a layer", "forward of a layer", "weight norm"])
def test_an_odd_network_as_onnx_says_what_it_says(name: str, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    module = plain()
    ODDITIES[name][0](module)
    policy = hr.CategoricalPolicy(module)
    try:
        written = hr.export_onnx(policy, tmp_path / "policy.onnx", states=STATES)
    except hr.errors.InvalidPolicy:
        assert not list(tmp_path.iterdir())
        return
    states = 3.0 * np.random.default_rng(9).normal(size=(50, 3))
    session = onnxruntime.InferenceSession(written.path)
    (found,) = session.run(["probabilities"], {"observations": states})
    np.testing.assert_allclose(found, policy.probabilities(states), atol=1e-6)


@pytest.mark.parametrize(
    "name", ["older weight norm", "older spectral norm", "pruned", "weight norm"]
)
def test_computed_weights_are_copied_into_float64(name: str) -> None:
    module = plain().float()
    ODDITIES[name][0](module)
    policy = hr.CategoricalPolicy(module)
    module(policy.to_tensor(STATES))  # leaves a weight with its graph behind
    exact = policy.in_float64(STATES).probabilities(STATES)
    np.testing.assert_allclose(exact, policy.probabilities(STATES), atol=1e-6)


# --- what is read ---------------------------------------------------------------------------------


def shared_activation(between: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 9), between, nn.Linear(9, 5), between, nn.Linear(5, 3))


def scaling() -> Scaler:
    return Scaler([0.5, 2.0, -1.0, 3.0, 0.01, 7.0], [1.0, 0.0, -2.0, 0.5, 0.0, -30.0])


GAIN = 0.1 * np.arange(18.0).reshape(3, 6) - 0.7


PLAIN: dict[str, Callable[[], nn.Module]] = {
    "one layer": lambda: nn.Sequential(nn.Linear(6, 3)),
    "a layer alone": lambda: nn.Linear(6, 3),
    "deep": lambda: nn.Sequential(
        nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 7), nn.ReLU(), nn.Linear(7, 3)
    ),
    "no bias": lambda: nn.Sequential(
        nn.Linear(6, 9, bias=False), nn.ReLU(), nn.Linear(9, 3, bias=False)
    ),
    "in place": lambda: nn.Sequential(
        nn.Linear(6, 9), nn.SiLU(inplace=True), nn.Linear(9, 5), nn.ReLU(inplace=True),
        nn.Linear(5, 3),
    ),
    "flattened": lambda: nn.Sequential(nn.Flatten(), nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 3)),
    "no activation": lambda: nn.Sequential(nn.Linear(6, 9), nn.Linear(9, 3)),
    "one activation twice": lambda: shared_activation(nn.Tanh()),
    "activation at the end": lambda: nn.Sequential(nn.Linear(6, 3), nn.Tanh()),
    "scaled": lambda: nn.Sequential(scaling(), nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 3)),
    "scaled, one layer of ReLU": lambda: nn.Sequential(
        scaling(), nn.Linear(6, 9), nn.ReLU(), nn.Linear(9, 3)
    ),
    "flattened and scaled": lambda: nn.Sequential(
        nn.Flatten(), scaling(), nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 3)
    ),
    "bounded": lambda: nn.Sequential(
        nn.Linear(6, 9), nn.ReLU(), nn.Linear(9, 3), nn.Tanh(), Scaler([2.0, -1.0, 0.1], [0, 5, 1])
    ),
    "residual": lambda: nn.Sequential(
        Residual(nn.Sequential(nn.Linear(6, 9), nn.ReLU(), nn.Linear(9, 3)), GAIN, [1.0, 0.0, -2.0])
    ),
    "a residual alone, of one layer": lambda: Residual(nn.Linear(6, 3), GAIN, [0.0, 1.0, -2.0]),
    "all of it": lambda: nn.Sequential(
        Residual(PLAIN["scaled, one layer of ReLU"](), GAIN, [0.0] * 3),
        nn.Hardtanh(), Scaler([2.0, 1.0, 0.1], [0.0, 5.0, 1.0]),
    ),
    "flattened, all of it": lambda: nn.Sequential(
        nn.Flatten(), Residual(nn.Sequential(scaling(), nn.Linear(6, 3)), GAIN, [0.0] * 3),
        nn.Tanh(), Scaler([2.0, 1.0, 0.1], [0.0, 5.0, 1.0]),
    ),
    "nested": lambda: nn.Sequential(
        nn.Sequential(nn.Identity(), nn.Linear(6, 9), nn.Sequential(nn.GELU())),
        nn.Dropout(0.5), nn.Linear(9, 3),
    ).eval(),
    **{
        name: lambda kind=activation.kind: nn.Sequential(  # type: ignore[misc]
            nn.Linear(6, 9), kind(), nn.Linear(9, 8), kind(), nn.Linear(8, 3)
        )
        for name, activation in ACTIVATIONS.items()
    },
}  # fmt: skip


def make(name: str) -> tuple[nn.Module, Tensor, Tensor]:
    """A network, states and weights of two functionals per state."""
    torch.manual_seed(5)
    shape = (7, 2, 3) if name.startswith("flattened") else (7, 6)
    module = PLAIN[name]().double()
    return module, 2.0 * torch.randn(shape).double(), torch.randn(7, 2, 3).double()


@pytest.mark.parametrize("name", PLAIN)
def test_every_reading_says_what_the_module_says(name: str) -> None:
    module, states, _ = make(name)
    read = layers_of(module)
    with torch.no_grad():
        expected = module(states.clone()).numpy()
    flat = states.flatten(1).numpy()
    np.testing.assert_allclose(read.arrays().outputs(flat), expected, rtol=1e-12, atol=1e-14)
    policy = hr.CategoricalPolicy(module)
    assert policy.layers() is not None
    one_by_one = [policy._raw_of_one(state) for state in states.numpy()]
    np.testing.assert_allclose(one_by_one, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", PLAIN)
def test_inputs_and_signals_are_those_of_the_graph(name: str) -> None:
    module, states, weights = make(name)
    passed = layers_of(module).passes(states.clone(), weights)
    factors = Factoriser(module, states.clone())(states.clone(), weights)
    assert len(passed) == len(factors) == sum(type(m) is nn.Linear for m in module.modules())
    for one, factor in zip(passed, factors, strict=True):
        assert isinstance(factor, OuterFactor)
        torch.testing.assert_close(one.inputs, factor.inputs, rtol=1e-12, atol=1e-13)
        torch.testing.assert_close(one.signals, factor.signals, rtol=1e-12, atol=1e-13)
        assert one.has_bias == factor.has_bias
        assert not one.inputs.requires_grad
        assert not one.signals.requires_grad


@pytest.mark.parametrize("name", PLAIN)
def test_products_sum_to_the_gradient_that_torch_computes(name: str) -> None:
    module, states, weights = make(name)
    total = (module(states.clone()) * weights[:, 0]).sum()
    linear = [layer for layer in module.modules() if isinstance(layer, nn.Linear)]
    passes = layers_of(module).passes(states.clone(), weights[:, :1])
    for layer, one in zip(linear, passes, strict=True):
        (expected,) = torch.autograd.grad(total, layer.weight, retain_graph=True)
        torch.testing.assert_close(one.signals[:, 0].T @ one.inputs, expected)


def test_weights_are_looked_up_at_every_pass() -> None:
    module, states, weights = make("deep")
    layers = layers_of(module)
    before = layers.passes(states, weights)[0].signals
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(2.0)
    assert layers.is_current()
    assert not torch.allclose(layers.passes(states, weights)[0].signals, before)


def test_what_a_reading_says_of_a_network() -> None:
    layers = layers_of(plain())
    assert layers.activations == (RELU, IDENTITY)
    assert (layers.n_observations, layers.dtype) == (3, torch.float64)
    assert layers.trainable
    layers.linear[0].bias.requires_grad_(False)
    assert layers.is_current()
    assert not layers.trainable


def frozen() -> nn.Module:
    module = PLAIN["deep"]()
    assert isinstance(module, nn.Sequential)
    module[2].weight.requires_grad_(False)
    return module


def test_frozen_parameters_have_no_closed_form() -> None:
    module = frozen().double()
    policy = hr.CategoricalPolicy(module)
    states = np.random.default_rng(0).normal(size=(4, 6))
    np.testing.assert_allclose(
        hr.tangent.tangent_kernel(policy, states, flat=True),
        kernel_by_torch(policy, states),
        rtol=1e-9,
        atol=1e-12,
    )
    assert len(policy.parameters) == 5


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (nn.Sequential(nn.Flatten(2), nn.Linear(6, 3)), "does not flatten whole observations"),
        (nn.Sequential(nn.Tanh()), r"layer '0', Tanh\(\), does not follow a Linear layer"),
        (nn.Sequential(), "it has no Linear layer"),
        (nn.Sequential(nn.Linear(3, 4), nn.Linear(5, 2)), "does not fit 4 outputs of the layer"),
        (nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2).double()), "has another precision or"),
        (
            nn.Sequential(nn.Linear(3, 4), Scaler([1.0] * 4, [0.0] * 4), nn.Linear(4, 2)),
            "stands behind a scaling of outputs",
        ),
        (nn.Sequential(nn.Linear(3, 4), Scaler([1.0] * 3, [0.0] * 3)), "does not fit 4 outputs"),
        (
            nn.Sequential(Scaler([1.0], [0.0]), Scaler([1.0], [0.0]), nn.Linear(1, 2)),
            "is neither in front of all others nor behind them",
        ),
        (
            nn.Sequential(Scaler([1.0], [0.0]), Residual(nn.Linear(1, 2), [[1.0]] * 2, [0, 0])),
            "is not in front of all others",
        ),
        (
            Residual(nn.Sequential(nn.Linear(1, 2), nn.Tanh()), [[1.0]] * 2, [0, 0]),
            "the network of a Residual does not end with the last Linear layer",
        ),
        (
            nn.Sequential(Residual(nn.Linear(1, 2), [[1.0]] * 2, [0, 0]), nn.Linear(2, 2)),
            "the network of a Residual does not end with the last Linear layer",
        ),
        (Residual(nn.Linear(1, 2), [[1.0, 2.0]] * 2, [0, 0]), r"has a gain of shape \(2, 2\)"),
        (Residual(nn.Linear(1, 2), [[1.0]] * 2, [0.0]), "has no offset for each number"),
        (
            nn.Sequential(
                Residual(nn.Sequential(nn.Flatten(), nn.Linear(1, 2)), [[1.0]] * 2, [0, 0])
            ),
            "is not in front of all others",
        ),
        (nn.Sequential(Scaler([1.0], [0.0]), nn.Linear(3, 4)), "does not fit 1 scaled observatio"),
        (nn.Sequential(Scaler([0.0], [0.0]), nn.Linear(1, 4)), "has a factor of 0"),
        (
            nn.Sequential(Scaler([1.0], [0.0], torch.float64), nn.Linear(1, 4)),
            "has another precision or device than the layer",
        ),
        (nn.Sequential(Scaler([1.0], [0.0, 1.0]), nn.Linear(1, 4)), "has no offset for each"),
    ],
)
def test_other_refusals(module: nn.Module, reason: str) -> None:
    read = Layers.of(module)
    assert isinstance(read, Refusal)
    with pytest.raises(ValueError, match=reason):
        raise ValueError(read.reason)


def test_a_layer_applied_to_every_row_of_an_observation() -> None:
    """Flattened only behind it: nothing that takes whole observations may be used."""
    torch.manual_seed(7)
    module = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(9, 2)).double()
    policy = hr.CategoricalPolicy(module)
    states = np.random.default_rng(0).normal(size=(4, 3, 3))
    logits = policy.logits(states)
    with torch.no_grad():
        np.testing.assert_allclose(logits, module(torch.tensor(states)).numpy(), atol=1e-15)
    for seed in range(20):
        draws = np.random.default_rng(seed), np.random.default_rng(seed)
        own = policy.actor(draws[0])(states[0])
        assert own == policy.draw(policy.outputs(states[:1]), [draws[1]])[0]
    result = hr.enforce(policy, [hr.AtLeast(0.9, action=1, where=hr.Points(states[:2]))])
    assert result.satisfied
    assert (policy.probabilities(states[:2])[:, 1] >= 0.9 - 1e-6).all()


@pytest.mark.parametrize("width", [16, 4])
def test_observations_are_not_flattened_unasked(width: int) -> None:
    """A network that takes 6 numbers does not take 2 x 3 of them, whatever evaluates it."""
    policy = hr.CategoricalPolicy.mlp(spaces(6, 2), [width, 5][: 2 if width == 4 else 1])
    states = np.zeros((4, 2, 3))
    with pytest.raises(hr.errors.ShapeMismatch, match=r"refused states of shape \(2, 3\)"):
        policy.probabilities(states)
    with pytest.raises(hr.errors.ShapeMismatch, match=r"refused states of shape \(2, 3\)"):
        policy.act(states[0], np.random.default_rng(0))


def tied() -> nn.Module:
    layer = nn.Linear(6, 6)
    return nn.Sequential(layer, nn.Tanh(), layer)


@pytest.mark.parametrize(
    "module",
    [*(PLAIN[name]() for name in PLAIN if not name.startswith("flattened")), frozen(), tied()],
    ids=lambda module: f"{len(list(module.modules()))} parts",
)
def test_a_copy_in_float64_is_the_same_network_and_independent(module: nn.Module) -> None:
    torch.manual_seed(6)
    states = torch.randn(7, 6)
    copied = hr.CategoricalPolicy(module).in_float64(states.numpy()).module
    expected = module(states.clone())
    found = copied(states.double())
    assert found.dtype == torch.float64
    torch.testing.assert_close(found.float(), expected, rtol=1e-5, atol=1e-6)
    ours, theirs = list(copied.parameters()), list(module.parameters())
    assert [p.requires_grad for p in ours] == [p.requires_grad for p in theirs]
    assert all(torch.equal(a, b.double()) for a, b in zip(ours, theirs, strict=True))
    with torch.no_grad():
        for parameter in ours:
            parameter.add_(1.0)
    torch.testing.assert_close(module(states.clone()), expected)
