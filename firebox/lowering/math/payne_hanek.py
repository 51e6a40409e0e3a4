"""The exact reduction of large angles (Payne and Hanek 1983).

x = M 2^e with a 53-bit M. Of the bits of 2/pi only a window of 192 matters: higher ones contribute multiples of 4 to
x 2/pi, lower ones less than 2^-137. M times the window, modulo 2^192, has the quadrant in its top two bits and the
fraction below; doubles come no closer to a multiple of pi/2 than about 2^-62 of it.
"""

# The bits of 2/pi after the binary point, 64 a word (from mpmath), behind one word of zeros for moderate angles.
TWO_OVER_PI = (
    0x0000000000000000, 0xA2F9836E4E441529, 0xFC2757D1F534DDC0, 0xDB6295993C439041, 0xFE5163ABDEBBC561,
    0xB7246E3A424DD2E0, 0x06492EEA09D1921C, 0xFE1DEB1CB129A73E, 0xE88235F52EBB4484, 0xE99C7026B45F7E41,
    0x3991D639835339F4, 0x9C845F8BBDF9283B, 0x1FF897FFDE05980F, 0xEF2F118B5A0A6D1F, 0x6D367ECF27CB09B7,
    0x4F463F669E5FEA2D, 0x7527BAC7EBE5F17B, 0x3D0739F78A5292EA, 0x6BFB5FB11F8D5D08, 0x56033046FC7B6BAB,
    0xF0CFBC209AF4361D,
)  # fmt: skip
HALF_PI = (1.5707963267948966, 6.123233995736766e-17)
"""pi/2 in two doubles."""
