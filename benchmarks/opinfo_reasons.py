"""Why Firebox has no function for some of PyTorch's; names end with a star where all that begin so are meant."""

_NO_FUNCTION = "no such function"

WHY: dict[str, str] = {
    "no complex numbers": "complex polar view_as_complex real conj conj_physical resolve_conj resolve_neg "
    "angle isreal H mH cfloat cdouble chalf",
    "eigenvalues that may be complex": "linalg.eig linalg.eigvals",
    "packed factors, of use to PyTorch's own functions alone": "lu lu_unpack lu_solve geqrf ormqr linalg.lu_factor* "
    "linalg.lu_solve linalg.householder_product linalg.ldl* linalg.cholesky_ex linalg.inv_ex linalg.solve_ex "
    "cholesky_inverse cholesky_solve",
    "other random numbers": "svd_lowrank pca_lowrank cauchy exponential geometric log_normal normal* uniform "
    "multinomial bernoulli rand* "
    "nn.functional.fractional_max_pool* native_dropout_backward",
    "its elements have no defined value": "empty* new_empty* resize_ resize_as_",
    "tensors have no strides": "as_strided*",
    "tensors are dense": "sparse* to_sparse",
    "masks are arguments of where, not part of an array": "masked.*",
    "a part of the derivative of another function": "_softmax_backward_data max_pool2d_with_indices_backward",
    "an implementation of a function that is tried under another name": "native_batch_norm native_group_norm "
    "_native_batch_norm_legit _batch_norm_with_update _unsafe_masked_index* _chunk_cat bmm+triton_optimized "
    "nn.functional.linear_cross_entropy+* torch.ops.aten._safe_softmax.default",
    "runs CUDA source": "jiterator*",
    "a sum of bits that only PyTorch defines": "hash_tensor",
    "shapes depend on a size that is an argument elsewhere": "nonzero_static histogram histogramdd",
    "the array's own elements count in PyTorch's mean, not in ours": "index_reduce+mean scatter_reduce+mean",
    "widths are not negative; slices crop": "nn.functional.pad+replicate_negative",
    "a layer: fb.nn.MultiHeadAttention": "nn.functional.multi_head_attention_forward",
}

_EXACT = {name: reason for reason, names in WHY.items() for name in names.split()}


def reason(key: str) -> str:
    """Why there is no function for an op, ``name`` or ``name variant``."""
    wanted = key.replace(" ", "+")
    for name, text in _EXACT.items():
        if wanted == name or (name.endswith("*") and wanted.startswith(name[:-1])):
            return text
    return _NO_FUNCTION
