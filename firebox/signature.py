"""Signatures: names, element types and shapes of inputs and outputs, and the check of real values against them.

Text form: ``x: f32[b, 1, 8, 8], 1<=b<=4096``; several inputs are separated by ``;``.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from firebox import dims
from firebox.dims import Dim, DimLike
from firebox.dtypes import DType, as_dtype
from firebox.errors import ArtifactError, DTypeError, FireboxError, InputError, UserError

UNBOUNDED = (1 << 63) - 1
MAX_RANK = 64
MAX_TEXT = 4096

Range = tuple[int, int]

_NAME, _TYPE = r"(?P<name>[^\s:;,\[\]]+)", r"(?P<dtype>\w+)\s*(?:\[(?P<shape>[^\[\]]*)\])?"
_SPEC = re.compile(rf"\s*{_NAME}\s*:\s*{_TYPE}\s*(?P<rest>,.*)?", re.DOTALL)
_RANGE = re.compile(r"(?:(\d+)\s*<=\s*)?([A-Za-z_]\w*)(?:\s*(<=|>=)\s*(\d+))?")


@dataclass(frozen=True)
class TensorSpec:
    """Name, element type and shape of one input or output; dims may be symbolic."""

    name: str
    dtype: DType
    shape: tuple[DimLike, ...] = ()

    @property
    def nbytes(self) -> DimLike:
        return dims.multiply(dims.product(self.shape), self.dtype.itemsize)

    @property
    def type(self) -> str:
        """``f32[b, 8]``."""
        return f"{self.dtype.name}[{', '.join(map(str, self.shape))}]"

    def __str__(self) -> str:
        return f"{self.name}: {self.type}"

    @staticmethod
    def of(name: str, array: Any) -> "TensorSpec":
        """The spec of an array: anything with ``shape`` and ``dtype``.

        Raises:
            DTypeError: not an element type of ours.
        """
        return TensorSpec(name, as_dtype(array.dtype), tuple(array.shape))

    def to_dict(self) -> dict[str, object]:
        shape = [d if isinstance(d, int) else str(d) for d in self.shape]
        return {"name": self.name, "dtype": self.dtype.name, "shape": shape}

    @staticmethod
    def from_dict(data: object) -> "TensorSpec":
        """The spec written by `to_dict`.

        Raises:
            ArtifactError: a field is missing, unknown or of the wrong form.
        """
        if not isinstance(data, dict) or set(data) != {"name", "dtype", "shape"}:
            raise _damaged("not a tensor description", data)
        name, dtype, shape = data["name"], data["dtype"], data["shape"]
        if not isinstance(name, str) or not 0 < len(name) <= MAX_TEXT or not isinstance(dtype, str):
            raise _damaged("not a name and an element type", data)
        if not isinstance(shape, list) or len(shape) > MAX_RANK:
            raise _damaged("not a shape", shape)
        try:
            return TensorSpec(name, as_dtype(dtype), tuple(map(dim_from_json, shape)))
        except DTypeError as error:
            raise _damaged("not an element type", dtype) from error


@dataclass(frozen=True)
class Signature:
    """What a program takes and gives.

    Attributes:
        inputs: in the order of the arguments.
        outputs: in the order of the results; their dims are expressions over the inputs' names.
        ranges: smallest and largest value of a symbolic dim; one that is not here may be any size.
    """

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...] = ()
    ranges: Mapping[str, Range] = field(default_factory=dict, hash=False)

    @property
    def dims(self) -> tuple[str, ...]:
        """Names of the symbolic dims, in order of first appearance in the inputs."""
        return dims.names(*(d for spec in self.inputs for d in spec.shape))

    def __str__(self) -> str:
        inputs, outputs = (", ".join(map(str, specs)) for specs in (self.inputs, self.outputs))
        ranges = "".join(f", {range_text(name, *bounds)}" for name, bounds in sorted(self.ranges.items()))
        return f"({inputs}) -> ({outputs}){ranges}"

    def to_dict(self) -> dict[str, object]:
        return {
            "inputs": [spec.to_dict() for spec in self.inputs],
            "outputs": [spec.to_dict() for spec in self.outputs],
            "ranges": {name: list(bounds) for name, bounds in sorted(self.ranges.items())},
        }

    @staticmethod
    def from_dict(data: object) -> "Signature":
        """The signature written by `to_dict`.

        Raises:
            ArtifactError: a field is missing, unknown or of the wrong form.
        """
        if not isinstance(data, dict) or set(data) != {"inputs", "outputs", "ranges"}:
            raise _damaged("not a signature", data)
        inputs, outputs = (specs_from_json(data[key]) for key in ("inputs", "outputs"))
        signature = Signature(inputs, outputs, _ranges_from_json(data["ranges"]))
        stray = set(dims.names(*(d for spec in outputs for d in spec.shape))) | set(signature.ranges)
        if stray - set(signature.dims):
            raise _damaged("dims that no input has", ", ".join(sorted(stray - set(signature.dims))))
        return signature

    # ---- values ------------------------------------------------------------------------------------------------------

    def order(self, values: Mapping[str, Any]) -> list[Any]:
        """The values in the order of the inputs.

        Raises:
            InputError: an input is missing, or there is none of that name.
        """
        names = [spec.name for spec in self.inputs]
        unknown = [name for name in values if name not in names]
        missing = [name for name in names if name not in values]
        takes = "; ".join(map(str, self.inputs)) or "no inputs"
        if unknown:
            raise InputError(f"no such input; the program takes {takes}", op=f"input {unknown[0]}")
        if missing:
            raise InputError(f"missing; the program takes {takes}", op=f"input {missing[0]}")
        return [values[name] for name in names]

    def bind(self, arrays: Sequence[Any]) -> dict[str, int]:
        """Check arrays (anything with ``shape`` and ``dtype``), one per input; returns the values of the symbolic dims.

        Raises:
            InputError: element type, rank or a dim does not fit; names the input, the dim, its value and its range.
        """
        if len(arrays) != len(self.inputs):
            takes = "; ".join(map(str, self.inputs))
            raise InputError("wrong number of inputs", expected=f"{len(self.inputs)} ({takes})", found=len(arrays))
        binding = _Binding(self.ranges)
        late: list[_Place] = []
        for spec, array in zip(self.inputs, arrays, strict=True):
            shape = _check_type(spec, array)
            for axis, expected in enumerate(spec.shape):
                if isinstance(expected, int):
                    if shape[axis] != expected:
                        raise _Place(spec, shape, axis).error(f"{shape[axis]}, expected {expected}")
                elif _is_name(expected):
                    binding.name(_Place(spec, shape, axis), str(expected), shape[axis])
                else:
                    late.append(_Place(spec, shape, axis))
        for place in late:
            binding.expression(place)
        return binding.env


@dataclass(frozen=True, slots=True)
class _Place:
    """One dim of one input, and the whole shape that was given."""

    spec: TensorSpec
    shape: tuple[int, ...]
    axis: int

    def error(self, message: str) -> InputError:
        got = _got(self.spec, self.spec.dtype.name, self.shape)
        return InputError(f"dim {self.axis} is {message}; {got}", op=f"input {self.spec.name}")


class _Binding:
    """Values of the symbolic dims, and where each came from."""

    def __init__(self, ranges: Mapping[str, Range]) -> None:
        self.env: dict[str, int] = {}
        self._ranges = ranges
        self._origin: dict[str, _Place] = {}

    def name(self, place: _Place, name: str, size: int) -> None:
        known = self.env.get(name)
        if known is None:
            low, high = self._ranges.get(name, (0, UNBOUNDED))
            if not low <= size <= high:
                raise place.error(f"{name}={size}, expected {range_text(name, low, high)}")
            self.env[name] = size
            self._origin[name] = place
        elif known != size:
            origin = self._origin[name]
            raise place.error(f"{name}={size}, but dim {origin.axis} of input {origin.spec.name} is {name}={known}")

    def expression(self, place: _Place) -> None:
        value, size = place.spec.shape[place.axis], place.shape[place.axis]
        unknown = [name for name in dims.names(value) if name not in self.env]
        if len(unknown) == 1:
            solved = _solve(value, unknown[0], self.env, size)
            if solved is None or solved < 0:
                raise place.error(f"{size}, which {value} cannot be")
            self.name(place, unknown[0], solved)
        elif unknown:
            raise place.error(f"{size}, and {value} does not say what {' and '.join(unknown)} are")
        expected = dims.evaluate(value, self.env)
        if expected != size:
            known = ", ".join(f"{name}={self.env[name]}" for name in dims.names(value))
            raise place.error(f"{size}, expected {value} = {expected} for {known}")


def _check_type(spec: TensorSpec, array: Any) -> tuple[int, ...]:
    shape: tuple[int, ...] = array.shape
    if array.dtype != spec.dtype.numpy:
        found = dtype_name(array.dtype)
        message = f"element type is {found}, expected {spec.dtype.name}; {_got(spec, found, shape)}"
        raise InputError(message, op=f"input {spec.name}")
    if len(shape) != len(spec.shape):
        message = f"rank is {len(shape)}, expected {len(spec.shape)}; {_got(spec, spec.dtype.name, shape)}"
        raise InputError(message, op=f"input {spec.name}")
    return shape


def _got(spec: TensorSpec, dtype: str, shape: tuple[int, ...]) -> str:
    return f"got {dtype}[{','.join(map(str, shape))}] for {spec}"


def dtype_name(dtype: Any) -> str:
    """Our name of a NumPy dtype; NumPy's where we have none."""
    try:
        return as_dtype(dtype).name
    except DTypeError:
        return str(dtype)


def _is_name(value: Dim) -> bool:
    return len(value.terms) == 1 and value.terms[0] == ((str(value),), 1)


def _solve(value: DimLike, name: str, env: Mapping[str, int], size: int) -> int | None:
    """The n with value(n) == size, when value is linear in n (``3*n + 1``); None when there is none."""
    at_zero, at_one = (dims.evaluate(value, {**env, name: n}) for n in (0, 1))
    slope = at_one - at_zero
    if slope == 0 or (size - at_zero) % slope:
        return None
    return (size - at_zero) // slope


# ---- text ------------------------------------------------------------------------------------------------------------


def range_text(name: str, low: int, high: int) -> str:
    """``1 <= b <= 4096``; an end that is not bounded is left out."""
    return f"{low} <= {name}" + (f" <= {high}" if high != UNBOUNDED else "")


def parse_inputs(text: str | Iterable[str]) -> Signature:
    """Read ``x: f32[b, 1, 8, 8], 1<=b<=4096; y: i64[b]``, or several such texts; the result has no outputs.

    Raises:
        UserError: malformed; quotes the part and shows the form.
    """
    parts = [part for item in ([text] if isinstance(text, str) else text) for part in item.split(";") if part.strip()]
    inputs: list[TensorSpec] = []
    ranges: dict[str, Range] = {}
    for part in parts:
        spec, constraints = _parse_spec(part)
        if spec.name in (other.name for other in inputs):
            raise UserError("given twice", op=f"input {spec.name}", found=part.strip())
        inputs.append(spec)
        for constraint in constraints:
            _add_range(ranges, constraint)
    signature = Signature(tuple(inputs), (), ranges)
    for name in ranges:
        if name not in signature.dims:
            known = ", ".join(signature.dims) or "none"
            raise UserError("the range of a dim that no input has", op=name, expected=f"one of: {known}")
    return signature


def _parse_spec(text: str) -> tuple[TensorSpec, list[str]]:
    match = _SPEC.fullmatch(text)
    if match is None:
        raise UserError("not an input description", expected="like x: f32[b, 1, 8, 8], 1<=b<=4096", found=text.strip())
    try:
        shape = tuple(_parse_size(part) for part in split_list(match["shape"] or ""))
        spec = TensorSpec(match["name"], as_dtype(match["dtype"]), shape)
    except FireboxError as error:
        error.op = error.op or f"input {match['name']}"
        raise
    return spec, split_list((match["rest"] or "").removeprefix(","))


def _parse_size(text: str) -> DimLike:
    size = dims.parse(text)
    if isinstance(size, int) and size < 0:
        raise UserError("a negative size", found=text)
    return size


def _add_range(ranges: dict[str, Range], text: str) -> None:
    match = _RANGE.fullmatch(text)
    if match is None or (match[1] is None and match[3] is None) or (match[1] and match[3] == ">="):
        raise UserError("not a range of a dim", expected="like 1<=b<=4096, 2<=b or b<=64", found=text)
    name = match[2]
    low, high = ranges.get(name, (0, UNBOUNDED))
    if match[1]:
        low = max(low, int(match[1]))
    if match[3] == "<=":
        high = min(high, int(match[4]))
    elif match[3] == ">=":
        low = max(low, int(match[4]))
    if low > high:
        raise UserError("no size is in this range", op=name, found=range_text(name, low, high))
    ranges[name] = (low, high)


def split_list(text: str) -> list[str]:
    """The stripped parts between commas that stand outside parentheses; an empty text has none."""
    parts, depth, start = [], 0, 0
    for position, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append(text[start:position].strip())
            start = position + 1
    return [*parts, text[start:].strip()] if text.strip() else []


# ---- JSON ------------------------------------------------------------------------------------------------------------


def dim_from_json(value: object) -> DimLike:
    """A size from a file: a number, or an expression's text.

    Raises:
        ArtifactError: neither, or out of bounds.
    """
    if type(value) is int and 0 <= value <= UNBOUNDED:
        return value
    if not isinstance(value, str) or len(value) > MAX_TEXT:
        raise _damaged("not a size", value)
    try:
        return dims.parse(value)
    except (FireboxError, ValueError, RecursionError) as error:
        raise _damaged("not a size", value) from error


def specs_from_json(data: object) -> tuple[TensorSpec, ...]:
    """Tensor descriptions from a file, with different names. Raises as `TensorSpec.from_dict`."""
    if not isinstance(data, list):
        raise _damaged("not a list of tensors", data)
    specs = tuple(map(TensorSpec.from_dict, data))
    if len({spec.name for spec in specs}) != len(specs):
        raise _damaged("two tensors of one name", [spec.name for spec in specs])
    return specs


def _ranges_from_json(data: object) -> dict[str, Range]:
    if not isinstance(data, dict):
        raise _damaged("not ranges of dims", data)
    for bounds in data.values():
        if not isinstance(bounds, list) or len(bounds) != 2 or any(type(bound) is not int for bound in bounds):
            raise _damaged("not a range", bounds)
        if not 0 <= bounds[0] <= bounds[1] <= UNBOUNDED:
            raise _damaged("not a range", bounds)
    return {name: (low, high) for name, (low, high) in data.items()}


def _damaged(message: str, found: object) -> ArtifactError:
    return ArtifactError(message, op="signature", found=str(found)[:200])
