"""Functions that draw random numbers: dropout and its kin, noise, random slopes and choices."""

from collections.abc import Sequence

from firebox.dims import DimLike
from firebox.dtypes import u32
from firebox.errors import ShapeError, UserError
from firebox.frontend import random
from firebox.frontend.functions.activations import leaky_relu
from firebox.frontend.functions.normalization import softmax
from firebox.frontend.functions.shape import one_hot
from firebox.frontend.functions.spatial import LAYOUTS
from firebox.frontend.functions.support import as_float, require_float, require_rank, shape_text, stop_gradient
from firebox.frontend.random import Generator
from firebox.frontend.tensor import Tensor

_WORDS = 1 << 32
_SELU_FLOOR = -1.7580993408473766  # what selu tends to for -inf: -scale * alpha


def dropout(x: Tensor, p: float = 0.5, training: bool = True, generator: Generator | None = None) -> Tensor:
    """Each element 0 with probability ``p``, else scaled by 1 / (1 - p); the input itself when not training.

    Raises:
        UserError: ``p`` is not a probability. DTypeError: x is not floating.
    """
    return _dropped("dropout", x, p, training, x.shape, generator)


def dropout1d(x: Tensor, p: float = 0.5, training: bool = True, generator: Generator | None = None) -> Tensor:
    """Each channel of (N, C, L) 0 as a whole with probability ``p``, else scaled by 1 / (1 - p)."""
    require_rank("dropout1d", x, 3, LAYOUTS[1])
    return _dropped("dropout1d", x, p, training, _channels("dropout1d", x), generator)


def dropout2d(x: Tensor, p: float = 0.5, training: bool = True, generator: Generator | None = None) -> Tensor:
    """Each channel of (N, C, H, W) 0 as a whole with probability ``p``, else scaled by 1 / (1 - p)."""
    require_rank("dropout2d", x, 4, LAYOUTS[2])
    return _dropped("dropout2d", x, p, training, _channels("dropout2d", x), generator)


def dropout3d(x: Tensor, p: float = 0.5, training: bool = True, generator: Generator | None = None) -> Tensor:
    """Each channel of (N, C, D, H, W) 0 as a whole with probability ``p``, else scaled by 1 / (1 - p)."""
    require_rank("dropout3d", x, 5, LAYOUTS[3])
    return _dropped("dropout3d", x, p, training, _channels("dropout3d", x), generator)


def _channels(op: str, x: Tensor) -> tuple[DimLike, ...]:
    """The shape of one number a channel (axis 1)."""
    if x.rank < 2:
        raise ShapeError("needs channels (axis 1)", op=op, expected="(N, C, ..)", found=shape_text(x))
    return (*x.shape[:2], *(1,) * (x.rank - 2))


def _dropped(
    op: str, x: Tensor, p: float, training: bool, shape: Sequence[DimLike], generator: Generator | None
) -> Tensor:
    check_probability(op, p)
    if not training or p == 0:
        return x
    require_float(op, x)
    if round(p * _WORDS) >= _WORDS:
        return x * 0.0
    return _kept(x, shape, p, generator).where(x * (1.0 / (1.0 - p)), 0.0)


def _kept(x: Tensor, shape: Sequence[DimLike], p: float, generator: Generator | None) -> Tensor:
    """True with probability 1 - p."""
    words = random.bits(shape, x.device, generator)
    return words >= words.literal(round(p * _WORDS), u32)


def alpha_dropout(x: Tensor, p: float = 0.5, training: bool = True, generator: Generator | None = None) -> Tensor:
    """Dropout to the floor of selu, scaled and shifted so that mean and variance stay (Klambauer et al. 2017).

    Raises:
        UserError: ``p`` is not a probability. DTypeError: x is not floating.
    """
    return _alpha("alpha_dropout", x, p, training, x.shape, generator)


def feature_alpha_dropout(
    x: Tensor, p: float = 0.5, training: bool = True, generator: Generator | None = None
) -> Tensor:
    """`alpha_dropout` of whole channels (axis 1)."""
    shape = _channels("feature_alpha_dropout", x)
    return _alpha("feature_alpha_dropout", x, p, training, shape, generator)


def _alpha(
    op: str, x: Tensor, p: float, training: bool, shape: Sequence[DimLike], generator: Generator | None
) -> Tensor:
    check_probability(op, p)
    if not training or p == 0:
        return x
    require_float(op, x)
    if round(p * _WORDS) >= _WORDS:
        return x * 0.0
    scale = ((1.0 - p) * (1.0 + p * _SELU_FLOOR**2)) ** -0.5
    kept = _kept(x, shape, p, generator)
    result: Tensor = kept.where(x, _SELU_FLOOR) * scale - scale * p * _SELU_FLOOR
    return result


def rrelu(
    x: Tensor,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    generator: Generator | None = None,
) -> Tensor:
    """x for x > 0, else x times a slope: random in [lower, upper) for each element, or their mean when not training.

    Raises:
        UserError: ``lower`` is above ``upper``. DTypeError: x is not floating.
    """
    if lower > upper:
        raise UserError("bad bounds", op="rrelu", expected="lower <= upper", found=f"{lower} and {upper}")
    require_float("rrelu", x)
    if not training:
        return leaky_relu(x, (lower + upper) / 2)
    slope = random.uniform(x.shape, lower, upper, x.dtype, x.device, generator)
    return (x > 0).where(x, x * slope)


def gaussian_noise(x: Tensor, std: float = 1.0, training: bool = True, generator: Generator | None = None) -> Tensor:
    """x plus normally distributed numbers; the input itself when not training.

    Raises:
        UserError: a negative ``std``. DTypeError: x is not floating.
    """
    if std < 0:
        raise UserError("bad std", op="gaussian_noise", expected="a number >= 0", found=std)
    if not training or std == 0:
        return x
    require_float("gaussian_noise", x)
    return x + random.normal(x.shape, 0.0, std, x.dtype, x.device, generator)


def gumbel_softmax(
    logits: Tensor, tau: float = 1.0, hard: bool = False, axis: int = -1, generator: Generator | None = None
) -> Tensor:
    """softmax((logits + g) / tau), g Gumbel distributed: a choice with a gradient (Jang et al. 2017).

    Args:
        hard: the choice itself, 1 at one place and 0 elsewhere, with the gradient of the soft one.

    Raises:
        UserError: ``tau`` is not positive. DTypeError: the logits are not floating.
    """
    if tau <= 0:
        raise UserError("bad tau", op="gumbel_softmax", expected="a positive number", found=tau)
    require_float("gumbel_softmax", logits)
    compute = logits.dtype.compute
    unit = random.uniform(logits.shape, dtype=compute, device=logits.device, generator=generator)
    noise = -(-(1.0 - unit).log()).maximum(1e-30).log()
    soft: Tensor = softmax((logits.astype(compute) + noise) * (1.0 / tau), axis).astype(logits.dtype)
    if not hard:
        return soft
    (at,) = soft.axes(axis)
    chosen = one_hot(soft.argmax(at), soft.shape[at], soft.dtype).transpose(_last_to(at, soft.rank))
    return chosen - stop_gradient(soft) + soft


def rand_like(x: Tensor, generator: Generator | None = None) -> Tensor:
    """Numbers from [0, 1), of the shape, type and device of x."""
    return random.uniform(x.shape, dtype=x.dtype, device=x.device, generator=generator)


def randn_like(x: Tensor, generator: Generator | None = None) -> Tensor:
    """Normal numbers of mean 0 and deviation 1, of the shape, type and device of x."""
    return random.normal(x.shape, dtype=x.dtype, device=x.device, generator=generator)


def categorical(weights: Tensor, count: int, generator: Generator | None = None) -> Tensor:
    """``count`` random indices (i64) along the last axis, (.., count), each as likely as its weight is large.

    Args:
        weights: (.., n), 0 or more, of any sum but 0; leading dims are drawn from on their own.

    Raises:
        UserError: nothing to draw. ShapeError: no weights.
    """
    if count < 1:
        raise UserError("nothing to draw", op="categorical", expected="1 or more", found=count)
    if weights.rank == 0 or weights.shape[-1] == 0:
        raise ShapeError("no weights", op="categorical", expected="(.., n)", found=weights.aval)
    ends = as_float(weights).cumsum(-1)
    size = ends.shape[-1]
    whole = ends.slice((0,) * (ends.rank - 1) + (size - 1,), ends.shape)
    unit = random.uniform((*ends.shape[:-1], count), dtype=ends.dtype, device=ends.device, generator=generator)
    point = (unit * whole).expand_dims(-1)
    below = (ends.expand_dims(-2) <= point).sum(-1)
    last = (ends < whole).sum(-1).expand_dims(-1)  # the last index that has a weight, should the product round up
    return below.minimum(last)


def _last_to(axis: int, rank: int) -> tuple[int, ...]:
    """The permutation that moves the last axis to ``axis``."""
    order = list(range(rank - 1))
    order.insert(axis, rank - 1)
    return tuple(order)


def check_probability(op: str, p: float) -> None:
    """Raises UserError unless ``0 <= p <= 1``."""
    if not 0.0 <= p <= 1.0:
        raise UserError("not a probability", op=op, expected="0 <= p <= 1", found=p)
