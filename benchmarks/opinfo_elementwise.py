"""Which function of Firebox is which of PyTorch's: element by element, constants, and conversions.

A value is the name of a function that takes PyTorch's arguments as they are (``dim`` is ``axis``, ``keepdim`` is
``keepdims``), or the expression of such a function. What it is called with are Firebox tensors.
"""

from typing import Any

from benchmarks.opinfo_support import Function, NotTried, cast_to, fb, named

UNARY = named(
    "abs acos acosh asin asinh atan atanh ceil cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1 floor i0 "
    "isfinite isinf isnan isneginf isposinf lgamma log log10 log1p log2 logical_not nan_to_num positive rad2deg "
    "reciprocal round rsqrt sigmoid sign signbit sin sinc sinh sqrt square tan tanh trunc frexp"
)
BINARY = named(
    "atan2 copysign floor_divide fmod hypot logaddexp logaddexp2 logical_and logical_or logical_xor maximum minimum "
    "nextafter remainder xlogy fmax fmin heaviside ldexp allclose isclose lerp logit igamma igammac"
)

ELEMENTWISE: dict[str, Function] = {
    **UNARY,
    **BINARY,
    "neg": "negative",
    "sgn": "sign",
    "frac": lambda x: x - fb.trunc(x),
    "special.i0e": "i0e",
    "special.i1": "i1",
    "special.i1e": "i1e",
    "special.ndtr": "ndtr",
    "special.ndtri": "ndtri",
    "special.log_ndtr": "log_ndtr",
    "special.entr": "entr",
    "special.erfcx": "erfcx",
    "special.xlog1py": "xlog1py",
    "special.zeta": "zeta",
    "special.modified_bessel_i0": "i0",
    "special.modified_bessel_i1": "i1",
    "special.polygamma special_polygamma_n_0": lambda x, n: fb.polygamma(n, x),
    "polygamma polygamma_n_0": lambda x, n: fb.polygamma(n, x),
    "polygamma polygamma_n_1": lambda x, n: fb.polygamma(n, x),
    "polygamma polygamma_n_2": lambda x, n: fb.polygamma(n, x),
    "polygamma polygamma_n_3": lambda x, n: fb.polygamma(n, x),
    "polygamma polygamma_n_4": lambda x, n: fb.polygamma(n, x),
    "round decimals_0": "round",
    "round decimals_3": "round",
    "round decimals_neg_3": "round",
    # ---- operators
    "add": lambda x, y, alpha=1: x + times(y, alpha),
    "sub": lambda x, y, alpha=1: x - times(y, alpha),
    "rsub": lambda x, y, alpha=1: y - times(x, alpha),
    "mul": lambda x, y: x * y,
    "div no_rounding_mode": "divide",
    "div trunc_rounding": lambda x, y, rounding_mode: fb.trunc(x / y),
    "div floor_rounding": lambda x, y, rounding_mode: x // y,
    "true_divide": "divide",
    "pow": "power",
    "float_power": lambda x, y: x.astype(fb.float64) ** y.astype(fb.float64),
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
    "__radd__": lambda x, y: y + x,
    "__rsub__": lambda x, y: y - x,
    "__rmul__": lambda x, y: y * x,
    "__rdiv__": lambda x, y: y / x,
    "__rmod__": lambda x, y: y % x,
    "__rpow__": lambda x, y: y**x,
    "__rmatmul__": lambda x, y: y @ x,
    "max binary": "maximum",
    "min binary": "minimum",
    "clamp": lambda x, min=None, max=None: fb.clip(x, min, max),
    "clamp_min": "maximum",
    "clamp_max": "minimum",
    "addcmul": lambda x, a, b, value=1: x + value * a * b,
    "addcdiv": lambda x, a, b, value=1: x + value * (a / b),
    "equal": "array_equal",
    "where": lambda x, condition, y: fb.where(condition, x, y),
    "isin": lambda x, values, assume_unique=False, invert=False: fb.isin(x, values),
    "masked_fill": "masked_fill",
    "fill": lambda x, value: fb.full_like(x, value),
    "zero_": "zeros_like",
    # ---- constants
    "arange": lambda *bounds, end=(), dtype=None: arange((*bounds, end) if end != () else bounds, dtype),
    "linspace": lambda start, end, steps, dtype=fb.float32: fb.linspace(*numbers(start, end), steps, dtype=dtype),
    "linspace tensor_overload": lambda start, end, steps, dtype=fb.float32: fb.linspace(
        *numbers(start, end), steps, dtype=dtype
    ),
    "logspace": lambda start, end, steps, base=10.0, dtype=fb.float32: fb.logspace(
        *numbers(start, end), steps, base, dtype
    ),
    "logspace tensor_overload": lambda start, end, steps, base=10.0, dtype=fb.float32: fb.logspace(
        *numbers(start, end), steps, base, dtype
    ),
    "eye": lambda n, m=None, dtype=fb.float32: fb.eye(n, m, dtype=dtype),
    "full": lambda shape, value, dtype=None: fb.full(shape, value, dtype),
    "full_like": lambda x, value, dtype=None: fb.full_like(x, value, dtype),
    "ones": lambda shape, dtype=None: fb.ones(shape, dtype=dtype),
    "ones_like": lambda x, dtype=None: fb.ones_like(x, dtype),
    "zeros": lambda shape, dtype=None: fb.zeros(shape, dtype=dtype),
    "zeros_like": lambda x, dtype=None: fb.zeros_like(x, dtype),
    "new_full": lambda x, shape, value, dtype=None: fb.full(shape, value, dtype or x.dtype),
    "new_ones": lambda x, shape, dtype=None: fb.ones(shape, dtype=dtype or x.dtype),
    "new_zeros": lambda x, shape, dtype=None: fb.zeros(shape, dtype=dtype or x.dtype),
    "scalar_tensor": lambda value, dtype=None: fb.tensor(value, dtype or fb.float32),
    # ---- conversions
    "bfloat16": cast_to(fb.bfloat16),
    "bool": cast_to(fb.bool),
    "byte": cast_to(fb.uint8),
    "char": cast_to(fb.int8),
    "double": cast_to(fb.float64),
    "float": cast_to(fb.float32),
    "half": cast_to(fb.float16),
    "int": cast_to(fb.int32),
    "long": cast_to(fb.int64),
    "short": cast_to(fb.int16),
    "to": lambda x, *args: x.astype(next((a for a in map(dtype_of, args) if a), x.dtype)),
    "item": lambda x: x.item(),
    "clone": lambda x: x.clone(),
    "contiguous": lambda x: x.contiguous(),
    "alias_copy": lambda x: x.clone(),
}


def times(x: Any, factor: float) -> Any:
    """``x * factor``; the type of an integer array stays if the factor is 1."""
    return x if factor == 1 else x * factor


def numbers(*bounds: Any) -> tuple[Any, ...]:
    """The bounds.

    Raises:
        NotTried: one is an array.
    """
    if any(isinstance(b, fb.Tensor) for b in bounds):
        raise NotTried("bounds are Python numbers")
    return bounds


def arange(bounds: tuple[Any, ...], dtype: Any) -> Any:
    """With the type that PyTorch takes: f32 for floats."""
    kind = fb.float32 if any(isinstance(b, float) for b in numbers(*bounds)) else fb.int64
    return fb.arange(*bounds, dtype=dtype or kind)


def dtype_of(given: Any) -> Any:
    """The type that an argument of `to` names, or has."""
    if isinstance(given, fb.Tensor):
        return given.dtype
    return given if isinstance(given, fb.DType) else None
