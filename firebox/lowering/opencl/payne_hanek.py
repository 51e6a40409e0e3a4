"""The exact reduction of large angles (math.payne_hanek says how) as functions of OpenCL C.

f32 has 24 bits of the angle, so a window of 128 bits is enough, and no f64 is needed.
"""

from firebox.lowering.math.lanewise import Element
from firebox.lowering.math.payne_hanek import HALF_PI, TWO_OVER_PI

_WORDS = ",\n    ".join(f"0x{word:016x}ul" for word in TWO_OVER_PI)
_TABLE = f"""__constant ulong fb_two_over_pi[{len(TWO_OVER_PI)}] = {{
    {_WORDS}
}};"""

# Position in the table of the first bit that matters: for f32 2 - 150 + 64 bits after the exponent field, as below.
_REDUCE_F32 = """static __attribute__((noinline)) float2 NAME(float x) {
    const uint bits = as_uint(x);
    const int position = max((int)(bits >> 23 & 0xff) - 88, 0);
    const ulong m = (bits & 0x7fffff) | 0x800000;
    const int word = position >> 6;
    const uint shift = position & 63;
    ulong w[2];
    for (int k = 0; k < 2; k++) {
        const ulong next = shift == 0 ? 0 : fb_two_over_pi[word + k + 1] >> (64 - shift);
        w[k] = fb_two_over_pi[word + k] << shift | next;
    }
    const ulong high = mul_hi(m, w[1]) + m * w[0];
    const ulong low = m * w[1];
    // Two bits of the quadrant, then the fraction, which is taken to the nearest quadrant.
    const ulong fraction = high << 2 | low >> 62;
    const bool below = (long)fraction < 0;
    const ulong size = below ? -fraction : fraction;
    const uint quadrant = (uint)(high >> 62) + below;
    const int zeros = size == 0 ? 0 : (int)clz(size);
    const ulong leading = size << zeros;
    const float a = ldexp((float)(uint)(leading >> 40), -24 - zeros);
    const float b = ldexp((float)((uint)(leading >> 16) & 0xffffff), -48 - zeros);
    const float r = fma(a, HIGHf, fma(a, LOWf, b * HIGHf));
    const bool negative = x < 0.0f;
    return (float2)(below != negative ? -r : r, as_float(negative ? -quadrant : quadrant));
}"""

_REDUCE_F64 = """static __attribute__((noinline)) double4 NAME(double x) {
    const ulong bits = as_ulong(x);
    const int position = max((int)(bits >> 52 & 0x7ff) - 1013, 0);
    const ulong m = (bits & 0xffffffffffffful) | 0x10000000000000ul;
    const int word = position >> 6;
    const uint shift = position & 63;
    ulong w[3];
    for (int k = 0; k < 3; k++) {
        const ulong next = shift == 0 ? 0 : fb_two_over_pi[word + k + 1] >> (64 - shift);
        w[k] = fb_two_over_pi[word + k] << shift | next;
    }
    const ulong last = m * w[2];
    const ulong middle = m * w[1] + mul_hi(m, w[2]);
    const ulong first = m * w[0] + mul_hi(m, w[1]) + (middle < m * w[1] ? 1 : 0);
    // Two bits of the quadrant, then 128 bits of the fraction, which is taken to the nearest quadrant.
    ulong high = first << 2 | middle >> 62;
    ulong low = middle << 2 | last >> 62;
    const bool below = (long)high < 0;
    if (below) {
        high = ~high + (low == 0 ? 1 : 0);
        low = -low;
    }
    const ulong quadrant = (first >> 62) + below;
    int zeros = 0;
    if (high == 0) {
        high = low;
        low = 0;
        zeros = 64;
    }
    const uint rest = high == 0 ? 0 : (uint)clz(high);
    if (rest > 0) {
        high = high << rest | low >> (64 - rest);
        low <<= rest;
    }
    zeros += rest;
    const double a = ldexp((double)(high >> 11), -53 - zeros);
    const double b = ldexp((double)((high << 42 | low >> 22) & 0x1ffffffffffffful), -106 - zeros);
    const double product = a * HIGH;
    const double error = fma(a, HIGH, -product) + fma(a, LOW, b * HIGH);
    const double r = product + error;
    const double lost = product - r + error;
    const bool negative = x < 0.0;
    const bool flip = below != negative;
    return (double4)(flip ? -r : r, flip ? -lost : lost, as_double(negative ? -quadrant : quadrant), 0.0);
}"""

_HALF_PI_F32 = (1.5707963705062866, -4.371138828673793e-08)


def reduction(element: Element, name: str) -> str:
    """The function of a finite angle from 2^16 on: r (in two parts for f64) and the bits of n."""
    source, (high, low) = (_REDUCE_F32, _HALF_PI_F32) if element == "float" else (_REDUCE_F64, HALF_PI)
    return source.replace("NAME", name).replace("HIGH", repr(high)).replace("LOW", repr(low))


def table() -> str:
    """The bits of 2/pi that both functions read."""
    return _TABLE
