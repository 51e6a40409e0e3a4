"""`Executable`: a program and its loaded code; makes outputs and workspace, calls, and raises what went wrong."""

import operator
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firebox import dims as dim
from firebox.errors import CompilerError, DeviceError, FireboxError, ShapeError
from firebox.runtime.cpu import slots
from firebox.runtime.device import Device
from firebox.runtime.memory import Buffer
from firebox.runtime.opencl_code import Code
from firebox.runtime.program import THREADS, Program
from firebox.runtime.status import INDEX_OUT_OF_RANGE, Status, fault
from firebox.signature import Signature, TensorSpec

_MAX_SIZES = 256  # remembered choices of dims
_MAX_BYTES = 1 << 46  # beyond any machine's memory; keeps sizes inside what an allocator takes
_SMALL_ARENA = 4096

Array = NDArray[Any]
_get_ptr, _get_nbytes = operator.attrgetter("ptr"), operator.attrgetter("nbytes")


class _Sizes:
    """Bytes of every buffer and shapes of the outputs for one choice of dims and threads."""

    __slots__ = ("arena", "dims", "inputs", "outputs", "shapes")

    def __init__(self, program: Program, dims: Sequence[int], threads: int) -> None:
        env = dict(zip(program.dims, dims, strict=True))
        self.dims = slots(dims)
        self.inputs = [_nbytes(spec, env) for spec in program.inputs]
        self.outputs = [_nbytes(spec, env) for spec in program.outputs]
        self.shapes = [tuple(dim.evaluate(d, env) for d in spec.shape) for spec in program.outputs]
        self.arena = _checked(dim.evaluate(program.arena, {**env, THREADS: threads}), "workspace")


class Executable:
    """A program ready to run on a device. Calls may come from several threads at once.

    Args:
        program: what the code is.
        code: what the compiler made of it for the kind of the device.
        device: where to load it.

    Raises:
        ArtifactError: the code is for another architecture, or another kind of device.
        DeviceError: the code lacks the program's entry.
    """

    def __init__(self, program: Program, code: Code, device: Device | str = "cpu") -> None:
        self.program = program
        self.device = Device(device)
        backend = self.device.backend
        self._environment = backend.environment
        self._allocate = backend.allocate
        self._align = backend.align
        self._run = backend.make_entry(backend.load(code), program.entry, program.kernels).run
        self._sizes: dict[tuple[int, ...], _Sizes] = {}
        self._pack_inputs = struct.Struct(f"{len(program.inputs)}q").pack
        self._pack_outputs = struct.Struct(f"{len(program.outputs) + 1}q").pack
        self._arenas: list[Buffer] = []  # spare ones, each of _SMALL_ARENA bytes

    def __repr__(self) -> str:
        return f"Executable({self.program.name} on {self.device.name})"

    def run(
        self, inputs: Sequence[Buffer], dims: Sequence[int] = (), donate: Sequence[bool] | None = None
    ) -> list[Buffer]:
        """Call the program; returns when the call is done, or under way on a device that does one after the other.

        Args:
            inputs: one buffer per input, of at least its size; nobody else may write them meanwhile.
            dims: values of the program's dims, in their order. The caller has checked them against the shapes.
            donate: for each input, whether the caller gives its buffer up; the result may then live in it.

        Returns:
            One buffer per output.

        Raises:
            CompilerError: the number or size of the buffers is not what the program takes.
            ShapeError: the dims do not meet a guard.
            IndexRangeError, DeviceError: a fault that the code reports, with the line of its op.
        """
        env = self._environment()
        sizes = self._sizes_for(dims, env.threads)
        if list(map(_get_nbytes, inputs)) != sizes.inputs:
            self._check_sizes(inputs, sizes)
        if self._align is not None:
            inputs = self._align(inputs)
        outputs = list(map(self._allocate, sizes.outputs)) if donate is None else self._outputs(inputs, sizes, donate)
        arena = self._take_arena(sizes.arena)
        args = self._pack_inputs(*map(_get_ptr, inputs))
        outs = self._pack_outputs(*map(_get_ptr, outputs), arena.ptr)
        status = self._run(env, args, sizes.dims, outs)
        if arena.nbytes == _SMALL_ARENA:
            self._arenas.append(arena)
        if status is not None:
            raise self._fault(status, outputs)
        return outputs

    __call__ = run

    def bound(self, dims: Sequence[int] = ()) -> Callable[[Sequence[Buffer], Sequence[bool] | None], list[Buffer]]:
        """`run` for given dims, for callers who know that their inputs have the right sizes: nothing is checked.

        A jitted function calls the same program with the same sizes again and again; the look-ups of `run` would take
        as long as the call.
        """
        env = self._environment()
        sizes = self._sizes.get((env.threads, *dims)) or self._measure(dims, env.threads)
        allocators = [self.device.backend.allocator(nbytes) for nbytes in sizes.outputs]
        pack_inputs, pack_outputs, run = self._pack_inputs, self._pack_outputs, self._run
        environment, packed_dims, arena_size = self._environment, sizes.dims, sizes.arena

        def call(inputs: Sequence[Buffer], donate: Sequence[bool] | None) -> list[Buffer]:
            if environment() is not env:  # another number of threads
                return self.run(inputs, dims, donate)
            outputs = [make() for make in allocators] if donate is None else self._outputs(inputs, sizes, donate)
            args = pack_inputs(*[b.ptr for b in inputs])
            if not arena_size:
                status = run(env, args, packed_dims, pack_outputs(*[b.ptr for b in outputs], 0))
            else:
                arena = self._take_arena(arena_size)
                status = run(env, args, packed_dims, pack_outputs(*[b.ptr for b in outputs], arena.ptr))
                if arena.nbytes == _SMALL_ARENA:
                    self._arenas.append(arena)
            if status is not None:
                raise self._fault(status, outputs)
            return outputs

        align = self._align
        return call if align is None else lambda inputs, donate: call(align(inputs), donate)

    def run_arrays(self, arrays: Mapping[str, Any], signature: Signature | None = None) -> dict[str, Array]:
        """Call the program on arrays by input name; returns fresh arrays by output name.

        Args:
            arrays: one per input, NumPy arrays or scalars. Element type and shape must be right; strides may be any.
            signature: with ranges of the dims; the program's own has none.

        Raises:
            InputError: an array is missing, or does not fit.
            IndexRangeError, ShapeError, DeviceError: as `run`.
        """
        signature = signature or self.program.signature
        values = signature.order(arrays)
        env = signature.bind(values)
        from_numpy = self.device.backend.from_numpy
        buffers = [from_numpy(contiguous(value)) for value in values]
        return self.run_to_arrays(buffers, [env[name] for name in self.program.dims])

    def run_to_arrays(self, inputs: Sequence[Buffer], dims: Sequence[int]) -> dict[str, Array]:
        """`run`, giving the outputs as fresh arrays by name."""
        buffers = self.run(inputs, dims)
        shapes = self._sizes_for(dims, self._environment().threads).shapes
        return {
            spec.name: buffer.as_numpy(spec.dtype.numpy, shape, writable=True)
            for spec, buffer, shape in zip(self.program.outputs, buffers, shapes, strict=True)
        }

    def arena_bytes(self, dims: Sequence[int] = ()) -> int:
        """Bytes of workspace that a call with these dims takes now."""
        return self._sizes_for(dims, self._environment().threads).arena

    def _sizes_for(self, dims: Sequence[int], threads: int) -> _Sizes:
        return self._sizes.get((threads, *dims)) or self._measure(dims, threads)

    def _measure(self, dims: Sequence[int], threads: int) -> _Sizes:
        if len(dims) != len(self.program.dims):
            expected = f"values of {', '.join(self.program.dims) or 'no dims'}"
            raise CompilerError("wrong number of dims", op=self.program.name, expected=expected, found=list(dims))
        self._check_guards(dict(zip(self.program.dims, dims, strict=True)))
        sizes = _Sizes(self.program, dims, threads)
        if len(self._sizes) >= _MAX_SIZES:
            self._sizes.clear()
        self._sizes[threads, *dims] = sizes
        return sizes

    def _outputs(self, inputs: Sequence[Buffer], sizes: _Sizes, donate: Sequence[bool]) -> list[Buffer]:
        shared = {output: source for output, source in self.program.aliases if donate[source]}
        return [
            inputs[shared[index]] if index in shared and _may_write(inputs, shared[index]) else self._allocate(size)
            for index, size in enumerate(sizes.outputs)
        ]

    def _take_arena(self, nbytes: int) -> Buffer:
        """Workspace for one call. Small ones are kept, as making a buffer costs as much as a short call."""
        if nbytes > _SMALL_ARENA:
            return self._allocate(nbytes)
        try:
            return self._arenas.pop()
        except IndexError:
            return self._allocate(_SMALL_ARENA)

    def _check_sizes(self, inputs: Sequence[Buffer], sizes: _Sizes) -> None:
        found = [buffer.nbytes for buffer in inputs]
        if len(found) != len(sizes.inputs) or any(map(operator.lt, found, sizes.inputs)):
            expected = f"bytes {sizes.inputs}"
            raise CompilerError("buffers do not fit the program", op=self.program.name, expected=expected, found=found)

    def _check_guards(self, env: Mapping[str, int]) -> None:
        program = self.program
        guard = program.unmet(env)
        if guard is not None:
            found = ", ".join(f"{name} = {env[name]}" for name in guard.names)
            error = ShapeError("a size does not fit", op=program.op_name(guard.op), expected=guard, found=found)
            raise error.at(program.location(guard.op))

    def _fault(self, status: Status, outputs: list[Buffer]) -> FireboxError:
        """The error for a fault, named by its op and its source line; with the outputs if all kernels ran anyway."""
        program = self.program
        error = fault(status, program.op_name(status.op_id), program.location(status.op_id))
        if status.code == INDEX_OUT_OF_RANGE and not program.aliases:  # else it ends before it overwrites an input
            error.computed = outputs
        return error


def contiguous(array: Any) -> Array:
    """The array, or a copy of it when its memory is not row-major and aligned to its elements."""
    found: Array = np.asarray(array)  # a NumPy scalar has no memory that stays
    if found.flags.c_contiguous and found.flags.aligned:
        return found
    return np.array(found, order="C", copy=True)


def _may_write(inputs: Sequence[Buffer], index: int) -> bool:
    """Whether a donated buffer may be written: not seen outside, and no other input lies in the same memory."""
    buffer = inputs[index]
    if buffer.exported:
        return False
    root = buffer.root
    return all(other.root is not root for position, other in enumerate(inputs) if position != index)


def _nbytes(spec: TensorSpec, env: Mapping[str, int]) -> int:
    return _checked(dim.evaluate(spec.nbytes, env), spec.name)


def _checked(nbytes: int, what: str) -> int:
    if not 0 <= nbytes <= _MAX_BYTES:
        raise DeviceError(f"out of memory: {nbytes} bytes", op=what, expected=f"at most {_MAX_BYTES}")
    return nbytes
