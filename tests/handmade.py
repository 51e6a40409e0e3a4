"""Small programs written by hand as LLVM IR, for tests of the runtime that must not depend on the compiler."""

from firebox.dims import dim, product
from firebox.dtypes import f32, i64
from firebox.runtime.code_cache import compile_image
from firebox.runtime.image import CodeImage
from firebox.runtime.program import KernelInfo, Program
from firebox.runtime.target import Target
from firebox.signature import TensorSpec

# y[i] = x[i] + w[i % 8] over n = b * 8 elements, through the workspace.
_ADD = """
define void @main(ptr %env, ptr %args, ptr %dims, ptr %outs, ptr %status) {
entry:
  %b = load i64, ptr %dims
  %n = mul i64 %b, 8
  %x = load ptr, ptr %args
  %w.p = getelementptr i64, ptr %args, i64 1
  %w = load ptr, ptr %w.p
  %y = load ptr, ptr %outs
  %arena.p = getelementptr i64, ptr %outs, i64 1
  %arena = load ptr, ptr %arena.p
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %loop, label %done
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %x.p = getelementptr float, ptr %x, i64 %i
  %j = and i64 %i, 7
  %v.p = getelementptr float, ptr %w, i64 %j
  %t.p = getelementptr float, ptr %arena, i64 %i
  %y.p = getelementptr float, ptr %y, i64 %i
  %p = load float, ptr %x.p
  %q = load float, ptr %v.p
  %r = fadd float %p, %q
  store volatile float %r, ptr %t.p
  %s = load volatile float, ptr %t.p
  store float %s, ptr %y.p
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""

# y = table[index]; an index outside [-4, 4) is a fault of op 1.
_LOOK_UP = """
define void @main(ptr %env, ptr %args, ptr %dims, ptr %outs, ptr %status) {
entry:
  %table = load ptr, ptr %args
  %index.p = getelementptr i64, ptr %args, i64 1
  %index.q = load ptr, ptr %index.p
  %index = load i64, ptr %index.q
  %y = load ptr, ptr %outs
  %negative = icmp slt i64 %index, 0
  %wrapped = add i64 %index, 4
  %i = select i1 %negative, i64 %wrapped, i64 %index
  %bad = icmp uge i64 %i, 4
  br i1 %bad, label %fail, label %good
good:
  %p = getelementptr float, ptr %table, i64 %i
  %v = load float, ptr %p
  store float %v, ptr %y
  ret void
fail:
  store i64 CODE, ptr %status
  %s1 = getelementptr i64, ptr %status, i64 1
  store i64 1, ptr %s1
  %s2 = getelementptr i64, ptr %status, i64 2
  store i64 %index, ptr %s2
  %s3 = getelementptr i64, ptr %status, i64 3
  store i64 4, ptr %s3
  ret void
}
"""

_NOTHING = """
define void @main(ptr %env, ptr %args, ptr %dims, ptr %outs, ptr %status) {
  ret void
}
"""

B = dim("b")

ADD = Program(
    name="add",
    inputs=(TensorSpec("x", f32, (B, 8)), TensorSpec("w", f32, (8,))),
    outputs=(TensorSpec("y", f32, (B, 8)),),
    dims=("b",),
    arena=product([B, 32, dim("threads")]),
    aliases=((0, 0),),
    kernels=(KernelInfo("main", "loops", ("nd.add",), "model.py:3"),),
    locations=("model.py:3",),
)

LOOK_UP = Program(
    name="look_up",
    inputs=(TensorSpec("table", f32, (4,)), TensorSpec("index", i64)),
    outputs=(TensorSpec("y", f32),),
    locations=("model.py:1", "model.py:7"),
)

FOUR_INPUTS = Program(
    name="four",
    inputs=tuple(TensorSpec(f"x{i}", f32, (8,)) for i in range(4)),
    outputs=(TensorSpec("y", f32, (8,)),),
    arena=64,
)


def image(text: str, target: Target | None = None) -> CodeImage:
    return compile_image([text], target or Target.host())


def add_image(target: Target | None = None) -> CodeImage:
    return image(_ADD, target)


def look_up_image(code: int = 1) -> CodeImage:
    """Reports faults as `code`."""
    return image(_LOOK_UP.replace("CODE", str(code)))


def empty_image() -> CodeImage:
    return image(_NOTHING)
