"""`Source`: an nd module with the names, ranges and weights that make it a model; from a function or from a file."""

import copy
import inspect
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp

from firebox import dims
from firebox.dialects.nd.aval import Aval, aval_of
from firebox.errors import UserError
from firebox.frontend import irtext, tree
from firebox.frontend.build import build
from firebox.frontend.cells import Cell
from firebox.frontend.devices import current_device, device
from firebox.frontend.execute import buffer_of
from firebox.frontend.graph import Var
from firebox.frontend.jit_trace import TracedFunction, forbid_draws, forbid_writes, trace_function
from firebox.frontend.nn.module import Module
from firebox.frontend.record import safetensors
from firebox.frontend.traced import check_callable
from firebox.frontend.tree import LEAF, TreeDef
from firebox.lowering.module import main_function
from firebox.runtime.artifact import Weight
from firebox.runtime.device import Device
from firebox.signature import Signature, TensorSpec, parse_inputs

Inputs = str | Iterable[str] | Signature
Weights = str | os.PathLike[str] | Mapping[str, Any] | None


@dataclass(frozen=True, eq=False)
class Source:
    """A model before it is compiled.

    Attributes:
        name: of the model.
        module: ``@main`` in the nd dialect; its inputs are those of the signature and the weights.
        signature: what a caller passes and gets.
        weights: arrays that are inputs of ``@main`` but not of a caller.
    """

    name: str
    module: ModuleOp
    signature: Signature
    weights: tuple[Weight, ...] = ()

    def copy(self) -> ModuleOp:
        """The module again, for a compilation that uses it up."""
        return self.module.clone()


def from_text(text: str, name: str, inputs: Inputs | None = None) -> Source:
    """A source from MLIR text; every input of ``@main`` is one of the signature.

    Args:
        text: a module whose function ``@main`` is in the nd dialect.
        name: of the file, for messages and as the model's name.
        inputs: the same inputs again with ranges of their dims, if there are any.

    Raises:
        UserError: malformed text, or other inputs than the function has.
    """
    module = irtext.parse_module(text, name)
    function = main_function(module)
    kind = function.function_type
    specs = [_spec(_name(function, index), type_) for index, type_ in enumerate(kind.inputs.data)]
    outputs = tuple(_spec(f"out{index}", type_) for index, type_ in enumerate(kind.outputs.data))
    if inputs is None:
        return Source(Path(name).stem, module, Signature(tuple(specs), outputs))
    given = as_signature(inputs)
    if given.inputs != tuple(specs):
        expected = "; ".join(map(str, specs))
        raise UserError("not the inputs of @main", op=name, expected=expected, found="; ".join(map(str, given.inputs)))
    return Source(Path(name).stem, module, Signature(tuple(specs), outputs, given.ranges))


def trace(function: Callable[..., Any], inputs: Inputs, weights: Weights = None, name: str = "") -> Source:
    """A source from a model or function: it is called once, on placeholders.

    A model is traced as it behaves in inference; it is not changed. Cells that are read, and tensors that are used
    without being given, become weights, named by their paths.

    Args:
        function: takes tensors by position, or by the inputs' names if it has such parameters; gives tensors, also in
            tuples, lists and dicts.
        inputs: as `parse_inputs` reads them.
        weights: values for the model's parameters and buffers by path, or a safetensors file of them.
        name: of the model; by default that of the function or class.

    Raises:
        UserError: weights without a model, results that are no tensors, or state that is updated.
        TraceError: the function needs a value that is known only when the program runs.
    """
    check_callable("compile", function)
    signature = as_signature(inputs)
    title = name or getattr(function, "__name__", type(function).__name__)
    if isinstance(function, Module):
        function = copy.deepcopy(function).eval()
    if weights is not None:
        _load(function, weights)
    leaves = [Aval(spec.dtype, spec.shape) for spec in signature.inputs]
    structure = _structure(function, signature)
    _check_call(function, structure, signature)
    where = _device_of(function)
    with device(where):
        traced = trace_function(function, structure, leaves, where)
    forbid_writes(traced, "compile")
    forbid_draws(traced, "compile")
    found = _weights(function, traced, {spec.name for spec in signature.inputs})
    names = [*(spec.name for spec in signature.inputs), *(weight.name for weight in found)]
    module = build(traced.plan, (), names)
    outputs = tuple(_output(path, traced, position) for position, path in enumerate(_paths(traced)))
    return Source(title, module, Signature(signature.inputs, outputs, signature.ranges), found)


def _device_of(function: Callable[..., Any]) -> Device:
    """The device that the function's cells live on; it says nothing about where the artifact will run."""
    return next((cell.device for _, cell in _cells(function)), current_device())


def _check_call(function: Callable[..., Any], structure: TreeDef, signature: Signature) -> None:
    """Raises UserError unless the function can be called with these inputs."""
    args, kwargs = tree.unflatten(structure, list(signature.inputs))
    target = inspect.signature(_target(function))
    try:
        target.bind(*args, **kwargs)
    except TypeError as error:
        found = "; ".join(map(str, signature.inputs)) or "no inputs"
        raise UserError(
            f"the inputs are not the arguments of the function: {error}",
            op="compile",
            expected=f"inputs for {target}",
            found=found,
        ) from None


def _target(function: Callable[..., Any]) -> Callable[..., Any]:
    return function.forward if isinstance(function, Module) else function


def _load(function: Callable[..., Any], weights: Weights) -> None:
    if not isinstance(function, Module):
        raise UserError("weights are for models", op="weights", expected="a Module", found=type(function).__name__)
    function.load_state_dict(weights if isinstance(weights, Mapping) else safetensors.load(cast(Any, weights)))


def _structure(function: Callable[..., Any], signature: Signature) -> TreeDef:
    """The structure of (args, kwargs): by position, unless the inputs are parameters by name in another order."""
    names = tuple(spec.name for spec in signature.inputs)
    known = [
        name
        for name, parameter in inspect.signature(_target(function)).parameters.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    ]
    leaves = (LEAF,) * len(names)
    by_name = set(names) <= set(known) and list(names) != known[: len(names)]
    args = TreeDef(tuple, (), () if by_name else leaves)
    kwargs = TreeDef(dict, names if by_name else (), leaves if by_name else ())
    return TreeDef(tuple, (), (args, kwargs))


def _weights(function: Callable[..., Any], traced: TracedFunction, taken: set[str]) -> tuple[Weight, ...]:
    """What the program takes besides its arguments: hidden cells, then captured tensors."""
    paths = {cell.slot: path for path, cell in _cells(function)}
    hidden = [(paths.get(slot, "cell"), slot.own()) for slot in traced.trace.hidden]
    constants = [("constant", var) for var in traced.constants]
    found = []
    for position, (path, var) in enumerate([*hidden, *constants], len(traced.arguments)):
        assert var is not None
        name = _unused(path, taken)
        found.append(Weight(name, position, _array(var)))
    return tuple(found)


def _unused(name: str, taken: set[str]) -> str:
    """The name, numbered if it is in use already."""
    candidates = itertools.chain([name], (f"{name}.{number}" for number in itertools.count(1)))
    free = next(candidate for candidate in candidates if candidate not in taken)
    taken.add(free)
    return free


def _cells(function: Callable[..., Any]) -> Iterator[tuple[str, Cell]]:
    """Cells that a model holds or a function refers to, with their paths; the first path of a cell comes first."""
    if isinstance(function, Module):
        yield from reversed(list(function.named_cells()))
        return
    owner = getattr(function, "__self__", None)
    if isinstance(owner, Module):
        yield from reversed(list(owner.named_cells()))
    plain = inspect.unwrap(getattr(function, "__func__", function))
    if not inspect.isfunction(plain):
        return
    variables = inspect.getclosurevars(plain)
    for name, value in sorted({**variables.globals, **variables.nonlocals}.items()):
        if isinstance(value, Cell):
            yield name, value
        elif isinstance(value, Module):
            yield from ((f"{name}.{path}", cell) for path, cell in value.named_cells())


def _array(var: Var) -> NDArray[Any]:
    shape = tuple(dims.evaluate(d, {}) for d in var.aval.shape)
    array = buffer_of(var).as_numpy(var.aval.dtype.numpy, shape, internal=True)
    return array.copy()  # the memory is the tensor's, which may be given up


def _paths(traced: TracedFunction) -> list[str]:
    """A name for each output: its place in the result."""
    return [path or f"out{position}" for position, path in enumerate(_leaf_paths(traced.structure, ""))]


def _leaf_paths(structure: TreeDef, path: str) -> Iterator[str]:
    if structure.kind is None:
        yield path
    named = bool(structure.keys)
    for position, child in enumerate(structure.children):
        key = str(structure.keys[position]) if named else f"out{position}" if not path else str(position)
        yield from _leaf_paths(child, f"{path}.{key}" if path else key)


def _output(path: str, traced: TracedFunction, position: int) -> TensorSpec:
    number = traced.results[position]
    if isinstance(number, tuple):
        raise UserError("a result is no tensor", op="compile", expected="tensors", found=f"{path}: {number[0]!r}")
    aval = traced.outputs[number].aval
    return TensorSpec(path, aval.dtype, aval.shape)


def as_signature(inputs: Inputs) -> Signature:
    return inputs if isinstance(inputs, Signature) else parse_inputs(inputs)


def _spec(name: str, type_: Any) -> TensorSpec:
    aval = aval_of(type_)
    return TensorSpec(name, aval.dtype, aval.shape)


def _name(function: FuncOp, index: int) -> str:
    attributes = function.arg_attrs.data if function.arg_attrs is not None else ()
    name = attributes[index].data.get("nd.name") if index < len(attributes) else None
    return name.data if isinstance(name, StringAttr) else f"in{index}"
