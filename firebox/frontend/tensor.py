"""`Tensor`: an immutable array value. Operators record; a read computes, together with all else that is pending."""

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self, cast

import numpy as np

from firebox import dims, dtypes
from firebox.dialects.nd.aval import Aval, Shape
from firebox.dialects.nd.base import NdOp, lookup
from firebox.dialects.nd.operators import Operators, Scalar
from firebox.dims import Dim
from firebox.dtypes import DType, as_dtype, result_type
from firebox.errors import DTypeError, ShapeError, TraceError, UserError
from firebox.frontend import dlpack, execute, indexing, values
from firebox.frontend.calls import record_call
from firebox.frontend.derivatives import Derivatives
from firebox.frontend.devices import as_device, current_device
from firebox.frontend.graph import LeafVar, ScalarVar, Var, scalar_var
from firebox.frontend.interchange import Interchange
from firebox.frontend.methods import Methods
from firebox.frontend.trace import STATE, record
from firebox.frontend.values import Array
from firebox.runtime.device import Device

_OPS: dict[str, type[NdOp]] = {}


class Tensor(Derivatives, Interchange, Methods):
    """An array of one element type on one device. Values never change; ``x += 1`` makes a new tensor.

    Make one with `tensor`, `zeros`, `randn`, ... Operations follow NumPy and PyTorch. They are recorded, not run: a
    program runs when a value is read (`numpy`, `item`, `print`, `bool`), and computes every value that is held by then.
    """

    __slots__ = ("__weakref__", "_var")

    _var: Var
    is_weak: ClassVar[bool] = False

    # ---- recording -----------------------------------------------------------------------------------------------

    @property
    def aval(self) -> Aval:
        return self._var.aval

    def apply(self, op: type[NdOp], operands: Sequence[Operators], params: dict[str, Any]) -> tuple[Self, ...]:
        results = record(op, [_var_of(o, self) for o in operands], params, self._var.device)
        return tuple([wrap(v) for v in results])  # type: ignore[misc]

    def one(self, name: str, *operands: Operators, **params: Any) -> Self:
        op = _OPS.get(name) or _find(name)
        try:
            inputs = [o._var for o in operands]  # type: ignore[attr-defined]
        except AttributeError:
            inputs = [_var_of(o, self) for o in operands]
        return wrap(record(op, inputs, params, self._var.device)[0])  # type: ignore[return-value]

    def _binary(self, name: str, other: Any, swap: bool = False) -> Self:
        a = self._var
        b = other._var if isinstance(other, Tensor) else self._operand(other)
        if a.aval.dtype is not b.aval.dtype:
            dtype = common_type(self, other) if isinstance(other, Tensor) else result_type(a.aval.dtype, b.aval.dtype)
            a, b = _cast(a, dtype), _cast(b, dtype)
        op = _OPS.get(name) or _find(name)
        return wrap(record(op, (b, a) if swap else (a, b), {})[0])  # type: ignore[return-value]

    def as_one(self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        key: list[Any] = [function, self.device.settings, *kwargs]
        inputs: list[Var] = []
        for value in (*args, *kwargs.values()):
            if not isinstance(value, Tensor):
                key.append((type(value), repr(value) if type(value) is float else value))  # 0.0 equals -0.0
            elif value.is_weak:  # its type counts by kind only, which a trace on types does not tell
                return function(*args, **kwargs)
            else:
                key.append(Tensor)
                inputs.append(value._var)

        def on_vars(places: Sequence[Var]) -> Sequence[Var]:
            rest = iter(places)
            filled = [wrap(next(rest)) if isinstance(v, Tensor) else v for v in (*args, *kwargs.values())]
            return (function(*filled[: len(args)], **dict(zip(kwargs, filled[len(args) :], strict=True)))._var,)

        try:
            return wrap(record_call(tuple(key), on_vars, inputs, self._var.device)[0])
        except TypeError:  # an argument that is no value, such as a list
            return function(*args, **kwargs)

    def literal(self, value: Scalar | np.generic, dtype: DType | None = None) -> Self:
        return wrap(self._placed(scalar_var(value, dtype or self._var.aval.dtype)))  # type: ignore[return-value]

    def lift(self, value: Any) -> "Tensor":
        return value if isinstance(value, Tensor) else wrap(self._placed(self._operand(value)))

    def _placed(self, var: Var) -> Var:
        """A number as an operand that stands alone: it needs a device, which beside another operand it does not."""
        return ScalarVar(var.aval, var.data, self._var.device) if type(var) is ScalarVar else var

    def _operand(self, value: Any) -> Var:
        """Something that is no tensor as an operand beside this one: Python numbers take this tensor's type by kind."""
        dtype = self._var.aval.dtype
        if isinstance(value, bool | np.bool_):
            return scalar_var(bool(value), dtypes.bool_ if dtype.is_bool else dtype)
        if isinstance(value, int):
            return scalar_var(value, self.device.int_dtype if dtype.is_bool else dtype)
        if isinstance(value, float):
            return scalar_var(value, dtype if dtype.is_float else self.device.float_dtype)
        if isinstance(value, np.ndarray | np.generic):
            return as_tensor(value, self.device)._var
        if isinstance(value, Dim):
            return self.size_of(value)._var
        raise DTypeError("not an operand", expected="a tensor, a number or a NumPy array", found=type(value).__name__)

    def _as_operand(self, value: Any) -> Any:
        return as_tensor(value, self.device)

    def where(self, a: Any, b: Any) -> Self:
        if isinstance(a, Tensor) and isinstance(b, Tensor) and a.dtype is not b.dtype:
            dtype = common_type(a, b)
            a, b = a.astype(dtype), b.astype(dtype)
        return super().where(a, b)

    def _float(self) -> Self:
        return self if self._var.aval.dtype.is_float else self.astype(self.device.float_dtype)

    def _wrap(self, var: Var) -> "Tensor":
        return wrap(var)

    def _cotangent(self, value: Any) -> Var:
        return as_tensor(value, self.device)._var

    # ---- facts ---------------------------------------------------------------------------------------------------

    @property
    def shape(self) -> Shape:
        return self._var.aval.shape

    @property
    def dtype(self) -> DType:
        return self._var.aval.dtype

    @property
    def rank(self) -> int:
        return len(self._var.aval.shape)

    @property
    def device(self) -> Device:
        return self._var.device or current_device()

    @property
    def kind(self) -> str:
        """``float``, ``int`` or ``bool``."""
        kind = self._var.aval.dtype.kind.value
        return "int" if kind == "uint" else kind

    # ---- reading -------------------------------------------------------------------------------------------------

    def item(self) -> bool | int | float:
        """The single element as a Python number.

        Raises:
            ShapeError: not exactly one element.
        """
        return cast("bool | int | float", self._single("item").item())

    def tolist(self) -> Any:
        """Nested lists of Python numbers."""
        return self.numpy().tolist()

    def _single(self, what: str) -> Any:
        if self._var.aval.size != 1:
            raise ShapeError("needs exactly one element", op=what, expected="size 1", found=self._var.aval)
        array = execute.buffer_of(self._var).as_numpy(self._var.aval.dtype.numpy, (1,), internal=True)
        return array[0]

    def __bool__(self) -> Any:  # the class has a method called bool
        if self._var.aval.size != 1:
            raise ShapeError(
                "the truth of several elements is ambiguous", op="bool", found=self._var.aval, hint="use any() or all()"
            )
        try:
            return self._single("bool").astype(np.bool_).item()
        except TraceError as error:
            raise TraceError(
                "Python cannot branch on a traced value",
                op="bool",
                expected="a value known while tracing",
                found=f"a traced {self._var.aval}",
                hint="use fb.where(condition, a, b) to choose between values",
            ) from error

    def __int__(self) -> Any:
        return int(self._single("int"))

    def __float__(self) -> Any:
        return float(self._single("float"))

    def __index__(self) -> Any:
        if not self.dtype.is_int:
            raise DTypeError("only integers can be an index", op="index", expected="an int type", found=self.dtype.name)
        return int(self._single("index"))

    # ---- as a container ------------------------------------------------------------------------------------------

    def __len__(self) -> Any:
        if not self.shape:
            raise ShapeError("a 0-d tensor has no length", op="len", hint="use item() for its value")
        return dims.evaluate(self.shape[0], {})

    def __iter__(self) -> Iterator["Tensor"]:
        if not self.shape:
            raise ShapeError("a 0-d tensor cannot be iterated over", op="iter", hint="use item() for its value")
        return (self[k] for k in range(len(self)))

    def __getitem__(self, key: Any) -> "Tensor":
        return indexing.get(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        hint = "use x = x.at[...].set(v), which is a new tensor"
        raise UserError("tensors are values and cannot be written to", op="x[...] = v", hint=hint)

    @property
    def at(self) -> "indexing.At":
        """``x.at[i].set(v)`` is x with the elements ``x[i]`` replaced; also add, mul, min, max."""
        return indexing.At(self)

    # ---- elsewhere -----------------------------------------------------------------------------------------------

    def to(self, target: object = None, *, device: object = None, dtype: object = None) -> "Tensor":
        """On another device and/or of another element type: ``x.to("opencl:0")``, ``x.to(fb.float16)``.

        A derivative flows back to where the tensor was.

        Raises:
            DeviceError: there is no such device, or inside a compiled function, which runs on one device.
        """
        if target is not None:
            device, dtype = device_or_dtype(target, device, dtype)
        result = self if dtype is None else self.astype(dtype)
        return result if device is None else result._transfer(as_device(device))

    def cpu(self) -> "Tensor":
        """The tensor on the CPU."""
        return self.to(device="cpu")

    def _transfer(self, device: Device) -> "Tensor":
        if device is self.device:
            return self
        moved = wrap(execute.moved(self._var, device))
        return moved if self.is_autodiff() else moved.without_autodiff()

    def clone(self) -> Self:
        """The tensor itself: values never change."""
        return self

    def contiguous(self) -> Self:
        """The tensor itself: every tensor is dense and row-major."""
        return self

    def __repr__(self) -> str:
        name = self.dtype.name
        try:
            array = self.numpy()
        except TraceError:
            return f"Tensor({self._var.aval}, traced)"
        shown = array.astype(np.float32) if self.dtype is dtypes.bf16 else array
        values = np.array2string(shown, separator=", ", prefix="tensor(")
        extra = f", shape={array.shape}" if array.size == 0 else ""
        grad = ", requires_grad=True" if type(self._var) is LeafVar else ""
        where = "" if self.device is current_device() else f", device={self.device.name}"
        return f"tensor({values}, {name}{extra}{where}{grad})"

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec else repr(self)


def common_type(a: Tensor, b: Tensor) -> DType:
    """The type in which two tensors meet; a number's type counts by kind only."""
    if a.is_weak == b.is_weak:
        return result_type(a.dtype, b.dtype)
    number, other = (a.dtype, b.dtype) if a.is_weak else (b.dtype, a.dtype)
    if number.is_float:
        return other if other.is_float else a.device.float_dtype
    return a.device.int_dtype if other.is_bool and not number.is_bool else other


_new = Tensor.__new__


def wrap(var: Var) -> Tensor:
    """A tensor of a Var. Pending values are noted, so that the next program computes them if they are still held."""
    tensor = _new(Tensor)
    tensor._var = var
    if var.buffer is None and STATE.trace is None and var.node is not None:
        pending = STATE.pending
        pending.append(weakref.ref(tensor))
        if len(pending) > execute.MAX_PENDING:
            execute.note_pending()
    return tensor


def _find(name: str) -> type[NdOp]:
    op = _OPS[name] = lookup(f"nd.{name}")
    return op


def _var_of(operand: Any, beside: Tensor) -> Var:
    return operand._var if isinstance(operand, Tensor) else as_tensor(operand, beside.device)._var


def _cast(var: Var, dtype: DType) -> Var:
    if var.aval.dtype is dtype:
        return var
    if type(var) is ScalarVar:
        number = scalar_var(np.frombuffer(var.data, var.aval.dtype.numpy)[0], dtype)
        return number if var.device is None else ScalarVar(number.aval, number.data, var.device)
    return record(_OPS.get("cast") or _find("cast"), (var,), {"dtype": dtype})[0]


# ---- making tensors ----------------------------------------------------------------------------------------------


def device_or_dtype(target: object, device: object, dtype: object) -> tuple[object, object]:
    """Sort a single argument by what it names."""
    try:
        return device, as_dtype(target)
    except DTypeError:
        return target, dtype


def tensor(
    data: Any, dtype: object = None, device: object = None, requires_grad: bool = False, copy: bool = True
) -> Tensor:
    """A tensor of numbers, nested lists, a NumPy array or another library's array.

    Python floats make f32 and integers i64, unless `Device.configure` says otherwise, bools bool; NumPy arrays keep
    their element type.

    Args:
        dtype: element type of the result.
        copy: False lets the tensor share a C-contiguous NumPy array's memory, which must then not be written any more.

    Raises:
        DTypeError: no element type for such data. ShapeError: nested lists of different lengths.
    """
    where = as_device(device)
    wanted = None if dtype is None else as_dtype(dtype)
    result = data.to(device=where) if isinstance(data, Tensor) else wrap(values.of_data(data, where, copy, wanted))
    if wanted is not None:
        result = result.astype(wanted)
    return result.detach().requires_grad_() if requires_grad else result


def as_tensor(value: Any, device: Device | None = None) -> Tensor:
    """The tensor itself, the tensor in a cell, or a new one of other data."""
    if isinstance(value, Tensor):
        return value if type(value) is Tensor else wrap(value._var)
    return wrap(values.of_data(value, device or current_device()))


def from_dlpack(x: Any, device: object = None) -> Tensor:
    """A tensor over the memory of another library's array; it must not be written any more.

    On the CPU nothing is copied, unless the array has gaps or other strides than rows; bf16 is exchanged, too.

    Raises:
        DTypeError: an element type that tensors do not have, or memory that is not the host's.
    """
    return wrap(values.of_array(dlpack.array_of(x, "from_dlpack"), as_device(device), copy=False))


def from_numpy(array: Array, device: object = None) -> Tensor:
    """A tensor over a C-contiguous array's memory, without a copy; the array must not be written any more.

    Raises:
        DTypeError: not an array, or of an element type that tensors do not have.
    """
    if not isinstance(array, np.ndarray):
        found = type(array).__name__
        raise DTypeError("not a NumPy array", expected="an ndarray", found=found, hint="use fb.tensor")
    return wrap(values.of_array(array, as_device(device), copy=False))
