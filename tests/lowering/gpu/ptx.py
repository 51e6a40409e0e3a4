"""Runs kernels with tensor-core instructions on devices that have none: their inline PTX becomes plain OpenCL C.

Copies take place at once; fragments and products exchange registers through local memory, as the PTX ISA defines their
layouts in "Warp Level Matrix Multiply-Accumulate Instructions". Only bf16, and one array of local memory whose address
is taken.
"""

import re

_ASM = re.compile(r'asm volatile\("([^"]*)"(.*)\);$', re.MULTILINE)
_OPERAND = re.compile(r'"[^"]*"\(')

_HELPERS = r"""
#define PTX_ARRAYS __local uchar *ptx_base; __local uint ptx_addresses[1024]; __local uint ptx_fragments[6 * 1024];
#define PTX_BASE(o, p) { ptx_base = (__local uchar *)(p); o = 0; }
#define PTX_COPY(t, s, n, w) { __local uint4 *ptx_to = (__local uint4 *)(ptx_base + (t)); \
  if ((w) != 0) { if ((n) != 0) *ptx_to = *(__global const uint4 *)(s); else *ptx_to = (uint4)(0); } }
#define PTX_ROW(i, r) (ptx_base + ptx_addresses[(get_local_id(0) & ~31) + 8 * (i) + (r)])
#define PTX_PAIR(i) (*(__local uint *)(PTX_ROW(i, (get_local_id(0) & 31) / 4) + (get_local_id(0) & 3) * 4))
#define PTX_ELEMENT(i, r) (*(__local ushort *)(PTX_ROW(i, r) + (get_local_id(0) & 31) / 4 * 2))
#define PTX_TURNED(i) \
  (PTX_ELEMENT(i, (get_local_id(0) & 3) * 2) | (uint)PTX_ELEMENT(i, (get_local_id(0) & 3) * 2 + 1) << 16)
#define PTX_LOAD(o0, o1, o2, o3, a, GET) { ptx_addresses[get_local_id(0)] = (a); barrier(CLK_LOCAL_MEM_FENCE); \
  o0 = GET(0); o1 = GET(1); o2 = GET(2); o3 = GET(3); barrier(CLK_LOCAL_MEM_FENCE); }
float ptx_float(uint pair, int half_) { return as_float(half_ ? pair & 0xffff0000u : pair << 16); }
__attribute__((noinline)) float ptx_sum(__local const uint *f, int row, int column, float total) {
  for (int k = 0; k < 16; k++) {
    uint a = f[((row & 7) * 4 + (k & 7) / 2) * 6 + row / 8 + 2 * (k / 8)];
    uint b = f[(column * 4 + (k & 7) / 2) * 6 + 4 + k / 8];
    total = fma(ptx_float(a, k & 1), ptx_float(b, k & 1), total);
  }
  return total;
}
#define PTX_MULTIPLY(o0, o1, o2, o3, a0, a1, a2, a3, b0, b1, c0, c1, c2, c3) { \
  __local uint *ptx_mine = ptx_fragments + 6 * get_local_id(0); \
  ptx_mine[0] = a0; ptx_mine[1] = a1; ptx_mine[2] = a2; ptx_mine[3] = a3; ptx_mine[4] = b0; ptx_mine[5] = b1; \
  barrier(CLK_LOCAL_MEM_FENCE); \
  __local uint *ptx_warp = ptx_fragments + 6 * (get_local_id(0) & ~31); \
  int ptx_row = (get_local_id(0) & 31) / 4, ptx_column = (get_local_id(0) & 3) * 2; \
  o0 = ptx_sum(ptx_warp, ptx_row, ptx_column, c0); o1 = ptx_sum(ptx_warp, ptx_row, ptx_column + 1, c1); \
  o2 = ptx_sum(ptx_warp, ptx_row + 8, ptx_column, c2); o3 = ptx_sum(ptx_warp, ptx_row + 8, ptx_column + 1, c3); \
  barrier(CLK_LOCAL_MEM_FENCE); }
"""


def without_ptx(source: str) -> str:
    """The same kernels in plain OpenCL C."""
    text = _ASM.sub(_statement, source)
    return _HELPERS + re.sub(r"(__kernel[^{]*\{)", r"\1 PTX_ARRAYS", text)


def _statement(match: "re.Match[str]") -> str:
    text, values = match.group(1), _operands(match.group(2))
    every = ", ".join(values)
    if text.startswith("mov.u64"):
        return f"{values[0]} = {values[1]};"
    if text.startswith("cvt.u32.u64"):
        return f"PTX_BASE({every})"
    if "cp.async.cg" in text:
        return _copy(text, values)
    if text.startswith(("cp.async.commit_group", "cp.async.wait_group")):
        return ""
    if text.startswith("ldmatrix"):
        (offset,) = re.findall(r"\+(\d+)\]", text)
        return f"PTX_LOAD({every} + {offset}, {'PTX_TURNED' if '.trans' in text else 'PTX_PAIR'})"
    assert text.startswith("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"), text
    return f"PTX_MULTIPLY({every})"


def _copy(text: str, values: list[str]) -> str:
    """Of 16 bytes or zeros, where the last operand says so if there is a predicate."""
    target, source = re.findall(r"\+(-?\d+)\]", text)
    wanted = values[-1] if "@p" in text else "1"
    size = values[2] if len(values) - ("@p" in text) == 3 else "16"
    return f"PTX_COPY({values[0]} + {target}, {values[1]} + {source}, {size}, {wanted})"


def _operands(text: str) -> list[str]:
    """The expressions in lists such as ``"=r"(a) : "r"(f(b))``."""
    found = []
    for match in _OPERAND.finditer(text):
        depth, at = 1, match.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(text[at], 0)
            at += 1
        found.append(text[match.end() : at - 1])
    return [value if value.isidentifier() else f"({value})" for value in found]
