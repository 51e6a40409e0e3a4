"""`bilinear`: a sum over all products of two vectors' elements."""

from firebox.errors import ShapeError
from firebox.frontend.functions.convolution import add_bias
from firebox.frontend.functions.support import A, contract, differ, promote, require_rank, shape_text


def bilinear(a: A, b: A, weight: A, bias: A | None = None) -> A:
    """a . weight[o] . b for every o: (.., I) and (.., J) with a weight (out, I, J) give (.., out).

    Raises:
        ShapeError: sizes that do not fit.
    """
    a, b = promote("bilinear", a, b)
    require_rank("bilinear", weight, 3, "weight (out, I, J)")
    sizes = (a.shape[-1:], b.shape[-1:])
    fits = a.rank > 0 and a.rank == b.rank and sizes == ((weight.shape[1],), (weight.shape[2],))
    if not fits or any(differ(d, e) for d, e in zip(a.shape[:-1], b.shape[:-1], strict=True)):
        expected = f"(.., {weight.shape[1]}) and (.., {weight.shape[2]}) for a weight {shape_text(weight)}"
        found = f"{shape_text(a)} and {shape_text(b)}"
        raise ShapeError("sizes do not fit", op="bilinear", expected=expected, found=found)
    rows, columns = a.reshape((-1, a.shape[-1])), b.reshape((-1, b.shape[-1]))
    halfway = contract(rows, weight.astype(a.dtype), "n i, o i j -> n o j")
    result = add_bias(contract(halfway, columns, "n o j, n j -> n o"), bias)
    return result.reshape((*a.shape[:-1], weight.shape[0]))
