"""Tensors in other hands: NumPy, DLPack, the buffer protocol, copies, and why they are not pickled."""

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from firebox.errors import UserError
from firebox.frontend import dlpack, execute
from firebox.frontend.backward import make_leaf
from firebox.frontend.devices import is_host
from firebox.frontend.graph import LeafVar, Var
from firebox.frontend.values import Array, static_shape
from firebox.runtime.device import Device

if TYPE_CHECKING:
    from firebox.frontend.tensor import Tensor


class Interchange:
    """The part of `Tensor` that other libraries and Python's own protocols use. Everything here computes the value."""

    __slots__ = ()

    _var: Var

    if TYPE_CHECKING:

        @property
        def device(self) -> Device: ...

    def _wrap(self, var: Var) -> "Tensor":
        """A tensor of a Var."""
        raise NotImplementedError

    # ---- NumPy and buffers ---------------------------------------------------------------------------------------

    def numpy(self) -> Array:
        """The values as a read-only NumPy array: on the CPU the tensor's own memory, of another device a copy.

        The array keeps the memory alive. ``np.array(x)`` makes one that can be written.

        Raises:
            TraceError: inside a traced function, where values are not known yet.
        """
        var = self._var
        shape = static_shape(var.aval)
        return execute.buffer_of(var).as_numpy(var.aval.dtype.numpy, shape)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """The values for ``np.asarray``: `numpy`, or a copy where a copy or another element type is asked for.

        Raises:
            ValueError: ``copy=False``, and there is no way without.
        """
        changes = dtype is not None and np.dtype(dtype) != self._var.aval.dtype.numpy
        if copy is False and (changes or not is_host(self.device)):
            why = f"{self._var.aval.dtype.name} to {np.dtype(dtype)}" if changes else f"from {self.device.name}"
            raise ValueError(f"a tensor's array without a copy: {why} takes one")
        array = self.numpy()
        if changes:
            return array.astype(dtype)
        return array.copy() if copy else array

    def __buffer__(self, flags: int) -> memoryview:
        """The memory of `numpy` for ``memoryview(x)``, from Python 3.12 on; it cannot be written.

        Raises:
            BufferError: bf16, for which the protocol has no name, or a buffer to write in.
        """
        try:
            return memoryview(self.numpy())  # type: ignore[arg-type]
        except ValueError:
            name = self._var.aval.dtype.name
            raise BufferError(f"the buffer protocol has no name for {name}; use x.numpy().view(np.uint16)") from None

    # ---- DLPack --------------------------------------------------------------------------------------------------

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """The values for another library: the tensor's own memory on the CPU, of another device a copy on demand.

        The memory lives as long as the other library holds it, and must not be written: from DLPack 1.0 on it says so,
        which an older consumer is not told. Derivatives stay behind.

        Raises:
            BufferError: a device's memory is asked for; only the host's is given away.
        """
        given = {"stream": stream, "max_version": max_version, "dl_device": dl_device, "copy": copy}
        options = {name: value for name, value in given.items() if value is not None}
        if not is_host(self.device):
            return self._copied(options)
        var = self._var
        writable = max_version is None or max_version < dlpack.READ_ONLY_SINCE
        array = execute.buffer_of(var).as_numpy(var.aval.dtype.numpy, static_shape(var.aval), writable=writable)
        return dlpack.capsule_of(array, options)

    def _copied(self, options: dict[str, Any]) -> Any:
        if options.get("dl_device") != (dlpack.CPU, 0) or options.get("copy") is False:
            raise BufferError(f"the memory of {self.device.name} is not exchanged; use x.cpu(), which is a copy")
        rest = {name: value for name, value in options.items() if name not in ("dl_device", "copy")}
        return dlpack.capsule_of(np.array(self.numpy()), rest)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Kind and number of the device, as DLPack counts them."""
        if is_host(self.device):
            return dlpack.CPU, 0
        return dlpack.OPENCL, int(self.device.name.partition(":")[2])

    # ---- copies --------------------------------------------------------------------------------------------------

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """The tensor itself, as values never change; of a leaf, one with a gradient of its own.

        Raises:
            UserError: a result that derivatives flow through.
        """
        var = self._var
        if type(var) is LeafVar:
            return self._wrap(make_leaf(self._wrap(var).detach()._var, "deepcopy"))
        if var.tracked:
            hint = "copy x.detach(), or the leaves and compute it again"
            raise UserError("the derivatives of a result are not copied", op="deepcopy", found=var.aval, hint=hint)
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Refused.

        Raises:
            UserError: always.
        """
        raise UserError(
            "tensors are not pickled: a pickle runs code where it is loaded",
            op="pickle",
            found=self._var.aval,
            hint="save with fb.record (safetensors), or give x.numpy() to what pickles",
        )
