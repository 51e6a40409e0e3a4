"""`Source`: an nd module with the names, ranges and weights that make it a model; from a function or from a file."""

import importlib.util
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp

from firebox.dialects.nd.aval import aval_of
from firebox.errors import UserError
from firebox.frontend import irtext
from firebox.frontend.nn.module import Module
from firebox.frontend.record import safetensors
from firebox.lowering.module import main_function
from firebox.runtime.artifact import Weight
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


def as_signature(inputs: Inputs) -> Signature:
    return inputs if isinstance(inputs, Signature) else parse_inputs(inputs)


def _spec(name: str, type_: Any) -> TensorSpec:
    aval = aval_of(type_)
    return TensorSpec(name, aval.dtype, aval.shape)


def _name(function: FuncOp, index: int) -> str:
    attributes = function.arg_attrs.data if function.arg_attrs is not None else ()
    name = attributes[index].data.get("nd.name") if index < len(attributes) else None
    return name.data if isinstance(name, StringAttr) else f"in{index}"
