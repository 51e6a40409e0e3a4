"""Reading of dim expressions."""

import re
from collections.abc import Callable

from firebox.dims.expression import DimLike, dim, floordiv, maximum, minimum, mod, multiply
from firebox.errors import UserError

_TOKEN = re.compile(r"\s*(\d+|[A-Za-z_]\w*|//|[-+*%(),])")


def parse(text: str) -> DimLike:
    """Read an expression as `str` prints it: ``b*8 + 2``, ``(n // 2)``, ``min(a, b)``.

    Raises:
        UserError: malformed text; names the position.
    """
    return _Parser(text).parse()


class _Parser:
    """Recursive descent over sums, products and atoms."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.token = ""
        self._next()

    def parse(self) -> DimLike:
        value = self._sum()
        if self.token:
            self._fail()
        return value

    def _next(self) -> None:
        match = _TOKEN.match(self.text, self.position)
        if match is None and self.text[self.position :].strip():
            self._fail()
        self.token = match.group(1) if match else ""
        self.position = match.end() if match else len(self.text)

    def _fail(self) -> None:
        raise UserError("malformed dim expression", found=f"{self.text!r} at column {self.position}")

    def _take(self, token: str) -> None:
        if self.token != token:
            self._fail()
        self._next()

    def _sum(self) -> DimLike:
        value: DimLike = 0
        sign = 1
        if self.token == "-":
            sign = -1
            self._next()
        value = multiply(sign, self._product())
        while self.token in ("+", "-"):
            sign = 1 if self.token == "+" else -1
            self._next()
            value = value + multiply(sign, self._product())
        return value

    def _product(self) -> DimLike:
        value = self._atom()
        while self.token in ("*", "//", "%"):
            function = {"*": multiply, "//": floordiv, "%": mod}[self.token]
            self._next()
            value = function(value, self._atom())
        return value

    def _atom(self) -> DimLike:
        token = self.token
        if token.isdigit():
            self._next()
            return int(token)
        if token == "(":
            self._next()
            value = self._sum()
            self._take(")")
            return value
        if not re.fullmatch(r"[A-Za-z_]\w*", token):
            self._fail()
        self._next()
        if token in ("min", "max") and self.token == "(":
            return self._extremum(minimum if token == "min" else maximum)
        return dim(token)

    def _extremum(self, function: Callable[[DimLike, DimLike], DimLike]) -> DimLike:
        self._take("(")
        lhs = self._sum()
        self._take(",")
        rhs = self._sum()
        self._take(")")
        return function(lhs, rhs)
