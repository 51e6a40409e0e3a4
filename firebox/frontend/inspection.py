"""Looking at traced functions: as nd IR, or after any phase of the compiler."""

from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp

from firebox import dims
from firebox.dims import Dim
from firebox.errors import UserError
from firebox.frontend import irtext
from firebox.frontend.build import build
from firebox.frontend.jit_trace import TracedFunction
from firebox.lowering.options import Options
from firebox.lowering.pipeline import lower, run_to
from firebox.runtime.device import Device
from firebox.signature import TensorSpec, parse_inputs


def dim(name: str) -> Dim:
    """A size that is known only when a program runs, by name: ``fb.dim("b")``.

    Raises:
        UserError: not a name, or one that the compiler uses for loops.
    """
    if dims.is_reserved(name):
        raise UserError("a name that the compiler uses itself", op="dim", found=name, hint=f"call it {name}_")
    return dims.dim(name)


def spec(text: str, name: str = "x") -> TensorSpec:
    """The description of a tensor, such as ``f32[b, 8]``; stands for an argument where a function is only traced.

    Raises:
        UserError: malformed text.
    """
    (found,) = parse_inputs(f"{name}: {text}").inputs
    for symbol in dims.names(*found.shape):
        dim(symbol)
    return found


class Lowered:
    """A traced function. Its text shows the compiler's view of it."""

    def __init__(
        self, traced: TracedFunction, device: Device, names: Sequence[str] = (), options: Options | None = None
    ) -> None:
        self.traced = traced
        self.device = device
        self.names = names
        self.options = options or Options()

    def module(self) -> ModuleOp:
        """The nd module, made anew."""
        return build(self.traced.plan, (), self.names)

    def mlir(self, phase: str = "trace") -> str:
        """The IR as text after a phase of the compiler; at first the nd dialect as traced.

        Raises:
            UserError: no such phase.
        """
        return irtext.print_module(run_to(self.module(), self.device.target, phase, self.options))

    def llvm(self) -> str:
        """The LLVM IR text of the whole program; for an OpenCL device that of the host's part."""
        return lower(self.module(), self.device.target, self.options).text

    def opencl(self) -> str:
        """The OpenCL C text of the kernels, as arguments on an OpenCL device ask for them.

        Raises:
            UserError: the program is for another kind of device.
        """
        if self.device.target.kind != "opencl":
            raise UserError("no OpenCL program", op="lower", expected="an OpenCL device", found=self.device.name)
        return lower(self.module(), self.device.target, self.options).source

    def __repr__(self) -> str:
        return f"Lowered({len(self.traced.plan.nodes)} ops)"
