"""Element types that a device lacks: refused by name before a program is compiled for it."""

from xdsl.dialects.builtin import ModuleOp

from firebox import dtypes
from firebox.dialects.nd.aval import Aval
from firebox.dialects.nd.base import NdOp
from firebox.dtypes import DType
from firebox.errors import DeviceError
from firebox.lowering.generate.body import location_text
from firebox.runtime.opencl_target import AnyTarget, OpenClTarget, target_label


def missing_types(target: AnyTarget) -> tuple[DType, ...]:
    """Element types that code for a target cannot compute with. Half floats are computed in f32 everywhere."""
    return (dtypes.f64,) if isinstance(target, OpenClTarget) and not target.has("fp64") else ()


def check_types(module: ModuleOp, target: AnyTarget, device: str = "") -> None:
    """Refuse an nd module whose ops have operands or results of a type that the target lacks.

    Args:
        device: its name for the message; by default that of the target.

    Raises:
        DeviceError: names the op, the type, the device and the op's line.
    """
    missing = missing_types(target)
    if not missing:
        return
    for op in module.walk():
        if isinstance(op, NdOp):
            found = next((a for a in (*op.operand_avals, *op.avals) if a.dtype in missing), None)
            if found is not None:
                raise _lacking(op, found, device or target_label(target))


def _lacking(op: NdOp, found: Aval, device: str) -> DeviceError:
    error = DeviceError(
        f"the device does not compute in {found.dtype.name}",
        op=op.name.partition(".")[2],
        expected=f"an element type that {device} has",
        found=found,
        hint='cast it with x.astype(fb.float32), or compute on the CPU with x.to("cpu")',
    )
    error.at(location_text(op))
    return error
