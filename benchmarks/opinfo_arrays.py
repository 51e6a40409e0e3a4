"""Which function of Firebox is which of PyTorch's: shapes, indices, reductions, order, products of matrices."""

from collections.abc import Sequence
from typing import Any

from benchmarks.opinfo_support import Function, NotTried, fb, named, only

SHAPES: dict[str, Function] = {
    **named(
        "broadcast_to broadcast_tensors cartesian_prod chunk diag diff fliplr flipud movedim kron "
        "masked_scatter masked_select ravel rot90 select split "
        "tensor_split hsplit vsplit tril triu trace unbind "
        "unflatten unsqueeze block_diag combinations column_stack hstack vstack dstack stack "
        "unique_consecutive"
    ),
    "unsafe_chunk": "chunk",
    "unbind_copy": "unbind",
    "unsqueeze_copy": "unsqueeze",
    "squeeze": lambda x, axis=None: squeeze(x, axis),
    "squeeze_copy": lambda x, axis=None: squeeze(x, axis),
    "squeeze multiple": lambda x, axis=None: squeeze(x, axis),
    "broadcast_shapes": lambda *shapes: fb.broadcast_shapes(*((s,) if isinstance(s, int) else s for s in shapes)),
    "repeat_interleave": lambda x, repeats, axis=None, output_size=None: repeat_interleave(x, repeats, axis),
    "dsplit": lambda x, sections: fb.tensor_split(x, sections, 2),
    "atleast_1d": lambda x: each(fb.atleast_1d, x),
    "atleast_2d": lambda x: each(fb.atleast_2d, x),
    "cat": lambda arrays, axis=0: cat(arrays, axis),
    "diagonal_scatter": lambda x, values, offset=0, dim1=0, dim2=1: diagonal_scatter(x, values, offset, dim1, dim2),
    "select_scatter": "select_scatter",
    "slice_scatter": "slice_scatter",
    "gradient": lambda x, spacing=None, axis=None, edge_order=1: gradient(x, spacing, axis, edge_order),
    "split list_args": "split",
    "split_with_sizes": "split",
    "split_with_sizes_copy": "split",
    "unsafe_split": "split",
    "diagflat": lambda x, offset=0: fb.diag(x.reshape(-1), offset),
    "expand": lambda x, *shape: fb.broadcast_to(x, expanded(x, flat(shape))),
    "expand_copy": lambda x, *shape: fb.broadcast_to(x, expanded(x, flat(shape))),
    "expand_as": lambda x, like: fb.broadcast_to(x, like.shape),
    "sum_to_size": lambda x, *shape: summed_to(x, flat(shape)),
    "diag_embed": lambda x, offset=0, dim1=-2, dim2=-1: diag_embed(x, offset, dim1, dim2),
    "diagonal": lambda x, offset=0, dim1=0, dim2=1: fb.diagonal(x, offset, dim1, dim2),
    "diagonal_copy": lambda x, offset=0, dim1=0, dim2=1: fb.diagonal(x, offset, dim1, dim2),
    "linalg.diagonal": lambda x, offset=0, dim1=-2, dim2=-1: fb.diagonal(x, offset, dim1, dim2),
    "flatten": lambda x, start_dim=0, end_dim=-1: fb.flatten(x, start_dim, end_dim),
    "flip": lambda x, dims: fb.flip(x, dims),
    "meshgrid variadic_tensors": lambda *x, indexing="ij": fb.meshgrid(*x, indexing=indexing),
    "meshgrid list_of_tensors": lambda x, indexing="ij": fb.meshgrid(*x, indexing=indexing),
    "narrow": lambda x, axis, start, length: narrow(x, axis, start, length),
    "narrow_copy": lambda x, axis, start, length: narrow(x, axis, start, length),
    "permute": lambda x, *order: fb.permute(x, flat(order)) if x.ndim else x,
    "permute_copy": lambda x, *order: fb.permute(x, flat(order)) if x.ndim else x,
    "transpose": lambda x, a, b: fb.swapaxes(x, a, b),
    "transpose_copy": lambda x, a, b: fb.swapaxes(x, a, b),
    "t": lambda x: x.t() if x.ndim == 2 else x,
    "t_copy": lambda x: x.t() if x.ndim == 2 else x,
    "T": lambda x: x.T,
    "mT": lambda x: x.mT,
    "repeat": lambda x, *counts: fb.tile(x, flat(counts)),
    "tile": lambda x, *counts: fb.tile(x, flat(counts)),
    "reshape": lambda x, *shape: x.reshape(flat(shape)),
    "reshape_as": lambda x, like: x.reshape(like.shape),
    "view": lambda x, *shape: x.view(*flat(shape)),
    "view_copy": lambda x, *shape: x.view(*flat(shape)),
    "view_as": lambda x, like: x.view(*like.shape),
    "roll": lambda x, shifts, dims=None: fb.roll(x, shifts, dims),
    "slice": lambda x, axis=0, start=None, end=None, step=1: x[(*[slice(None)] * axis, slice(start, end, step))],
    "unfold": lambda x, axis, size, step: fb.windows(x, axis, size, step),
    "unfold_copy": lambda x, axis, size, step: fb.windows(x, axis, size, step),
    "constant_pad_nd": lambda x, widths, value=0: padded(x, widths, "constant", value),
    "nn.functional.pad constant": lambda x, widths, mode="constant", value=0: padded(x, widths, mode, value or 0),
    "nn.functional.pad reflect": lambda x, widths, mode: padded(x, widths, mode),
    "nn.functional.pad replicate": lambda x, widths, mode: padded(x, widths, mode),
    "nn.functional.pad circular": lambda x, widths, mode: padded(x, widths, mode),
}

INDICES: dict[str, Function] = {
    "argwhere": "argwhere",
    "gather": lambda x, axis, index: gather(x, axis, index),
    "__getitem__": lambda x, index: x[indexed(index)],
    "index_select": lambda x, axis, index: fb.index_select(x, index, axis),
    "index_add": lambda x, axis, index, values, alpha=1: fb.index_add(x, axis, index, alpha * values),
    "index_copy": lambda x, axis, index, values: fb.index_put(x, axis, index, values),
    "index_fill": lambda x, axis, index, value: fb.index_put(x, axis, index, like_rows(x, axis, index, value)),
    "index_put": lambda x, index, values, accumulate: (
        x.at[tuple(index)].add(values) if accumulate else x.at[tuple(index)].set(values)
    ),
    "index_reduce prod": lambda *args, include_self=True: index_reduce(include_self, *args),
    "index_reduce amin": lambda *args, include_self=True: index_reduce(include_self, *args),
    "index_reduce amax": lambda *args, include_self=True: index_reduce(include_self, *args),
    "put": lambda x, index, values, accumulate=False: put(x, index, values, accumulate),
    "scatter": lambda x, axis, index, values, reduce=None: scatter(x, axis, index, values, reduce),
    "scatter_add": lambda x, axis, index, values: fb.scatter(x, axis, index, values, "add"),
    "scatter_reduce sum": lambda *args, include_self=True: scatter_reduce(include_self, *args),
    "scatter_reduce prod": lambda *args, include_self=True: scatter_reduce(include_self, *args),
    "scatter_reduce amin": lambda *args, include_self=True: scatter_reduce(include_self, *args),
    "scatter_reduce amax": lambda *args, include_self=True: scatter_reduce(include_self, *args),
    "take": lambda x, index: fb.take(x, index, None),
    "take_along_dim": lambda x, index, axis=None: (
        fb.take_along_axis(x, index, axis) if axis is not None else fb.take(x, index.reshape(-1), None)
    ),
    "nonzero": lambda x, as_tuple=False: fb.nonzero(x) if as_tuple else fb.argwhere(x),
    "searchsorted": lambda edges, x, sorter=None, right=False, side="left", out_int32=False: searchsorted(
        edges, x, "right" if right or side == "right" else "left", sorter
    ).astype(integer(out_int32)),
    "bucketize": lambda x, edges, right=False, out_int32=False: fb.bucketize(x, edges, right).astype(
        integer(out_int32)
    ),
    "unique": lambda x, sorted=True, return_inverse=False, return_counts=False, axis=None: unique(
        x, return_inverse, return_counts, axis
    ),
}

REDUCTIONS: dict[str, Function] = {
    **named(
        "amax amin argmax argmin count_nonzero logcumsumexp kthvalue trapezoid nanmedian nanquantile histc "
        "cumulative_trapezoid"
    ),
    "all": "all",
    "any": "any",
    "trapz": "trapezoid",
    "aminmax": lambda x, axis=None, keepdims=False: (fb.amin(x, axis, keepdims), fb.amax(x, axis, keepdims)),
    "msort": lambda x: fb.sort(x, 0),
    "topk": lambda x, k, axis=-1, largest=True, sorted=True: fb.topk(x, k, axis, largest),
    "argsort": lambda x, axis=-1, descending=False, stable=False: fb.argsort(x, axis, descending),
    "sort": lambda x, axis=-1, descending=False, stable=False: fb.sort_with_indices(x, axis, descending),
    "max reduction_no_dim": "max",
    "min reduction_no_dim": "min",
    "max reduction_with_dim": "max_with_indices",
    "min reduction_with_dim": "min_with_indices",
    "cummax": lambda x, axis: fb.cummax(x, axis),
    "cummin": lambda x, axis: fb.cummin(x, axis),
    "cumsum": lambda x, axis, dtype=None: fb.cumsum(x if dtype is None else x.astype(dtype), axis),
    "cumprod": lambda x, axis, dtype=None: fb.cumprod(x if dtype is None else x.astype(dtype), axis),
    "sum": lambda x, axis=None, keepdims=False, dtype=None: fb.sum(typed(x, dtype), some(axis), keepdims),
    "mean": lambda x, axis=None, keepdims=False, dtype=None: fb.mean(typed(x, dtype), some(axis), keepdims),
    "prod": lambda x, axis=None, keepdims=False, dtype=None: fb.prod(typed(x, dtype), axis, keepdims),
    "nansum": lambda x, axis=None, keepdims=False, dtype=None: fb.nansum(typed(x, dtype), some(axis), keepdims),
    "nanmean": lambda x, axis=None, keepdims=False, dtype=None: fb.nanmean(typed(x, dtype), some(axis), keepdims),
    "logsumexp": lambda x, axis, keepdims=False: logsumexp(x, some(axis), keepdims),
    "var": lambda x, *args, **kw: moments(fb.var, x, *args, **kw),
    "var unbiased": lambda x, *args, **kw: moments(fb.var, x, *args, **kw),
    "std": lambda x, *args, **kw: moments(fb.std, x, *args, **kw),
    "std unbiased": lambda x, *args, **kw: moments(fb.std, x, *args, **kw),
    "var_mean": lambda x, *args, **kw: moments(fb.var_mean, x, *args, **kw),
    "var_mean unbiased": lambda x, *args, **kw: moments(fb.var_mean, x, *args, **kw),
    "std_mean": lambda x, *args, **kw: moments(std_mean, x, *args, **kw),
    "std_mean unbiased": lambda x, *args, **kw: moments(std_mean, x, *args, **kw),
    "mode": lambda x, axis=-1, keepdims=False: fb.mode(x, axis, keepdims)[0],
    "median": lambda x, axis=None, keepdims=False: lower_median(x, axis, keepdims),
    "quantile": lambda x, q, axis=None, keepdims=False, interpolation="linear": quantile(
        x, q, axis, keepdims, interpolation
    ),
    "cov": lambda x, correction=1, fweights=None, aweights=None: cov(x, correction, fweights, aweights),
    "corrcoef": "corrcoef",
    "dist": lambda x, y, p=2: fb.norm((x - y).reshape(-1), p),
    "norm": lambda x, p=2.0, axis=None, keepdims=False: norm(x, p, axis, keepdims),
    "norm inf": lambda x, p, axis=None, keepdims=False: norm(x, p, axis, keepdims),
    "norm fro": lambda x, p="fro", axis=None, keepdims=False: fb.norm(x, 2.0, some(axis), keepdims),
    "linalg.vector_norm": lambda x, ord=2, axis=None, keepdims=False, dtype=None: fb.vector_norm(
        typed(x, dtype), some(axis), keepdims, ord
    ),
    "linalg.norm": lambda x, ord=None, axis=None, keepdims=False: linalg_norm(x, ord, axis, keepdims),
    "linalg.norm subgradients_at_zero": lambda x, ord=None, axis=None, keepdims=False: linalg_norm(
        x, ord, axis, keepdims
    ),
    "linalg.matrix_norm": lambda x, ord="fro", axis=(-2, -1), keepdims=False: matrix_norm(x, ord, axis, keepdims),
    "nn.functional.normalize": lambda x, p=2.0, axis=1, eps=1e-12: fb.normalize(x, p, axis, eps),
}

PRODUCTS: dict[str, Function] = {
    **named("dot vdot outer matmul inner linalg.multi_dot renorm"),
    "bmm": "matmul",
    "mm": "matmul",
    "mv": "matmul",
    "linalg.multi_dot": "multi_dot",
    "addmm": lambda x, a, b, alpha=1, beta=1: beta * x + alpha * (a @ b),
    "addmm decomposed": lambda x, a, b, alpha=1, beta=1: beta * x + alpha * (a @ b),
    "addmv": lambda x, a, b, alpha=1, beta=1: beta * x + alpha * (a @ b),
    "addbmm": lambda x, a, b, alpha=1, beta=1: beta * x + alpha * (a @ b).sum(0),
    "baddbmm": lambda x, a, b, alpha=1, beta=1: beta * x + alpha * (a @ b),
    "addr": lambda x, a, b, alpha=1, beta=1: (beta * x if beta else 0.0) + (alpha * fb.outer(a, b) if alpha else 0.0),
    "einsum": lambda arrays, equation: fb.einsum(equation, *arrays),
    "tensordot": lambda x, y, dims=2: tensordot(x, y, dims),
    "linalg.vecdot": lambda x, y, axis=-1: fb.vecdot(x, y, axis),
    "linalg.matrix_power": lambda x, n: fb.matrix_power(x, n),
    "linalg.cross": lambda x, y, axis=-1: fb.cross(x, y, axis),
    "cross": lambda x, y, axis=None: fb.cross(x, y, x.shape.index(3) if axis is None else axis),
    "cdist": lambda x, y, p=2.0, compute_mode="": fb.cdist(x, y, p),
    "nn.functional.pdist": lambda x, p=2.0: fb.pdist(x, p),
    "nn.functional.linear": "linear",
    "nn.functional.bilinear": "bilinear",
}

ARRAYS: dict[str, Function] = {**SHAPES, **INDICES, **REDUCTIONS, **PRODUCTS}


def flat(sizes: Sequence[Any]) -> tuple[int, ...]:
    """Sizes that were given as one tuple, or one by one."""
    return tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], tuple | list) else tuple(sizes)


def each(function: Any, x: Any) -> Any:
    return [function(v) for v in x] if isinstance(x, list | tuple) else function(x)


def squeeze(x: Any, axis: Any) -> Any:
    named = () if axis is None else (axis,) if isinstance(axis, int) else axis
    only(x.ndim > 0 or not named, "a 0-d array has no axis")
    only(all(x.shape[a] == 1 for a in named), "only dims of size 1 can be squeezed")
    return fb.squeeze(x, axis)


def repeat_interleave(x: Any, repeats: Any, axis: int | None) -> Any:
    return fb.repeat_interleave(x, repeats.tolist() if isinstance(repeats, fb.Tensor) else repeats, axis)


def cat(arrays: Sequence[Any], axis: int) -> Any:
    only(len({a.ndim for a in arrays}) == 1, "arrays of one rank are joined")
    return fb.concat(arrays, axis)


def gather(x: Any, axis: int, index: Any) -> Any:
    only(x.ndim == index.ndim, "indices have the rank of the array")
    return fb.gather(x, axis, index)


def searchsorted(edges: Any, x: Any, side: str, sorter: Any) -> Any:
    only(edges.ndim == 1, "one sequence of edges")
    return fb.searchsorted(edges, x, side, sorter)


def logsumexp(x: Any, axis: Any, keepdims: bool) -> Any:
    only(x.ndim > 0 or axis is None, "a 0-d array has no axis")
    return fb.logsumexp(x, axis, keepdims)


def quantile(x: Any, q: Any, axis: int | None, keepdims: bool, method: str) -> Any:
    only(not isinstance(q, fb.Tensor), "shares are Python numbers")
    return fb.quantile(x, q, axis, keepdims, method)


def tensordot(x: Any, y: Any, axes: Any) -> Any:
    pairs = axes if isinstance(axes, list | tuple) else (range(x.ndim - axes, x.ndim), range(axes))
    only(all(x.shape[a] == y.shape[b] for a, b in zip(*pairs, strict=True)), "summed dims are equal in size")
    return fb.tensordot(x, y, axes)


def some(axis: Any) -> Any:
    """PyTorch's empty tuple of axes is all of them."""
    return None if axis == () or axis == [] else axis


def typed(x: Any, dtype: Any) -> Any:
    return x if dtype is None else x.astype(dtype)


def integer(narrow_one: bool) -> Any:
    return fb.int32 if narrow_one else fb.int64


def expanded(x: Any, shape: Sequence[int]) -> tuple[int, ...]:
    """The shape with the array's own sizes for -1."""
    own = (*(1,) * (len(shape) - x.ndim), *x.shape)
    return tuple(mine if wanted == -1 else wanted for mine, wanted in zip(own, shape, strict=True))


def summed_to(x: Any, shape: Sequence[int]) -> Any:
    lead = x.ndim - len(shape)
    axes = [*range(lead), *(lead + k for k, size in enumerate(shape) if size == 1)]
    return x.sum(axes).reshape(tuple(shape)) if axes else x


def diag_embed(x: Any, offset: int, dim1: int, dim2: int) -> Any:
    made = fb.diag_embed(x, offset)
    return fb.moveaxis(made, (-2, -1), (dim1, dim2))


def diagonal_scatter(x: Any, values: Any, offset: int, dim1: int, dim2: int) -> Any:
    made = fb.diagonal_scatter(fb.moveaxis(x, (dim1, dim2), (-2, -1)), values, offset)
    return fb.moveaxis(made, (-2, -1), (dim1, dim2))


def gradient(x: Any, spacing: Any, axis: Any, edge_order: int) -> Any:
    only(edge_order == 1, "ends take one neighbour")
    axes = range(x.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    steps = spacing if isinstance(spacing, tuple | list) else [1.0 if spacing is None else spacing] * len(axes)
    only(not any(isinstance(s, fb.Tensor) for s in steps), "one spacing for a dim")
    return [fb.gradient(x, s, a) for s, a in zip(steps, axes, strict=True)]


def narrow(x: Any, axis: int, start: Any, length: int) -> Any:
    only(not isinstance(start, fb.Tensor), "bounds are Python numbers")
    first = start % x.shape[axis] if start < 0 else start
    return fb.narrow(x, axis, first, first + length)


def padded(x: Any, widths: Sequence[int], mode: str, value: float = 0) -> Any:
    """PyTorch's widths begin with the last dim."""
    only(all(w >= 0 for w in widths), "widths are not negative; slices crop")
    pairs = [(0, 0)] * (x.ndim - len(widths) // 2) + list(zip(widths[::2], widths[1::2], strict=True))[::-1]
    return fb.pad(x, pairs, value, mode)


def indexed(index: Any) -> Any:
    """Lists inside of a tuple of indices are arrays."""
    return tuple(list(i) if isinstance(i, tuple) else i for i in index) if isinstance(index, tuple) else index


def like_rows(x: Any, axis: int, index: Any, value: Any) -> Any:
    only(x.ndim > 0, "a 0-d array has no axis")
    shape = list(x.shape)
    shape[axis] = index.shape[0]
    return fb.broadcast_to(fb.tensor(value) if not isinstance(value, fb.Tensor) else value, tuple(shape))


_REDUCED = {"sum": "add", "add": "add", "prod": "mul", "multiply": "mul", "amin": "min", "amax": "max", None: "set"}


def scatter(x: Any, axis: int, index: Any, values: Any, reduce: str | None) -> Any:
    return fb.scatter(x, axis, index, values, _REDUCED[reduce])


def scatter_reduce(include_self: bool, x: Any, axis: int, index: Any, values: Any, reduce: str) -> Any:
    only(include_self, "the array's own elements take part")
    return fb.scatter(x, axis, index, values, _REDUCED[reduce])


def index_reduce(include_self: bool, x: Any, axis: int, index: Any, values: Any, reduce: str) -> Any:
    only(include_self, "the array's own elements take part")
    return fb.index_put(x, axis, index, values, _REDUCED[reduce])


def put(x: Any, index: Any, values: Any, accumulate: bool) -> Any:
    flat_one = x.reshape(-1)
    made = fb.index_put(flat_one, 0, index.reshape(-1), values.reshape(-1), "add" if accumulate else "set")
    return made.reshape(x.shape)


def unique(x: Any, inverse: bool, counts: bool, axis: int | None) -> Any:
    only(axis is None, "unique elements, not unique slices")
    values, _, where, many = fb.unique_all(x)
    found = [values, *([where] if inverse else []), *([many] if counts else [])]
    return found[0] if len(found) == 1 else tuple(found)


def moments(function: Any, x: Any, *args: Any, correction: Any = 1, unbiased: Any = None, **kw: Any) -> Any:
    """Variances with one of PyTorch's three ways to say what to divide by."""
    for given in args:
        if isinstance(given, bool):
            unbiased = given
        else:
            kw.setdefault("axis", given)
    kw["axis"] = some(kw.get("axis"))
    divided = 1 if correction is None else correction
    return function(x, correction=divided if unbiased is None else int(unbiased), **kw)


def std_mean(x: Any, axis: Any = None, keepdims: bool = False, correction: float = 1) -> Any:
    return fb.std(x, axis, keepdims, correction), fb.mean(x, axis, keepdims)


def lower_median(x: Any, axis: int | None, keepdims: bool) -> Any:
    """PyTorch's median is the lower of the two in the middle: the k-th smallest."""
    if axis is None:
        only(x.size % 2 == 1, "the median of an even number of elements is the mean of the two in the middle")
        return fb.median(x)
    only(x.ndim > 0, "a 0-d array has no axis")
    return fb.kthvalue(x, (x.shape[axis] + 1) // 2, axis, keepdims)


def cov(x: Any, correction: float, fweights: Any, aweights: Any) -> Any:
    only(fweights is None and aweights is None, "without weights")
    return fb.cov(x, correction)


def norm(x: Any, p: Any, axis: Any, keepdims: bool) -> Any:
    only(p != "nuc", "no singular values")
    return fb.norm(x, 2.0 if p in (None, "fro") else p, some(axis), keepdims)


def linalg_norm(x: Any, ord: Any, axis: Any, keepdims: bool) -> Any:
    """A norm of vectors or of matrices, as the number of axes says."""
    if ord is None or isinstance(axis, int) or (axis is not None and len(axis) == 1) or (axis is None and x.ndim == 1):
        return fb.vector_norm(x, some(axis), keepdims, 2 if ord is None else ord)
    return matrix_norm(x, ord, axis or (-2, -1), keepdims)


def matrix_norm(x: Any, ord: Any, axis: Sequence[int], keepdims: bool) -> Any:
    if keepdims and tuple(axis) != (-2, -1):
        raise NotTried("the norm is over the last two dims")
    return fb.linalg.matrix_norm(fb.moveaxis(x, axis, (-2, -1)), keepdims, ord)
