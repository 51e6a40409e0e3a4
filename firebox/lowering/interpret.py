"""The reference: run nd IR in NumPy, one op at a time. Every pass and every kernel is tested against it.

`nd.grad` and `nd.jvp` are expanded (in a copy) and the plain ops run; `nd.vmap` runs its region once per slice, so
that it also checks the batching rules; `nd.checkpoint`, `nd.custom_vjp` and ops with one isolated block (`nd.group`)
run their first region as it stands.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, SSAValue

from firebox import dims
from firebox.dialects.nd.aval import Aval, aval_of
from firebox.dialects.nd.base import Kind, NdOp
from firebox.dialects.nd.control import CondOp, ControlOp, ScanOp, WhileOp
from firebox.dialects.nd.params import DIMS
from firebox.dialects.nd.transform import GradOp, JvpOp, VmapOp, YieldOp
from firebox.dialects.xdsl_compat import location_text, operands_of, ops_of
from firebox.dims import Dim, DimLike
from firebox.errors import CompilerError, FireboxError, InputError
from firebox.lowering.module import main_function
from firebox.lowering.transforms import expand_in

Array = npt.NDArray[Any]
Env = dict[SSAValue, Array]


def interpret(
    program: ModuleOp | FuncOp | Block, inputs: Sequence[Array], dim_values: Mapping[str, int] | None = None
) -> list[Array]:
    """Run a module's @main, a function or a block that returns or yields.

    Args:
        program: what to run; it is not changed.
        inputs: one array per argument; element type and shape must fit.
        dim_values: values of symbolic dims that the shapes of the inputs do not determine.

    Raises:
        InputError: the inputs do not fit the arguments. CompilerError: an op that has no meaning here.
    """
    function = main_function(program) if isinstance(program, ModuleOp) else program
    if isinstance(function, FuncOp) and any(isinstance(op, GradOp | JvpOp) for op in function.walk()):
        function = function.clone()
        expand_in(function.body.block, vmap=False)
    block = function.body.block if isinstance(function, FuncOp) else function
    values = bind_dims([aval_of(a.type) for a in block.args], inputs, dim_values or {})
    return _run(block, inputs, {}, values)


def bind_dims(avals: Sequence[Aval], inputs: Sequence[Array], known: Mapping[str, int]) -> dict[str, int]:
    """Values of the symbolic dims, read off the shapes of the inputs.

    Raises:
        InputError: number, element type, rank or a size does not fit.
    """
    if len(avals) != len(inputs):
        raise InputError("wrong number of inputs", expected=len(avals), found=len(inputs))
    values = dict(known)
    pairs = list(_dim_pairs(avals, inputs))
    for dim, size in pairs:
        _solve(dim, size, values)
    for position, (aval, array) in enumerate(zip(avals, inputs, strict=True)):
        shape = tuple(dims.substitute(d, values) for d in aval.shape)
        if shape != array.shape or aval.dtype.numpy != array.dtype:
            raise InputError(f"input {position} does not fit", expected=aval, found=f"{array.dtype}{array.shape}")
    return values


def _dim_pairs(avals: Sequence[Aval], inputs: Sequence[Array]) -> Iterator[tuple[DimLike, int]]:
    for aval, array in zip(avals, inputs, strict=True):
        yield from zip(aval.shape, array.shape, strict=False)


def _solve(dim: DimLike, size: int, values: dict[str, int]) -> None:
    """Bind the name of ``a*name + b == size`` when it is the only unknown."""
    rest = dims.substitute(dim, dict(values))
    if not isinstance(rest, Dim):
        return
    unknown = dims.names(rest)
    factor = rest.terms[0][1]
    offset = rest - dims.multiply(factor, dims.dim(unknown[0]))
    if len(unknown) == 1 and isinstance(offset, int) and (size - offset) % factor == 0:
        values[unknown[0]] = (size - offset) // factor


def _run(block: Block, inputs: Sequence[Array], outer: Env, dim_values: Mapping[str, int]) -> list[Array]:
    env = dict(outer)
    env.update(zip(block.args, inputs, strict=True))
    for op in ops_of(block):
        operands = [env[v] for v in operands_of(op)]
        if isinstance(op, ReturnOp | YieldOp):
            return operands
        try:
            results = _evaluate(op, operands, env, dim_values)
        except FireboxError as error:
            raise error.at(location_text(op.location)) from None
        env.update(zip(op.results, results, strict=True))
    raise CompilerError("the block does not return or yield")


def _evaluate(op: Operation, operands: list[Array], env: Env, dim_values: Mapping[str, int]) -> Sequence[Array]:
    if not isinstance(op, NdOp):
        raise CompilerError("not an nd op", op=op.name)
    if isinstance(op, VmapOp):
        return _vmap(op, operands, env, dim_values)
    if isinstance(op, GradOp | JvpOp):
        raise CompilerError("interpret the whole function, so that it can be expanded", op=op.name)
    if isinstance(op, ControlOp):
        return _control(op, operands, dim_values)
    if op.kind is Kind.REGION:
        results = _run(op.regions[0].block, operands, env, dim_values)
        return results[: len(op.results)]
    return op.evaluate_all(operands, concrete_params(op, dim_values))


def concrete_params(op: NdOp, dim_values: Mapping[str, int]) -> dict[str, Any]:
    """The parameters of an op with every symbolic dim replaced by its value."""
    values = op.values
    if dim_values:
        for name, param in op.params.items():
            if param is DIMS:
                values[name] = tuple(dims.evaluate(d, dim_values) for d in values[name])
    return values


def _vmap(op: VmapOp, operands: list[Array], env: Env, dim_values: Mapping[str, int]) -> list[Array]:
    params = concrete_params(op, dim_values)
    (size,) = params["size"]
    axes = params["in_axes"]
    block = op.body.block
    runs = []
    for k in range(size):
        slices = [a if axis < 0 else np.take(a, k, axis) for a, axis in zip(operands, axes, strict=True)]
        runs.append(_run(block, slices, env, dim_values))
    if not runs:
        return [_empty(aval, dim_values) for aval in op.avals]
    columns = zip(*runs, strict=True)
    return [np.stack(c, axis) for c, axis in zip(columns, params["out_axes"], strict=True)]


def _empty(aval: Aval, dim_values: Mapping[str, int]) -> Array:
    return np.zeros([dims.evaluate(d, dim_values) for d in aval.shape], aval.dtype.numpy)


# ---- control flow ------------------------------------------------------------------------------------------------


def _control(op: ControlOp, operands: list[Array], dim_values: Mapping[str, int]) -> list[Array]:
    blocks = op.blocks
    if isinstance(op, CondOp):
        return _run(blocks[0] if operands[0] else blocks[1], operands[1:], {}, dim_values)
    carry = op.values["carry"]
    carried, others = operands[:carry], operands[carry:]
    if isinstance(op, ScanOp):
        return _scan(op, carried, others, dim_values)
    assert isinstance(op, WhileOp)
    while _run(blocks[0], [*carried, *others], {}, dim_values)[0]:
        carried = _run(blocks[1], [*carried, *others], {}, dim_values)
    return carried


def _scan(op: ScanOp, carried: list[Array], others: list[Array], dim_values: Mapping[str, int]) -> list[Array]:
    params = concrete_params(op, dim_values)
    (length,) = params["length"]
    slices, others = others[: params["slices"]], others[params["slices"] :]
    stacks = [_empty(aval, dim_values) for aval in op.avals[params["carry"] :]]
    for k in reversed(range(length)) if params["reverse"] else range(length):
        results = _run(op.blocks[0], [*carried, *(x[k] for x in slices), *others], {}, dim_values)
        carried = results[: params["carry"]]
        for stack, row in zip(stacks, results[params["carry"] :], strict=True):
            stack[k] = row
    return [*carried, *stacks]
