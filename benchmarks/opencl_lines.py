"""Single programs on an OpenCL device: what each line computes here and in PyTorch, and what it moves or counts."""

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import firebox as fb
from benchmarks.opencl_timing import Array, Contender, Place, Times, Values, apart, compare, integers
from benchmarks.results import OURS, Number, Result

GB, TFLOP = "GB/s", "TFLOP/s"
_SCALE = {GB: 1e-9, TFLOP: 1e-12}
_NEAR = {"float32": 2e-4, "float16": 5e-3, "bfloat16": 2e-2, "int32": 0.0}
_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "int32": 4, "int64": 8}


@dataclass(frozen=True)
class Input:
    """An argument: normal numbers of a type, perhaps without their signs, or integers below ``limit``."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    limit: int = 0
    positive: bool = False

    def array(self, values: Values, seed: int) -> Array:
        if self.limit:
            return integers(self.shape, self.limit, seed)
        array = values.normal(self.shape, seed)
        return np.abs(array) if self.positive else array

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape)) * _BYTES[self.dtype]


@dataclass(frozen=True)
class Line:
    """One program.

    Attributes:
        name: of the line.
        ours: a function of tensors of ours; it is jitted.
        peer: the same of PyTorch: the module, then its tensors.
        inputs: what they get.
        work: bytes that must be moved, or operations.
        unit: `GB` or `TFLOP`.
        compiles: whether torch.compile makes another program of it than PyTorch as it is.
    """

    name: str
    ours: Callable[..., Any]
    peer: Callable[..., Any]
    inputs: tuple[Input, ...]
    work: float
    unit: str = GB
    compiles: bool = True


def run_line(line: Line, place: Place, values: Values) -> Result:
    """Time a line, and compare its result with PyTorch's."""
    arrays = [given.array(values, seed) for seed, given in enumerate(line.inputs)]
    tensors = [_ours(array, given.dtype, place) for array, given in zip(arrays, line.inputs, strict=True)]
    jitted = fb.jit(line.ours)
    contenders = {OURS: Contender(lambda: jitted(*tensors), place.wait)}
    extra: dict[str, Number] = {}
    peers = [] if place.torch is None else _peers(line, arrays, place, contenders, extra)
    times = compare(contenders, place)
    if peers:
        _check(line, jitted(*tensors), line.peer(place.torch, *peers), extra)
    rates = {name: line.work / seconds * _SCALE[line.unit] for name, seconds in times.seconds.items()}
    return Result(
        line.name,
        1,
        times.seconds,
        times.least,
        extra={line.unit: round(rates[OURS], 1), **_host(times), **extra},
    )


def _host(times: Times) -> dict[str, Number]:
    return {"host us": round(times.host[OURS] * 1e6, 1)}


def _ours(array: Array, dtype: str, place: Place) -> fb.Tensor:
    tensor = fb.tensor(array, device=place.device)
    return tensor if str(array.dtype) == dtype else tensor.to(getattr(fb, dtype))


def _peers(line: Line, arrays: list[Array], place: Place, into: dict[str, Contender], extra: dict[str, Number]) -> Any:
    torch = place.torch
    tensors = [
        torch.from_numpy(array).to(place.peer, getattr(torch, given.dtype))
        for array, given in zip(arrays, line.inputs, strict=True)
    ]
    function = functools.partial(line.peer, torch)
    into["torch"] = Contender(lambda: function(*tensors), place.wait_peer)
    if line.compiles and place.compiles:
        compiled = torch.compile(lambda *args: function(*args), dynamic=False)
        try:
            compiled(*tensors)
        except Exception as error:  # whatever torch.compile says; the line goes on without it
            extra["torch.compile"] = f"{type(error).__name__}: {str(error).splitlines()[0][:60]}"
        else:
            into["torch.compile"] = Contender(lambda: compiled(*tensors), place.wait_peer)
    return tensors


def _check(line: Line, found: Any, expected: Any, extra: dict[str, Number]) -> None:
    pairs = list(zip(*(x if isinstance(x, tuple | list) else (x,) for x in (found, expected)), strict=True))
    worst = max(apart(np.asarray(a.to(fb.float32)), b.detach().float().cpu().numpy()) for a, b in pairs)
    limit = max(_NEAR.get(given.dtype, 0.0) for given in line.inputs)
    extra["error"] = f"{worst:.0e}" + (" WRONG" if not worst <= limit else "")


# ---- bandwidth ---------------------------------------------------------------------------------------------------


def _chain(f: Any, x: Any, y: Any, z: Any) -> Any:
    return f.tanh(x * y + z) * f.sigmoid(y) + x


def _adam(p: Any, g: Any, m: Any, v: Any) -> Any:
    m = m * 0.9 + g * 0.1
    v = v * 0.999 + g * g * 0.001
    return p * (1 - 1e-5) - m / (v.sqrt() + 1e-8) * 1e-3, m, v


def _cross_entropy(scores: fb.Tensor, labels: fb.Tensor) -> Any:
    return fb.value_and_grad(lambda s: fb.cross_entropy(s, labels, axis=-1))(scores)


def _torch_cross_entropy(torch: Any, scores: Any, labels: Any) -> Any:
    def loss(s: Any) -> Any:
        return torch.nn.functional.cross_entropy(s, labels.long())

    grad, value = torch.func.grad_and_value(loss)(scores)
    return value, grad


def _norm(torch: Any, x: Any, g: Any, b: Any) -> Any:
    return torch.nn.functional.layer_norm(x, (x.shape[-1],), g, b)


def bandwidth(quick: bool) -> Iterator[Line]:
    """Programs that are as fast as memory: bytes are those of inputs and outputs, once each."""
    n = 1 << 12 if quick else 1 << 26
    flat = Input((n,))
    size = flat.nbytes
    yield Line("copy", lambda x: -x, lambda t, x: -x, (flat,), 2 * size)
    yield Line("6 element-wise ops", functools.partial(_chain, fb), _chain, (flat,) * 3, 4 * size)
    gelu = Line("gelu", fb.gelu, lambda t, x: t.nn.functional.gelu(x), (flat,), 2 * size)
    yield gelu
    half = Input((n,), "bfloat16")
    yield Line("gelu, bf16", gelu.ours, gelu.peer, (half,), 2 * half.nbytes)
    for width in (64, 256, 1000) if quick else (1024, 4096, 32768):
        rows = Input((n // width, width))
        name = f"softmax, rows of {width}"
        yield Line(name, lambda x: fb.softmax(x, -1), lambda t, x: t.softmax(x, -1), (rows,), 2 * rows.nbytes)
    wide = Input((n // 1024, 1024))
    scale = Input((1024,))
    yield Line("layer norm, rows of 1024", _ours_norm, _norm, (wide, scale, scale), 2 * size)
    state = (flat, flat, flat, Input((n,), positive=True))
    yield Line("AdamW update, 64 M", _adam, lambda t, *a: _adam(*a), state, 7 * size)
    count, vocab = (4, 500) if quick else (4096, 50304)
    scores, labels = Input((count, vocab)), Input((count,), "int32", vocab)
    name = "cross-entropy and gradient, 50304 classes"
    yield Line(name, _cross_entropy, _torch_cross_entropy, (scores, labels), 2 * scores.nbytes)
    yield Line("sum of all", lambda x: x.sum(), lambda t, x: x.sum(), (flat,), size)
    yield Line("sum over axis 0", lambda x: x.sum(0), lambda t, x: x.sum(0), (wide,), size)
    yield Line("sum over axis 1", lambda x: x.sum(1), lambda t, x: x.sum(1), (wide,), size)


def _ours_norm(x: fb.Tensor, g: fb.Tensor, b: fb.Tensor) -> fb.Tensor:
    return fb.layer_norm(x, [x.shape[-1]], g, b)


# ---- contractions ------------------------------------------------------------------------------------------------


def _epilogue(x: fb.Tensor, w: fb.Tensor, b: fb.Tensor) -> fb.Tensor:
    return fb.gelu(x @ w + b)


def _torch_epilogue(t: Any, x: Any, w: Any, b: Any) -> Any:
    return t.nn.functional.gelu(t.addmm(b, x, w))


def matmul(quick: bool) -> Iterator[Line]:
    """Products of matrices; f32 without TF32."""
    short = {"float32": "f32", "bfloat16": "bf16", "float16": "f16"}
    sizes = {"float32": (1024, 2048, 4096, 8192), "bfloat16": (4096, 8192), "float16": (4096, 8192)}
    for dtype, extents in sizes.items():
        for n in (32,) if quick else extents:
            square, work = Input((n, n), dtype), 2.0 * n**3
            name = f"{n} x {n}, {short[dtype]}"
            yield Line(name, lambda a, b: a @ b, lambda t, a, b: a @ b, (square,) * 2, work, TFLOP, False)
            if quick or n >= 4096:
                both = (square, square, Input((n,), dtype))
                yield Line(f"gelu(x @ w + b), {name}", _epilogue, _torch_epilogue, both, work, TFLOP)
    n = 32 if quick else 4096
    for dtype in ("float32", "bfloat16"):
        pair, work, name = (Input((n, n), dtype),) * 2, 2.0 * n**3, f"{n}, {short[dtype]}"
        yield Line(f"x @ w.T, {name}", lambda a, b: a @ b.T, lambda t, a, b: a @ b.T, pair, work, TFLOP, False)
        yield Line(f"x.T @ w, {name}", lambda a, b: a.T @ b, lambda t, a, b: a.T @ b, pair, work, TFLOP, False)
        many = (Input((4 if quick else 96, n // 8, 64), dtype),) * 2
        work = 2.0 * many[0].shape[0] * many[0].shape[1] ** 2 * 64
        name = f"{many[0].shape[0]} of {n // 8} x 64 x {n // 8}, {short[dtype]}"
        yield Line(name, lambda a, b: a @ b.swapaxes(1, 2), lambda t, a, b: a @ b.mT, many, work, TFLOP, False)


_SHAPES = (  # batch, channels in, extent, channels out, kernel, stride: convolutions of ResNet-50
    (32, 3, 224, 64, 7, 2),
    (32, 64, 56, 64, 3, 1),
    (32, 256, 56, 64, 1, 1),
    (32, 128, 28, 128, 3, 1),
    (32, 256, 14, 256, 3, 1),
    (32, 512, 7, 512, 3, 1),
)


def convolution(quick: bool) -> Iterator[Line]:
    """Convolutions of ResNet-50: forward, and the gradients of input and weight."""
    for dtype in ("float32", "bfloat16"):
        for shape in ((2, 4, 8, 8, 3, 1),) if quick else _SHAPES:
            yield from _convolutions(*shape, dtype)


def _convolutions(n: int, c: int, extent: int, out: int, kernel: int, stride: int, dtype: str) -> Iterator[Line]:
    padding = kernel // 2
    reach = (extent + 2 * padding - kernel) // stride + 1
    x, w, g = (Input(s, dtype) for s in ((n, c, extent, extent), (out, c, kernel, kernel), (n, out, reach, reach)))
    work = 2.0 * n * reach**2 * out * c * kernel**2
    place = {"stride": stride, "padding": padding}
    name = f"{n} x {c} x {extent}^2 to {out}, {kernel} x {kernel} / {stride}, {'f32' if dtype == 'float32' else 'bf16'}"

    def forward(a: fb.Tensor, b: fb.Tensor) -> fb.Tensor:
        return fb.conv2d(a, b, stride=stride, padding=padding)

    def by_input(a: fb.Tensor, b: fb.Tensor, t: fb.Tensor) -> Any:
        return fb.vjp(lambda v: forward(v, b), a)[1](t)[0]

    def by_weight(a: fb.Tensor, b: fb.Tensor, t: fb.Tensor) -> Any:
        return fb.vjp(lambda v: forward(a, v), b)[1](t)[0]

    def back(which: int) -> Callable[..., Any]:
        def gradient(t: Any, a: Any, b: Any, y: Any) -> Any:
            mask = [which == 0, which == 1, False]
            given = ([stride] * 2, [padding] * 2, [1, 1], False, [0, 0], 1, mask)
            return t.ops.aten.convolution_backward(y, a, b, None, *given)[which]

        return gradient

    peer = lambda t, a, b: t.nn.functional.conv2d(a, b, **place)  # noqa: E731
    yield Line(f"forward, {name}", forward, peer, (x, w), work, TFLOP, False)
    if c > 3:
        yield Line(f"input, {name}", by_input, back(0), (x, w, g), work, TFLOP, False)
    yield Line(f"weight, {name}", by_weight, back(1), (x, w, g), work, TFLOP, False)


# ---- moves -------------------------------------------------------------------------------------------------------


def moves(quick: bool) -> Iterator[Line]:
    """What moves elements: bytes of inputs and outputs, once each."""
    n = 64 if quick else 8192
    for dtype in ("float32", "bfloat16"):
        square = Input((n, n), dtype)
        name = f"transpose, {n} x {n}, {dtype}"
        yield Line(name, lambda x: x.T.contiguous(), lambda t, x: x.T.contiguous(), (square,), 2 * square.nbytes)
    square = Input((n, n))
    for axis in (0, 1):
        scan = functools.partial(_cumsum, axis=axis)
        yield Line(f"cumsum over axis {axis}", scan, lambda t, x, k=axis: x.cumsum(k), (square,), 2 * square.nbytes)
    for count in (1 << 10,) if quick else (1 << 20, 1 << 24):
        flat = Input((count,))
        name = f"sort, {count} numbers"
        yield Line(name, lambda x: x.sort(), lambda t, x: x.sort().values, (flat,), 2 * flat.nbytes, GB, False)
    vocab, rows, width = (100, 64, 16) if quick else (50304, 32768, 768)
    table, at, grad = Input((vocab, width)), Input((rows,), "int32", vocab), Input((rows, width))
    yield Line("gather of rows", lambda w, k: w[k], lambda t, w, k: w[k], (table, at), 2.0 * grad.nbytes)
    name, nbytes = "gradient of an embedding", float(grad.nbytes + table.nbytes)
    yield Line(name, _embedding_gradient, _torch_embedding_gradient, (table, at, grad), nbytes, GB, False)


def _cumsum(x: fb.Tensor, axis: int) -> fb.Tensor:
    return fb.cumsum(x, axis)


def _embedding_gradient(table: fb.Tensor, at: fb.Tensor, grad: fb.Tensor) -> Any:
    return fb.vjp(lambda w: fb.embedding(at, w), table)[1](grad)[0]


def _torch_embedding_gradient(t: Any, table: Any, at: Any, grad: Any) -> Any:
    return t.ops.aten.embedding_dense_backward(grad, at.long(), table.shape[0], -1, False)


# ---- launches ----------------------------------------------------------------------------------------------------

COUNTS = (1, 10, 50, 200)


def launches(place: Place) -> tuple[list[Result], dict[str, Number]]:
    """Programs of many tiny kernels: products of 16 x 16, one after the other."""
    results: list[Result] = []
    weights = np.eye(16, dtype=np.float32)
    x = fb.tensor(weights, device=place.device)
    for count in COUNTS[:2] if place.quick else COUNTS:
        jitted = fb.jit(functools.partial(_products, count=count))
        contenders = {OURS: Contender(lambda f=jitted: f(x, x), place.wait)}  # type: ignore[misc]
        if place.torch is not None:
            t = place.torch.from_numpy(weights).to(place.peer)
            contenders["torch"] = Contender(lambda t=t, n=count: _products(t, t, n), place.wait_peer)  # type: ignore[misc]
        times = compare(contenders, place, max(1, 800 // count))
        results.append(Result(f"{count} kernels in a program", 1, times.seconds, times.least, extra=_host(times)))
    host = [float(result.extra["host us"]) for result in results]
    slope = (host[-1] - host[0]) / (COUNTS[len(host) - 1] - COUNTS[0])
    facts: dict[str, Number] = {"host us per kernel": round(slope, 2), "host us of a call": round(host[0] - slope, 2)}
    return results, facts


def _products(x: Any, w: Any, count: int) -> Any:
    for _ in range(count):
        x = x @ w
    return x
