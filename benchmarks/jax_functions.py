"""Functions that Firebox and JAX both have, with the arguments that `jax_oracle` calls them with."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

import firebox as fb

F, nn, lax = fb.nn.functional, jax.nn, jax.lax


@dataclass(frozen=True)
class Pair:
    """One function on both sides.

    Attributes:
        arguments: kind and shape of each, for `jax_oracle.drawn`.
        without: checks that do not apply, and `why`.
    """

    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    arguments: tuple[str, ...]
    without: tuple[str, ...] = ()
    why: str = ""


def of(arguments: str, ours: Callable[..., Any], theirs: Callable[..., Any], without: str = "", why: str = "") -> Pair:
    return Pair(ours, theirs, tuple(a.strip() for a in arguments.split(",")), tuple(without.split()), why)


def same(names: str, arguments: str, module: Any = jnp) -> dict[str, Pair]:
    """Functions with one name on both sides."""
    return {name: of(arguments, getattr(fb, name), getattr(module, name)) for name in names.split()}


UNARY = {
    **same("abs arctan arcsinh cos cosh exp exp2 expm1 sin sinc sinh square tan tanh negative cbrt deg2rad", "any 5"),
    **same("log log10 log1p log2 reciprocal sqrt", "positive 5"),
    **same("arcsin arccos arctanh", "unit 5"),
    **same("arccosh", "above 5"),
    **same("erf erfc logit", "unit 5", jax.scipy.special),
    **same("digamma i0 i0e i1 i1e ndtr entr", "positive 5", jax.scipy.special),
    "lgamma": of("above 5", fb.lgamma, jax.scipy.special.gammaln),
    "erfinv": of("unit 5", fb.erfinv, jax.scipy.special.erfinv),
    "polygamma": of("positive 5", lambda x: fb.polygamma(2, x), lambda x: jax.scipy.special.polygamma(2, x)),
    "rsqrt": of("positive 5", fb.rsqrt, lax.rsqrt),
    "sigmoid": of("any 5", F.sigmoid, nn.sigmoid),
    "relu": of("any 5", F.relu, nn.relu),
    "relu6": of("any 5", F.relu6, nn.relu6),
    "silu": of("any 5", F.silu, nn.silu),
    "gelu": of("any 5", F.gelu, lambda x: nn.gelu(x, approximate=False)),
    "gelu tanh": of("any 5", lambda x: F.gelu(x, "tanh"), nn.gelu),
    "elu": of("any 5", F.elu, nn.elu),
    "celu": of("any 5", F.celu, nn.celu),
    "selu": of("any 5", F.selu, nn.selu),
    "mish": of("any 5", F.mish, nn.mish),
    "softplus": of("any 5", F.softplus, nn.softplus),
    "log_sigmoid": of("any 5", F.log_sigmoid, nn.log_sigmoid),
    "softsign": of("any 5", F.softsign, nn.soft_sign),
    "leaky_relu": of("any 5", F.leaky_relu, nn.leaky_relu),
    "hard_tanh": of("any 5", F.hard_tanh, nn.hard_tanh),
    "hard_sigmoid": of("any 5", F.hard_sigmoid, nn.hard_sigmoid),
    "hard_swish": of("any 5", F.hard_swish, nn.hard_swish),
    "glu": of("any 6", F.glu, nn.glu),
}

BINARY = {
    **same("add subtract multiply divide maximum minimum arctan2 hypot logaddexp logaddexp2 copysign", "any 5, any 5"),
    **same("fmod remainder", "positive 5, positive 5"),
    "power": of("positive 5, any 5", fb.power, jnp.power),
    "xlogy": of("any 5, positive 5", fb.xlogy, jax.scipy.special.xlogy),
    "xlog1py": of("any 5, positive 5", fb.xlog1py, jax.scipy.special.xlog1py),
    "betaln": of("positive 5, positive 5", fb.betaln, jax.scipy.special.betaln),
    "lerp": of("any 5, any 5, any 5", fb.lerp, lambda a, b, w: a + w * (b - a)),
    "where": of("any 5, any 5", lambda a, b: fb.where(a > b, a * a, b), lambda a, b: jnp.where(a > b, a * a, b)),
    "clip": of("any 5", lambda x: fb.clip(x, -1.0, 1.0), lambda x: jnp.clip(x, -1.0, 1.0)),
}

REDUCTIONS = {
    **same("sum mean prod max min amax amin ptp", "any 2 3"),
    "sum of an axis": of("any 2 3", lambda x: fb.sum(x * x, 0), lambda x: jnp.sum(x * x, 0)),
    "max of an axis": of("any 2 3", lambda x: fb.max(x * x, 1), lambda x: jnp.max(x * x, 1)),
    "prod of an axis": of("any 2 3", lambda x: fb.prod(x, 1), lambda x: jnp.prod(x, 1)),
    "logsumexp": of("any 2 3", lambda x: fb.logsumexp(x, 1), lambda x: nn.logsumexp(x, 1)),
    "var": of("any 2 3", lambda x: fb.var(x, 1), lambda x: jnp.var(x, 1)),
    "std": of("any 2 3", lambda x: fb.std(x, 1, correction=1), lambda x: jnp.std(x, 1, ddof=1)),
    "median": of("any 5", fb.median, jnp.median),
    "quantile": of("any 5", lambda x: fb.quantile(x, 0.3), lambda x: jnp.quantile(x, 0.3)),
    "norm": of("any 5", fb.norm, jnp.linalg.norm),
    "3-norm": of("any 5", lambda x: fb.norm(x, 3.0), lambda x: jnp.linalg.norm(x, 3)),
    "cumsum": of("any 2 3", lambda x: fb.cumsum(x * x, 1), lambda x: jnp.cumsum(x * x, 1)),
    "cumprod": of("any 2 3", lambda x: fb.cumprod(x, 1), lambda x: jnp.cumprod(x, 1)),
    "cummax": of("any 2 3", lambda x: fb.cummax(x * x, 1), lambda x: lax.cummax(x * x, 1)),
    "logcumsumexp": of("any 2 3", lambda x: fb.logcumsumexp(x, 1), lambda x: lax.cumlogsumexp(x, 1)),
    "trapezoid": of("any 5, any 5", fb.trapezoid, jnp.trapezoid),
    "diff": of("any 5", lambda x: fb.diff(x * x, 2), lambda x: jnp.diff(x * x, 2)),
    "cov": of("any 2 4", fb.cov, jnp.cov),
    "corrcoef": of("any 2 4", fb.corrcoef, jnp.corrcoef),
    "softmax": of("any 2 3", F.softmax, nn.softmax),
    "log_softmax": of("any 2 3", F.log_softmax, nn.log_softmax),
    "linear_scan": of("unit 4, any 4", fb.linear_scan, lambda d, x: scanned(d, x)),
}

PRODUCTS = {
    **same("dot inner outer vdot kron", "any 3, any 3"),
    **same("matmul", "any 2 3, any 3 2"),
    "matmul of one": of("any 3 3", lambda x: x @ x, lambda x: x @ x),
    "matrix_power": of("any 3 3", lambda x: fb.matrix_power(x, 3), lambda x: jnp.linalg.matrix_power(x, 3)),
    "tensordot": of(
        "any 2 3, any 3 2", lambda x, y: fb.tensordot(x * x, y, 1), lambda x, y: jnp.tensordot(x * x, y, 1)
    ),
    "einsum": of(
        "any 2 3, any 3 2",
        lambda x, y: fb.einsum("ij,jk,il->kl", x, y, x),
        lambda x, y: jnp.einsum("ij,jk,il->kl", x, y, x),
    ),
    "cross": of("any 3, any 3", lambda x, y: fb.cross(x * x, y), lambda x, y: jnp.cross(x * x, y)),
    "trace": of("any 3 3", lambda x: fb.trace(x @ x), lambda x: jnp.trace(x @ x)),
    "vecdot": of("any 2 3, any 2 3", fb.vecdot, jnp.vecdot),
    "conv1d": of("any 1 2 6, any 3 2 3", lambda x, w: F.conv1d(x * x, w, padding=1), lambda x, w: conv(x * x, w)),
    "attention": of("any 1 4 2, any 1 4 2, any 1 4 2", F.scaled_dot_product_attention, lambda q, k, v: attend(q, k, v)),
    "cosine_similarity": of(
        "any 4, any 4",
        lambda a, b: F.cosine_similarity(a, b),
        lambda a, b: a @ b / jnp.linalg.norm(a) / jnp.linalg.norm(b),
    ),
}

MOVEMENT = {
    **same("flip ravel transpose fliplr flipud tril triu", "any 2 3"),
    "roll": of("any 5", lambda x: fb.roll(x * x, 2), lambda x: jnp.roll(x * x, 2)),
    "reshape": of("any 2 3", lambda x: (x * x).reshape(3, 2), lambda x: (x * x).reshape(3, 2)),
    "tile": of("any 3", lambda x: fb.tile(x * x, (2,)), lambda x: jnp.tile(x * x, (2,))),
    "repeat": of("any 3", lambda x: fb.repeat(x * x, 2, 0), lambda x: jnp.repeat(x * x, 2, 0)),
    "rot90": of("any 2 3", lambda x: fb.rot90(x * x), lambda x: jnp.rot90(x * x)),
    "moveaxis": of("any 2 3", lambda x: fb.moveaxis(x * x, 0, 1), lambda x: jnp.moveaxis(x * x, 0, 1)),
    "diagonal": of("any 3 3", lambda x: fb.diagonal(x * x), lambda x: jnp.diagonal(x * x)),
    "diag": of("any 3", lambda x: fb.diag(x * x), lambda x: jnp.diag(x * x)),
    "concat": of("any 3, any 2", lambda x, y: fb.concat([x * x, y]), lambda x, y: jnp.concatenate([x * x, y])),
    "stack": of("any 3, any 3", lambda x, y: fb.stack([x * x, y], 1), lambda x, y: jnp.stack([x * x, y], 1)),
    "split": of("any 4", lambda x: fb.split(x * x, 2), lambda x: jnp.split(x * x, 2)),
    "pad": of("any 3", lambda x: fb.pad(x * x, [(1, 2)]), lambda x: jnp.pad(x * x, (1, 2))),
    "pad reflect": of(
        "any 4", lambda x: fb.pad(x * x, [(2, 1)], mode="reflect"), lambda x: jnp.pad(x * x, (2, 1), "reflect")
    ),
    "slice": of("any 6", lambda x: (x * x)[1:5:2], lambda x: (x * x)[1:5:2]),
    "slice backwards": of("any 6", lambda x: (x * x)[4:0:-2], lambda x: (x * x)[4:0:-2]),
    "sort": of("any 5", lambda x: fb.sort(x * x), lambda x: jnp.sort(x * x)),
    "topk": of("any 5", lambda x: fb.topk(x * x, 2)[0], lambda x: lax.top_k(x * x, 2)[0]),
    "windows": of(
        "any 5", lambda x: fb.windows(x * x, 0, 3), lambda x: jnp.stack([(x * x)[k : k + 3] for k in range(3)])
    ),
}

INDICES = {
    "take": of("any 4, index 5", lambda x, i: fb.take(x * x, i), lambda x, i: jnp.take(x * x, i)),
    "take_along_axis": of(
        "any 3 2, index 2 2",
        lambda x, i: fb.take_along_axis(x * x, i, 0),
        lambda x, i: jnp.take_along_axis(x * x, i, 0),
    ),
    "at add": of("any 4, index 5, any 5", lambda x, i, v: (x * x).at[i].add(v), lambda x, i, v: (x * x).at[i].add(v)),
    "at set": of("any 4, any 2", lambda x, v: (x * x).at[1:3].set(v), lambda x, v: (x * x).at[1:3].set(v)),
    "one_hot": of("any 4, index 2", lambda x, i: F.one_hot(i, 4) @ (x * x), lambda x, i: nn.one_hot(i, 4) @ (x * x)),
    "embedding": of("any 3 2, index 4", lambda w, i: F.embedding(i, w * w), lambda w, i: jnp.take(w * w, i, 0)),
}

FUNCTIONS: dict[str, Pair] = {**UNARY, **BINARY, **REDUCTIONS, **PRODUCTS, **MOVEMENT, **INDICES}


def scanned(decay: Any, x: Any) -> Any:
    def step(state: Any, given: Any) -> Any:
        made = given[0] * state + given[1]
        return made, made

    return lax.scan(step, jnp.zeros(()), (decay, x))[1]


def conv(x: Any, weight: Any) -> Any:
    return lax.conv_general_dilated(x, weight, (1,), [(1, 1)], dimension_numbers=("NCH", "OIH", "NCH"))


def attend(q: Any, k: Any, v: Any) -> Any:
    scores = jnp.einsum("nle,nse->nls", q, k) / q.shape[-1] ** 0.5
    return nn.softmax(scores) @ v
