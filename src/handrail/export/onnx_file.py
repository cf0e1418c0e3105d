"""A policy as an ONNX file: any network that torch can trace, checked with onnxruntime."""

from __future__ import annotations

import copy
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from handrail._storage import to_json
from handrail._types import Array
from handrail.errors import InvalidArgument, InvalidPolicy
from handrail.export.exported import (
    Exportable,
    Exported,
    Proven,
    check_ending,
    write_compared,
)
from handrail.export.onnx_chain import INPUT, LEAKY
from handrail.export.opened_export import of_onnx
from handrail.policies import MeanAndStd, Policy, Quantity
from handrail.proof import Budget
from handrail.rulebook import AnyConstraints, Rulebook

OPSET = 18


def export_onnx(
    policy: Policy,
    path: str | Path,
    constraints: AnyConstraints = (),
    *,
    observations: Sequence[str] = (),
    actions: Sequence[str] = (),
    constraint_file: str | Rulebook = "",
    states: ArrayLike | None = None,
    tolerance: float | None = None,
    float32: bool = False,
    prove: bool = False,
    budget: Budget | None = None,
) -> Exported:
    """Write a policy as an ONNX file: `observations` in, `logits` and `probabilities` out.

    Of continuous actions, the `mean` comes out. The file computes in the policy's precision; in
    float32 where onnxruntime has no float64 (GELU, convolutions). Before it is written, onnxruntime
    must reproduce the policy's outputs to 1e-6. A file of that name is replaced.

    Args:
        policy: to export; stays as it is.
        path: of the file.
        constraints: a list, a `Rulebook` or a constraint file, whose report travels along as
            metadata; so do a file's names and its text.
        observations: their names, if they have some.
        actions: their names, if they have some.
        constraint_file: a `Rulebook`, or the text of a file, to travel along; of a `Rulebook` the
            array files do, too.
        states: (n, *observation_shape) to compare at, besides those of the constraints and random
            ones; needed if neither constraints nor the first layer tell what is observed.
        tolerance: the violation that counts as none in the report; by default 1e-6, of a policy in
            float32 1e-5.
        float32: compute in float32 whatever the policy's precision.
        prove: read the file back, prove its constraints in the arithmetic that it computes in,
            rounding included, and let the certificate travel along, whatever it says.
        budget: of each bound of that proof.
    """
    file = check_ending(path, ".onnx")
    _refuse_missing_packages()
    subject = Exportable.of(
        policy, constraints, observations, actions, constraint_file, states, tolerance
    )
    model, precision, run = _running(subject, float32)

    def content(metadata: dict[str, Any]) -> bytes:
        del model.metadata_props[:]
        for key, value in metadata.items():
            text = value if isinstance(value, str) else to_json(value)
            model.metadata_props.add(key=key, value=text)
        packed: bytes = model.SerializeToString()
        return packed

    proven = Proven(of_onnx, budget) if prove else None
    return write_compared(subject, file, precision, run, content, proven)


@final
class _WithProbabilities(nn.Module):
    """The network, and the softmax over its logits, or over those of each branch."""

    def __init__(self, module: nn.Module, quantity: Quantity) -> None:
        super().__init__()
        self.network = module
        self._branches = list(getattr(quantity, "sizes", ()))

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        logits = self.network(observations)
        if not self._branches:
            return logits, torch.softmax(logits, dim=-1)
        each = [torch.softmax(one, dim=-1) for one in logits.split(self._branches, dim=-1)]
        return logits, torch.cat(each, dim=-1)


@final
class _WithStd(nn.Module):
    """The network as means, and standard deviations in their range."""

    least: Tensor
    most: Tensor

    def __init__(self, module: nn.Module, quantity: MeanAndStd, dtype: torch.dtype) -> None:
        super().__init__()
        self.network = module
        ends = np.array([quantity.least, quantity.most])
        if dtype == torch.float32:
            ends = range_in_float32(*ends)
        self.register_buffer("least", torch.tensor(ends[0], dtype=dtype))
        self.register_buffer("most", torch.tensor(ends[1], dtype=dtype))

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        mean, noise = self.network(observations).chunk(2, dim=-1)
        middle, half = 0.5 * (self.least + self.most), 0.5 * (self.most - self.least)
        return mean, (middle + half * torch.tanh(noise)).clamp(self.least, self.most)


def range_in_float32(least: Array, most: Array) -> Array:
    """The widest range (2, n) in this one whose ends, middle and half width float32 has exactly.

    Then the file computes nothing but what its numbers say, and it can be read back. A range that
    is narrower than float32 can tell apart stays as it is.
    """
    step = 2.0 * np.spacing(most.astype(np.float32)).astype(np.float64)
    within = np.stack([np.ceil(least / step), np.floor(most / step)]) * step
    return np.where(within[0] < within[1], within, np.stack([least, most]))


def _running(subject: Exportable, float32: bool) -> tuple[Any, str, Callable[[Array], Array]]:
    """The model, its precision, and its outputs by onnxruntime."""
    from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as Missing

    module = copy.deepcopy(subject.policy.module).cpu().eval()
    if float32:
        return _in_precision(module.float(), subject, torch.float32)
    try:
        return _in_precision(module, subject, subject.policy.dtype)
    except Missing as error:
        if subject.policy.dtype == torch.float32:
            raise InvalidPolicy(f"onnxruntime cannot run this network: {error}") from error
        return _in_precision(module.float(), subject, torch.float32)


def _in_precision(
    module: nn.Module, subject: Exportable, dtype: torch.dtype
) -> tuple[Any, str, Callable[[Array], Array]]:
    from onnxruntime import InferenceSession, SessionOptions

    precision = str(dtype).removeprefix("torch.")
    quantity = subject.policy.quantity
    names = quantity.stages
    traced = _WithProbabilities(module, quantity) if "probabilities" in names else module
    shown = list(names[-1:])
    if isinstance(quantity, MeanAndStd):
        traced, shown = _WithStd(module, quantity, dtype), list(names)
    model = _traced(traced, torch.as_tensor(subject.states[:2], dtype=dtype), names)
    options = SessionOptions()
    options.intra_op_num_threads = 1
    session = InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )

    def run(states: Array) -> Array:
        outputs = session.run(shown, {INPUT: states.astype(precision)})
        return np.concatenate(outputs, axis=1).astype(np.float64)

    return model, precision, run


def _traced(module: nn.Module, example: Tensor, outputs: Sequence[str]) -> Any:
    """The ONNX model of a network, for any number of states at once."""
    any_number = ({0: torch.export.Dim("states")},)
    try:
        with _quietly():
            traced = torch.export.export(module.eval(), (example,), dynamic_shapes=any_number)
            program = torch.onnx.export(
                traced,
                dynamo=True,
                verbose=False,
                opset_version=OPSET,
                input_names=[INPUT],
                output_names=list(outputs),
                dynamic_shapes=any_number,
            )
    except Exception as error:  # whatever torch finds in the user's network
        raise InvalidPolicy(
            f"torch cannot export {_name(module)} as ONNX. Its own words: "
            f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
        ) from error
    assert program is not None  # it is, of the older exporter only
    model = program.model_proto
    for node in model.graph.node:  # where in whose files each operation came from
        del node.metadata_props[:]
    if example.dtype == torch.float64:
        _keep_slopes(model.graph)
    return model


def _keep_slopes(graph: Any) -> None:
    """LeakyReLU as max(h, 0.01 h): its slope as an attribute of ONNX would be one of float32."""
    from onnx import helper, numpy_helper

    nodes = []
    for node in graph.node:
        if node.op_type != "LeakyRelu" or node.attribute[0].f != np.float32(LEAKY):
            nodes.append(node)
            continue
        (given,), (returned,) = node.input, node.output
        slope, small = f"{returned}.slope", f"{returned}.small"
        graph.initializer.append(numpy_helper.from_array(np.array(LEAKY), slope))
        nodes.append(helper.make_node("Mul", [given, slope], [small]))
        nodes.append(helper.make_node("Max", [given, small], [returned]))
    del graph.node[:]
    graph.node.extend(nodes)


def _name(module: nn.Module) -> str:
    return type(
        module.network if isinstance(module, _WithProbabilities | _WithStd) else module
    ).__name__


@contextmanager
def _quietly() -> Iterator[None]:
    """Without torch's remarks about itself and about packages that it does without."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            yield
    finally:
        logger.setLevel(level)


def _refuse_missing_packages() -> None:
    try:
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ModuleNotFoundError as error:
        raise InvalidArgument(
            f'Exporting to ONNX needs {error.name}: pip install "handrail[onnx]". A NumPy file '
            "needs nothing more."
        ) from error
