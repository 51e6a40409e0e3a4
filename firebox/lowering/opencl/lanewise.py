"""Operations on floats and the integers beside them as OpenCL C, for the expansions of math: one function for each.

Scalars only: vectors call the function lane by lane. An operand text is the name of a node or a constant; the nodes
become statements at the end, when it is known which are used once.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

from firebox.lowering.math.lanewise import Angle, Element
from firebox.lowering.math.lanewise import Lanewise as Base
from firebox.lowering.opencl import payne_hanek, text
from firebox.lowering.opencl.function import UnitText
from firebox.lowering.opencl.text import Expr

_LONGEST_INLINE = 72
_SUFFIX = {"float": "f32", "double": "f64"}
_ORDERS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_OPPOSITES = {"lt": ">=", "le": ">", "gt": "<=", "ge": "<"}

Write = Callable[..., Expr]
Expansion = Callable[..., str]


@dataclass
class _Node:
    """An operation whose operands are nodes or constants; ``named`` says that it becomes a variable in any case."""

    type: str
    write: Write
    operands: tuple[str, ...]
    uses: int = 0
    named: bool = False


@dataclass
class HelperText:
    """A function of C that is being written: its nodes by name, and the constants that they use."""

    unit: UnitText
    nodes: dict[str, _Node] = field(default_factory=dict)
    known: dict[str, Expr] = field(default_factory=dict)

    def node(self, type_: str, write: Write, *operands: str) -> str:
        """A new operation; gives its name."""
        name = f"#{len(self.nodes)}"
        self.nodes[name] = _Node(type_, write, operands)
        for operand in operands:
            if operand in self.nodes:
                self.nodes[operand].uses += 1
        return name

    def choice(self, type_: str, cond: str, a: str, b: str) -> str:
        """One of two values.

        Both are variables: of the operations within `c ? a : b` compilers make branches, behind which they also move
        whatever only one side needs; work-items then wait for each other, and lanes are computed one after the other.
        """
        for operand in (a, b):
            if operand in self.nodes:
                self.nodes[operand].named = True
        return self.node(type_, text.choice, cond, a, b)

    def constant(self, expr: Expr) -> str:
        """A constant or a parameter as an operand."""
        self.known[expr.text] = expr
        return expr.text

    def statements(self, result: str) -> list[str]:
        """The lines of the function's body; what is not used is not written."""
        self._drop_unused(result)
        lines: list[str] = []
        for name, node in self.nodes.items():
            if not node.uses:
                continue
            expr = node.write(*(self.known[operand] for operand in node.operands))
            if name == result:
                lines.append(f"return {expr.text};")
            elif not expr.simple and (node.named or node.uses > 1 or len(expr.text) > _LONGEST_INLINE):
                variable = f"v{len(lines) + 1}"
                lines.append(f"const {node.type} {variable} = {expr.text};")
                expr = text.name(variable)
            self.known[name] = expr
        return lines

    def _drop_unused(self, result: str) -> None:
        self.nodes[result].uses += 1
        for node in reversed(self.nodes.values()):
            if not node.uses:
                for operand in node.operands:
                    if operand in self.nodes:
                        self.nodes[operand].uses -= 1


class Lanewise(Base):
    """Operations of one width, written into a helper function.

    Attributes:
        helper: the function.
    """

    def __init__(self, helper: HelperText, element: Element) -> None:
        super().__init__(element)
        self.helper = helper
        if element == "double":
            helper.unit.need_double("math")
        self.int_element = f"i{self.bit_count}"
        self.unsigned = text.UNSIGNED[self.int_element]
        self.signed = text.SIGNED[self.int_element]

    def _float(self, write: Write, *operands: str) -> str:
        return self.helper.node(self.element, write, *operands)

    def _int(self, write: Write, *operands: str) -> str:
        return self.helper.node(self.unsigned, write, *operands)

    def _cond(self, write: Write, *operands: str) -> str:
        return self.helper.node("bool", write, *operands)

    def f(self, value: float) -> str:
        return self.helper.constant(text.float_literal(value, self.element))

    def i(self, value: int) -> str:
        return self.helper.constant(text.unsigned_literal(value, self.int_element))

    # Floats

    def add(self, a: str, b: str) -> str:
        return self._float(_operator("+"), a, b)

    def sub(self, a: str, b: str) -> str:
        return self._float(_operator("-"), a, b)

    def mul(self, a: str, b: str) -> str:
        return self._float(_operator("*"), a, b)

    def div(self, a: str, b: str) -> str:
        return self._float(_operator("/"), a, b)

    def neg(self, a: str) -> str:
        return self._float(lambda x: text.unary("-", x), a)

    def fma(self, a: str, b: str, c: str) -> str:
        return self._float(_function("fma"), a, b, c)

    def abs(self, a: str) -> str:
        return self._float(_function("fabs"), a)

    def copysign(self, magnitude: str, sign: str) -> str:
        return self._float(_function("copysign"), magnitude, sign)

    def round(self, name: str, a: str) -> str:
        return self._float(_function("rint" if name == "roundeven" else name), a)

    def cmp(self, predicate: str, a: str, b: str) -> str:
        ordered, order = predicate.startswith("o"), predicate[1:]
        if predicate == "uno":
            return self._cond(_function("isunordered"), a, b)
        if predicate == "one":
            return self._cond(_function("islessgreater"), a, b)
        if ordered or predicate == "une":
            return self._cond(_operator(_ORDERS[order]), a, b)
        return self._cond(lambda x, y: text.unary("!", text.binary(_OPPOSITES[order], x, y)), a, b)

    def select(self, cond: str, a: str, b: str) -> str:
        return self.helper.choice(self.element, cond, a, b)

    # Integers

    def iadd(self, a: str, b: str) -> str:
        return self._int(_operator("+"), a, b)

    def isub(self, a: str, b: str) -> str:
        return self._int(_operator("-"), a, b)

    def imax(self, a: str, b: str) -> str:
        return self._int(lambda x, y: self._bits(text.call("max", self._sign(x), self._sign(y))), a, b)

    def _sign(self, x: Expr) -> Expr:
        return text.cast(self.signed, x)

    def _bits(self, x: Expr) -> Expr:
        return text.cast(self.unsigned, x)

    def and_(self, a: str, b: str) -> str:
        return self._int(_operator("&"), a, b)

    def or_(self, a: str, b: str) -> str:
        return self._int(_operator("|"), a, b)

    def xor(self, a: str, b: str) -> str:
        return self._int(_operator("^"), a, b)

    def shl(self, a: str, bits: int) -> str:
        return self._int(lambda x: text.binary("<<", x, Expr(str(bits))), a)

    def lshr(self, a: str, bits: int) -> str:
        return self._int(lambda x: text.binary(">>", x, Expr(str(bits))), a)

    def ashr(self, a: str, bits: int) -> str:
        return self._int(lambda x: self._bits(text.binary(">>", self._sign(x), Expr(str(bits)))), a)

    def icmp(self, predicate: str, a: str, b: str) -> str:
        if predicate in ("eq", "ne"):
            return self._cond(_operator(_ORDERS[predicate]), a, b)
        order = _ORDERS[predicate[1:]]
        if predicate.startswith("u"):
            return self._cond(_operator(order), a, b)
        return self._cond(lambda x, y: text.binary(order, self._sign(x), self._sign(y)), a, b)

    def iselect(self, cond: str, a: str, b: str) -> str:
        return self.helper.choice(self.unsigned, cond, a, b)

    # Conditions

    def both(self, a: str, b: str) -> str:
        return self._cond(_operator("&&"), a, b)

    def either(self, a: str, b: str) -> str:
        return self._cond(_operator("||"), a, b)

    def not_(self, a: str) -> str:
        return self._cond(lambda x: text.unary("!", x), a)

    # Between the kinds

    def bits(self, a: str) -> str:
        return self._int(_function(f"as_{self.unsigned}"), a)

    def real(self, a: str) -> str:
        return self._float(_function(f"as_{self.element}"), a)

    def number(self, a: str) -> str:
        return self._float(lambda x: text.cast(self.element, self._sign(x)), a)

    def double(self) -> Self:
        return type(self)(self.helper, "double")

    def widen(self, a: str) -> str:
        return self.helper.node("double", lambda x: text.cast("double", x), a)

    def narrow(self, a: str) -> str:
        return self._float(lambda x: text.cast("float", x), a)

    def replace_large(self, x: str, far: str, usual: Angle) -> Angle:
        """Both ways give the parts in one vector, the integer by its bits, so that a `?:` may skip the slow one."""
        name = f"fb_reduce_{_SUFFIX[self.element]}"
        self.helper.unit.helper("fb_two_over_pi", payne_hanek.table)
        self.helper.unit.helper(name, lambda: payne_hanek.reduction(self.element, name))
        lanes = 2 if self.element == "float" else 4
        type_ = f"{self.element}{lanes}"

        def write(far: Expr, x: Expr, r: Expr, low: Expr, n: Expr) -> Expr:
            bits = text.call(f"as_{self.element}", n)
            parts = [r, bits] if lanes == 2 else [r, low, bits, Expr("0.0")]
            return text.choice(far, text.call(name, x), text.vector_of(type_, parts))

        # Three uses keep it a variable, whose lanes have names.
        parts = self.helper.node(type_, write, far, x, *usual)
        r = self._float(lambda v: text.lane(v, 0), parts)
        low = self._float(lambda v: text.lane(v, 1), parts) if lanes == 4 else usual[1]
        n = self._int(lambda v: text.call(f"as_{self.unsigned}", text.lane(v, lanes // 2)), parts)
        return r, low, n


def _operator(sign: str) -> Write:
    return lambda a, b: text.binary(sign, a, b)


def _function(name: str) -> Write:
    return lambda *operands: text.call(name, *operands)


def expanded(unit: UnitText, function: str, element: Element, parameters: str, expansion: Expansion) -> str:
    """The name of the helper that computes an expansion on f32 or f64; one letter of `parameters` for each operand."""
    name = f"fb_{function}_{_SUFFIX[element]}"

    def write() -> str:
        v = Lanewise(HelperText(unit), element)
        result = expansion(v, *(v.helper.constant(text.name(p)) for p in parameters))
        head = f"static {element} {name}({', '.join(f'{element} {p}' for p in parameters)}) {{"
        return "\n".join([head, *("    " + line for line in v.helper.statements(result)), "}"])

    return unit.helper(name, write)
