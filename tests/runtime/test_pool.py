"""The thread pool: every unit exactly once, chunk bounds, scratch of its own for each thread, callers at once, fork."""

import ctypes
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from firebox.errors import UserError
from firebox.runtime import pool
from firebox.runtime.code_cache import compile_image
from firebox.runtime.image import LoadedImage, load
from firebox.runtime.target import Target

ROOT = Path(__file__).parents[2]

# Kernels count units in args[unit]. `count` also counts, without atomics, in the first word of its scratch; `bounds`
# marks where chunks begin and end. `repeat` runs many regions from native code; every other one has another count.
TEXT = """
define internal void @units(ptr %args, i64 %begin, i64 %end) nounwind {
entry:
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %i.next, %loop ]
  %p = getelementptr i64, ptr %args, i64 %i
  %old = atomicrmw add ptr %p, i64 1 monotonic
  %i.next = add i64 %i, 1
  %more = icmp slt i64 %i.next, %end
  br i1 %more, label %loop, label %out
out:
  ret void
}
define void @count(ptr %args, ptr %dims, i64 %begin, i64 %end, ptr %scratch, ptr %status) nounwind {
  call void @units(ptr %args, i64 %begin, i64 %end)
  %n = sub i64 %end, %begin
  %old = load volatile i64, ptr %scratch, align 8
  %new = add i64 %old, %n
  store volatile i64 %new, ptr %scratch, align 8
  ret void
}
define void @bounds(ptr %args, ptr %dims, i64 %begin, i64 %end, ptr %scratch, ptr %status) nounwind {
  %p = getelementptr i64, ptr %args, i64 %begin
  store i64 %end, ptr %p, align 8
  ret void
}
define void @repeat(ptr %env, ptr %args, ptr %dims, ptr %outs, ptr %status) nounwind {
entry:
  %parallel.p = getelementptr i64, ptr %env, i64 2
  %parallel = load ptr, ptr %parallel.p, align 8
  %kernel = load ptr, ptr %args, align 8
  %units.p = getelementptr i64, ptr %args, i64 1
  %units = load ptr, ptr %units.p, align 8
  %count = load i64, ptr %dims, align 8
  %grain.p = getelementptr i64, ptr %dims, i64 1
  %grain = load i64, ptr %grain.p, align 8
  %bytes.p = getelementptr i64, ptr %dims, i64 2
  %bytes = load i64, ptr %bytes.p, align 8
  %times.p = getelementptr i64, ptr %dims, i64 3
  %times = load i64, ptr %times.p, align 8
  %odd.p = getelementptr i64, ptr %dims, i64 4
  %odd.count = load i64, ptr %odd.p, align 8
  %scratch = load ptr, ptr %outs, align 8
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i.next, %loop ]
  %odd = trunc i64 %i to i1
  %now = select i1 %odd, i64 %odd.count, i64 %count
  call void %parallel(ptr %env, ptr %kernel, ptr %units, ptr %dims, i64 %now, i64 %grain, ptr %scratch, i64 %bytes,
                      ptr %status)
  %i.next = add i64 %i, 1
  %more = icmp slt i64 %i.next, %times
  br i1 %more, label %loop, label %out
out:
  ret void
}
"""
SCRATCH_BYTES = 256
Counts = np.ndarray[tuple[int, ...], np.dtype[np.int64]]


@pytest.fixture(scope="module")
def code() -> LoadedImage:
    return load(compile_image([TEXT], Target.host()))


@pytest.fixture(autouse=True)
def same_threads_after() -> Iterator[None]:
    threads = pool.get_num_threads()
    yield
    pool.set_num_threads(threads)


def regions(
    code: LoadedImage, kernel: str, count: int, grain: int, times: int, odd_count: int | None = None
) -> tuple[Counts, Counts]:
    """Runs `times` regions; returns the counters by unit, and by thread from scratch."""
    env = pool.environment()
    units = np.zeros(count + 8, np.int64)
    scratch = np.zeros((env.threads + 1, SCRATCH_BYTES // 8), np.int64)
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 5)(code.address("repeat"))
    args = (ctypes.c_int64 * 2)(code.address(kernel), units.ctypes.data)
    dims = (ctypes.c_int64 * 5)(count, grain, SCRATCH_BYTES, times, count if odd_count is None else odd_count)
    outs = (ctypes.c_int64 * 1)(scratch.ctypes.data)
    call(env.address, args, dims, outs, (ctypes.c_int64 * 4)())
    assert not units[count:].any(), "units beyond the count were run"
    assert not scratch[env.threads :].any() and not scratch[:, 1:].any(), "scratch of no thread was written"
    return units[:count], scratch[: env.threads, 0]


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_every_unit_once(code: LoadedImage, threads: int) -> None:
    pool.set_num_threads(threads)
    units, by_thread = regions(code, "count", 37, 5, 20_000)
    assert (units == 20_000).all()
    assert by_thread.sum() == 37 * 20_000, "two threads shared a scratch"


def test_regions_of_other_sizes_follow_each_other(code: LoadedImage) -> None:
    pool.set_num_threads(2)
    units, by_thread = regions(code, "count", 40, 1, 1_000_000, odd_count=2)
    assert (units[:2] == 1_000_000).all() and (units[2:] == 500_000).all()
    assert by_thread.sum() == 42 * 500_000


def test_several_threads_take_part(code: LoadedImage) -> None:
    pool.set_num_threads(2)
    _, by_thread = regions(code, "count", 20_000, 500, 300)
    assert (by_thread > 0).all()
    assert by_thread.sum() == 20_000 * 300


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize(("count", "grain"), [(1, 1), (7, 7), (8, 7), (37, 5), (40, 5), (5, 100), (3, 0)])
def test_chunk_bounds_do_not_depend_on_threads(code: LoadedImage, threads: int, count: int, grain: int) -> None:
    pool.set_num_threads(threads)
    ends, _ = regions(code, "bounds", count, grain, 1)
    step = max(grain, 1)
    expected = np.zeros(count, np.int64)
    expected[::step] = np.minimum(np.arange(0, count, step) + step, count)
    np.testing.assert_array_equal(ends, expected)


def test_nothing_to_do(code: LoadedImage) -> None:
    units, by_thread = regions(code, "count", 0, 4, 3)
    assert units.size == 0 and not by_thread.any()


def test_callers_at_once(code: LoadedImage) -> None:
    pool.set_num_threads(2)
    results: list[tuple[Counts, Counts]] = []
    workers = [threading.Thread(target=lambda: results.append(regions(code, "count", 37, 5, 5_000))) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert len(results) == 3
    for units, by_thread in results:
        assert (units == 5_000).all() and by_thread.sum() == 37 * 5_000


def test_sleeping_workers_wake(code: LoadedImage) -> None:
    pool.set_num_threads(2)
    pool.set_spin(1)
    try:
        for _ in range(20):
            units, by_thread = regions(code, "count", 4_000, 10, 5)
            assert (units == 5).all() and by_thread.sum() == 20_000
    finally:
        pool.set_spin(0)


def test_fewer_threads_leave_the_others_out(code: LoadedImage) -> None:
    pool.set_num_threads(4)
    regions(code, "count", 400, 5, 100)
    pool.set_num_threads(2)
    _, by_thread = regions(code, "count", 400, 5, 2_000)  # checks that only two scratches are written
    assert by_thread.sum() == 400 * 2_000


def test_an_environment_never_changes() -> None:
    pool.set_num_threads(3)
    three = pool.environment()
    pool.set_num_threads(1)
    assert (three.threads, pool.environment().threads) == (3, 1)
    slots = (ctypes.c_int64 * 16).from_address(three.address)
    assert (slots[0], slots[1]) == (1, 3)
    assert all(slots[i] for i in range(2, 8)) and not any(slots[i] for i in range(8, 16))
    pool.set_num_threads(3)
    assert pool.environment() is three


@pytest.mark.parametrize("threads", [0, -1, 257, 1.5, True])
def test_bad_thread_counts_are_refused(threads: int) -> None:
    with pytest.raises(UserError, match="threads"):
        pool.set_num_threads(threads)


def test_image_is_the_same_for_every_target_of_an_architecture() -> None:
    assert pool.pool_image(Target.parse("x86-64-v3")) == pool.pool_image(Target.parse("x86-64"))
    assert set(pool.pool_image(Target.parse("aarch64")).symbols) == {"fb_parallel", "fb_pool_start"}


def run_script(text: str, cache: Path) -> str:
    environment = {**os.environ, "FIREBOX_CACHE_DIR": str(cache), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", text], env=environment, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


FORK = """
import os, threading
from firebox.runtime import pool
from firebox.runtime.code_cache import compile_image
from firebox.runtime.image import load
from firebox.runtime.target import Target
from tests.runtime.test_pool import TEXT, regions
pool.set_num_threads(2)
code = load(compile_image([TEXT], Target.host()))
def check():
    units, by_thread = regions(code, "count", 20000, 500, 300)
    assert (units == 300).all() and (by_thread > 0).all(), by_thread
check()
busy = threading.Thread(target=check)  # at the fork another thread may hold the pool
busy.start()
child = os.fork()
if child == 0:
    check()
    grandchild = os.fork()
    if grandchild == 0:
        check()
        os._exit(0)
    os._exit(os.waitpid(grandchild, 0)[1] != 0)
busy.join()
check()
print(os.waitpid(child, 0)[1])
"""


def test_forked_children_have_threads_of_their_own(cache_dir: Path) -> None:
    assert run_script(FORK, cache_dir) == "0\n"


def test_pool_from_an_artifact_needs_no_llvm(tmp_path: Path) -> None:
    (tmp_path / "pool").write_bytes(pool.pool_image(Target.host()).to_bytes())
    script = f"""
import sys
sys.modules["llvmlite"] = sys.modules["xdsl"] = None  # importing them fails
from pathlib import Path
from firebox.runtime import pool
from firebox.runtime.image import CodeImage
pool.install(CodeImage.from_bytes(Path({str(tmp_path / "pool")!r}).read_bytes()))
print(pool.environment().threads)
"""
    assert run_script(script, tmp_path / "nothing") == f"{pool.get_num_threads()}\n"
    assert not (tmp_path / "nothing").exists()


def test_another_image_is_no_pool(cache_dir: Path) -> None:
    script = """
from firebox.errors import ArtifactError
from firebox.runtime import pool
from firebox.runtime.image import CodeImage
from firebox.runtime.target import Target
try:
    pool.install(CodeImage(b"", {}, Target.host().arch))
except ArtifactError as error:
    print(error.message)
"""
    assert run_script(script, cache_dir) == "not a thread pool\n"
