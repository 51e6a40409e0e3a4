"""Linear algebra, `fb.linalg`: decompositions and what they solve, of f32 and f64, over any leading dims.

Loops run over columns, rows or rounds of rotations, so that programs are as large for big matrices as for small ones.
Every decomposition has a derivative of its own; matrices have sizes that are known when traced.
"""

from firebox.frontend.functions import linear_algebra, matrices, moving
from firebox.frontend.linalg.common import public
from firebox.frontend.linalg.lu import det, inv, lu, lu_factor, matrix_power, slogdet, solve
from firebox.frontend.linalg.qr import cholesky, qr
from firebox.frontend.linalg.spectral import (
    cond,
    eigh,
    eigvalsh,
    lstsq,
    matrix_norm,
    matrix_rank,
    pinv,
    svd,
    svdvals,
)
from firebox.frontend.linalg.triangular import solve_triangular

cross = public(matrices.cross)
diagonal = public(matrices.diagonal)
trace = public(matrices.trace)
vector_norm = public(matrices.vector_norm)
matmul = public(linear_algebra.matmul)
norm = public(linear_algebra.norm)
outer = public(linear_algebra.outer)
tensordot = public(linear_algebra.tensordot)
vecdot = public(linear_algebra.vecdot)
matrix_transpose = public(moving.matrix_transpose)

__all__ = [
    "cholesky",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "inv",
    "lstsq",
    "lu",
    "lu_factor",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "norm",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]
