"""What may stand in a module after each phase."""

import pytest
from xdsl.dialects.builtin import ModuleOp

from firebox.dialects.nd.group import GroupOp
from firebox.dialects.nd.transform import yield_values
from firebox.dialects.nd.value import block_of
from firebox.dialects.xdsl_compat import file_location
from firebox.errors import CompilerError
from firebox.lowering.legal import STAGES, check
from firebox.lowering.pipeline import PHASES
from tests.lowering.ir_tools import checkpoint, f64, module, ops

TRANSFORMED = module(lambda x: checkpoint(lambda a: a.exp(), x), f64(3))
COMPOSITE = module(lambda x: x.one("softmax", x, axis=0), f64(3))
PLAIN = module(lambda x: x.exp(), f64(3))
VIEW = module(lambda x: x.reshape((3, 1)), f64(3))


def test_every_phase_of_the_pipeline_has_its_rule() -> None:
    assert tuple(STAGES) == PHASES


@pytest.mark.parametrize("stage", ["expand", "canonicalize", "checkpoint", "decompose", "layout", "fuse"])
def test_transforms_end_with_expand(stage: str) -> None:
    check(TRANSFORMED, "trace")
    with pytest.raises(
        CompilerError, match=rf"nd.checkpoint: may not stand after {stage}\n.*\n  found:    kind region"
    ):
        check(TRANSFORMED, stage)


def test_composites_end_with_decompose() -> None:
    check(COMPOSITE, "checkpoint")
    check(COMPOSITE, "decompose", keep=("nd.softmax",))
    with pytest.raises(CompilerError, match=r"nd.softmax: may not stand after decompose"):
        check(COMPOSITE, "decompose")


def test_values_are_made_before_they_are_used() -> None:
    program = module(lambda x: x.exp().log(), f64(3))
    check(program, "trace")
    (first,), (second,) = ops(program, "exp"), ops(program, "log")
    block = first.parent
    assert block is not None
    block.insert_op_after(block.detach_op(first), second)
    first.location = second.location = file_location("model.py", 9)
    with pytest.raises(CompilerError, match=r"nd.log: uses a value too early after expand\n(?s:.*)model.py:9"):
        check(program, "expand")


def test_after_fuse_there_are_groups_and_views() -> None:
    check(PLAIN, "layout")
    check(VIEW, "fuse")
    ops(PLAIN, "exp")[0].location = file_location("model.py", 9)
    with pytest.raises(
        CompilerError, match=r"nd.exp: may not stand after fuse\n.*nd.group, control flow\n.*\n  at:       model.py:9"
    ):
        check(PLAIN, "fuse")


def grouped(inner: str) -> ModuleOp:
    program = module(lambda x: x.one(inner, x, **({"axis": 0} if inner == "softmax" else {})), f64(3))
    (op,) = ops(program, inner)
    body = block_of([f64(3)])
    copy = op.clone({op.operands[0]: body.args[0]})
    body.add_ops([copy, yield_values(copy.results)])
    params = {"group": "loops", "label": "k", "domain": (3,), "axes": ()}
    group = GroupOp.make(op.operands, [op.results[0].type], body, params)
    block = op.parent
    assert block is not None
    block.insert_op_before(group, op)
    op.results[0].replace_all_uses_with(group.results[0])
    block.erase_op(op)
    program.verify()
    return program


def test_groups_hold_plain_ops() -> None:
    check(grouped("exp"), "fuse")
    with pytest.raises(CompilerError, match=r"nd.softmax: may not stand after fuse"):
        check(grouped("softmax"), "fuse")
    with pytest.raises(CompilerError, match=r"nd.group: may not stand after layout"):
        check(grouped("exp"), "layout")


def test_tensors_end_with_generate() -> None:
    with pytest.raises(CompilerError, match=r"nd.exp: may not stand after generate"):
        check(PLAIN, "generate")


def test_an_unknown_stage_is_refused() -> None:
    with pytest.raises(CompilerError, match=r"no such stage\n  expected: trace, expand"):
        check(PLAIN, "fusion")
