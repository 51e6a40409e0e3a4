"""NumPy's functions of numbers and of samples of functions: parts of numbers, interpolation, polynomials, integrals."""

from collections.abc import Sequence
from typing import Any

from firebox import dtypes
from firebox.dialects.nd.array import normalize_axis
from firebox.errors import ShapeError, UserError
from firebox.frontend.functions.convolution import conv1d
from firebox.frontend.functions.mathematics import both
from firebox.frontend.functions.moving import expand_dims
from firebox.frontend.functions.ordering import quantile, searchsorted
from firebox.frontend.functions.shape import concat, flip, narrow
from firebox.frontend.functions.statistics import trapezoid_parts
from firebox.frontend.functions.support import (
    A,
    as_float,
    differ,
    equals,
    promote,
    require_float,
    require_rank,
    shape_text,
    static_size,
    stop_gradient,
)

# ---- element by element ------------------------------------------------------------------------------------------


def fmax(a: A, b: Any) -> A:
    """The larger of two numbers; NaN only where both are."""
    a, b = both("fmax", a, b)
    return a.isnan().where(b, b.isnan().where(a, a.maximum(b)))


def fmin(a: A, b: Any) -> A:
    """The smaller of two numbers; NaN only where both are."""
    a, b = both("fmin", a, b)
    return a.isnan().where(b, b.isnan().where(a, a.minimum(b)))


def heaviside(x: A, at_zero: Any) -> A:
    """0 below 0, 1 above, ``at_zero`` at 0; NaN stays. The gradient is 0, but for ``at_zero``."""
    x, middle = both("heaviside", x, at_zero)
    require_float("heaviside", x)
    step: A = equals(x, 0.0).where(middle, (x > 0).where(1.0, x.isnan().where(float("nan"), 0.0)))
    return step


def modf(x: A) -> tuple[A, A]:
    """The fraction and the integer part, both with the sign of x; of infinities 0 and x."""
    require_float("modf", x)
    whole = x.trunc()
    rest = x.isinf().where(0.0, x - x.isinf().where(0.0, whole))
    return rest.one("copysign", rest, x), whole


def ldexp(x: A, exponent: Any) -> A:
    """x * 2**exponent, in two steps, so that nothing but the result is too large or too small."""
    x = as_float(x)
    power: Any = both("ldexp", x, exponent)[1]
    half = (power * 0.5).floor()
    first, second = (v.one("exp2", v) for v in (half, power - half))
    result: A = x * first * second
    return result


def frexp(x: A) -> tuple[A, A]:
    """m in [0.5, 1) and e (i32) with x = m * 2**e, from the bits; 0, infinities and NaN as they are, with e = 0.

    The derivative of m is 2**-e.
    """
    layout = {dtypes.f32: (dtypes.i32, 23, 0xFF, 126, 25), dtypes.f64: (dtypes.i64, 52, 0x7FF, 1022, 54)}
    require_float("frexp", x)
    if x.dtype not in layout:
        return tuple(v.astype(x.dtype) if v.dtype.is_float else v for v in frexp(x.astype(dtypes.f32)))  # type: ignore[return-value]
    ints, digits, mask, bias, lift = layout[x.dtype]
    special = equals(x, 0.0) | ~x.isfinite()
    small = x.abs() < 2.0 ** (1 - bias)
    scaled = small.where(x * 2.0**lift, x)
    bits = scaled.bitcast(ints)
    exponent = ((bits >> digits) & mask) - bias
    mantissa = ((bits & ~(mask << digits)) | (bias << digits)).bitcast(x.dtype)
    exponent = small.where(exponent - lift, exponent)
    power = stop_gradient(special.where(1.0, mantissa / scaled))  # bits have no derivative; a product with it does
    return special.where(x, scaled * power), special.where(0, exponent).astype(dtypes.i32)


def addcmul(x: A, a: Any, b: Any, value: float = 1.0) -> A:
    """x + value * a * b."""
    result: A = x + x.lift(a) * b * value
    return result


def addcdiv(x: A, a: Any, b: Any, value: float = 1.0) -> A:
    """x + value * a / b."""
    result: A = x + x.lift(a) / b * value
    return result


# ---- without NaN -------------------------------------------------------------------------------------------------


def nancumsum(x: A, axis: int = 0) -> A:
    """Running sums, for which NaN counts as 0."""
    return x.isnan().where(0, x).cumsum(axis)


def nancumprod(x: A, axis: int = 0) -> A:
    """Running products, for which NaN counts as 1."""
    return x.isnan().where(1, x).cumprod(axis)


def nanargmax(x: A, axis: int | None = None, keepdims: bool = False) -> A:
    """The index (i64) of the first largest element that is not NaN; 0 where all are."""
    return x.isnan().where(float("-inf"), x).argmax(axis, keepdims) if x.dtype.is_float else x.argmax(axis, keepdims)


def nanargmin(x: A, axis: int | None = None, keepdims: bool = False) -> A:
    """The index (i64) of the first smallest element that is not NaN; 0 where all are."""
    return x.isnan().where(float("inf"), x).argmin(axis, keepdims) if x.dtype.is_float else x.argmin(axis, keepdims)


# ---- order -------------------------------------------------------------------------------------------------------


def percentile(
    x: A, q: float | Sequence[float], axis: int | None = None, keepdims: bool = False, method: str = "linear"
) -> A:
    """`quantile` of percents."""
    shares = [v / 100.0 for v in q] if isinstance(q, Sequence) else q / 100.0
    return quantile(x, shares, axis, keepdims, method)


def aminmax(x: A, axis: int | None = None, keepdims: bool = False) -> tuple[A, A]:
    """The smallest and the largest element; NaN wins."""
    return x.min(axis, keepdims), x.max(axis, keepdims)


# ---- samples of functions ----------------------------------------------------------------------------------------


def polyval(coefficients: A, x: Any) -> A:
    """The polynomial at x by Horner's rule; coefficients from the highest power down, as in NumPy.

    Raises:
        ShapeError: coefficients that are not 1-D.
    """
    require_rank("polyval", coefficients, 1, "coefficients")
    count = static_size("polyval", coefficients, 0)
    terms = [narrow(coefficients, 0, k, k + 1).squeeze(0) for k in range(count)]
    total: Any = coefficients.lift(x) * 0
    for term in terms:
        total = total * x + term
    result: A = total
    return result


def interp(x: A, places: A, values: A, left: float | None = None, right: float | None = None) -> A:
    """Values between samples by straight lines.

    Args:
        places: where the samples are, 1-D, in ascending order.
        values: the samples.
        left, right: beyond the first and the last place; by default the first and the last sample.

    Raises:
        ShapeError: no samples, or as many places as samples are not given.
    """
    require_rank("interp", places, 1, "places")
    count = static_size("interp", places, 0)
    if differ(values.size, places.size) or values.rank != 1 or count == 0:
        expected = f"{count} values, 1 or more" if count else "1 or more"
        raise ShapeError("the samples do not fit", op="interp", expected=expected, found=shape_text(values))
    x, places = promote("interp", as_float(x), as_float(places))
    values = as_float(values)
    above = searchsorted(places, x, "right").clip(1, max(count - 1, 1))
    low, high = above - 1, above.minimum(count - 1)
    start, end = places.take(low, 0), places.take(high, 0)
    width = end - start
    part = ((x - start) / equals(width, 0.0).where(1.0, width)).clip(0.0, 1.0)
    below, over = values.take(low, 0), values.take(high, 0)
    found = below + (over - below) * part
    first, last = narrow(places, 0, 0, 1).squeeze(0), narrow(places, 0, count - 1, count).squeeze(0)
    found = found if left is None else (x < first).where(left, found)
    found = found if right is None else (x > last).where(right, found)
    result: A = x.isnan().where(float("nan"), found)
    return result


def gradient(x: A, spacing: float = 1.0, axis: int = -1) -> A:
    """Differences of the neighbours on both sides by twice the spacing, of one side at the ends: NumPy's ``gradient``.

    Raises:
        ShapeError: fewer than two elements.
    """
    x = as_float(x)
    at = normalize_axis(axis, x.rank)
    size = static_size("gradient", x, at)
    if size < 2:
        raise ShapeError("too few elements", op="gradient", expected="two or more", found=shape_text(x))
    inner = (narrow(x, at, 2, size) - narrow(x, at, 0, size - 2)) * (0.5 / spacing)
    first = (narrow(x, at, 1, 2) - narrow(x, at, 0, 1)) * (1.0 / spacing)
    last = (narrow(x, at, size - 1, size) - narrow(x, at, size - 2, size - 1)) * (1.0 / spacing)
    return concat([first, inner, last], at)


def cumulative_trapezoid(y: A, x: A | None = None, dx: float = 1.0, axis: int = -1, initial: float | None = None) -> A:
    """Running integrals by the trapezoidal rule; ``initial`` is put in front, so that there are as many as of y."""
    at = normalize_axis(axis, y.rank)
    found = trapezoid_parts(y, x, dx, at).cumsum(at)
    if initial is None:
        return found
    before = [0] * y.rank
    before[at] = 1
    return found.pad(before, [0] * y.rank, initial)


# ---- convolution of vectors --------------------------------------------------------------------------------------


def convolve(a: A, v: A, mode: str = "full") -> A:
    """``out[n] = sum over m of a[m] v[n - m]`` of vectors.

    Args:
        mode: ``"full"``: all n; ``"same"``: the middle, as many as the longer vector has; ``"valid"``: where both
            overlap wholly.

    Raises:
        UserError: another mode. ShapeError: no vectors, or one without elements.
    """
    if mode not in ("full", "same", "valid"):
        raise UserError("no such mode", op="convolve", expected="full, same or valid", found=repr(mode))
    a, v = promote("convolve", a, v)
    for x in (a, v):
        require_rank("convolve", x, 1, "a vector")
    if static_size("convolve", a, 0) < static_size("convolve", v, 0):
        a, v = v, a
    count, size = static_size("convolve", a, 0), static_size("convolve", v, 0)
    if size == 0:
        raise ShapeError("nothing to convolve", op="convolve", expected="one element or more", found=shape_text(v))
    half = (size - 1) // 2
    low, high = {"full": (size - 1, size - 1), "same": (size - 1 - half, half), "valid": (0, 0)}[mode]
    padded = a.pad((low,), (high,))
    found = conv1d(padded.reshape((1, 1, count + low + high)), flip(v, 0).reshape((1, 1, size)))
    return found.reshape((-1,))


def correlate(a: A, v: A, mode: str = "valid") -> A:
    """``out[k] = sum over n of a[n + k] v[n]`` of vectors; modes as in `convolve`, k in ascending order."""
    require_rank("correlate", v, 1, "a vector")
    return convolve(a, flip(v, 0), mode)


def vander(x: A, n: int | None = None, increasing: bool = False) -> A:
    """Powers of a vector's elements as rows, from the highest down unless ``increasing``."""
    require_rank("vander", x, 1, "a vector")
    count = static_size("vander", x, 0) if n is None else n
    one = expand_dims(x, 1) * 0 + 1
    columns = [one]
    for _ in range(count - 1):
        columns.append(columns[-1] * expand_dims(x, 1))
    if count == 0:
        return narrow(one, 1, 0, 0)
    return concat(columns if increasing else columns[::-1], 1)
