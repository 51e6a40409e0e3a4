"""The thread pool as LLVM IR text: what runs in native code, and where its state lies in memory.

One 64-bit *ticket* word holds generation << 32 | next chunk. A thread takes a chunk by compare-and-swap on the whole
word, so one that wakes late holds a stale generation and fails: the caller never waits for a sleeping thread, and does
every chunk itself when nobody comes. Kernels are not called after the region that named them has returned.

All state lies in a block that the runtime allocates, zeroed, POOL_STATE_BYTES long, at a page boundary; zeroes are a
valid initial state. Threads start in the first region that wants them. Nothing here refers to an external symbol.
"""

from string import Template

from firebox.runtime.target import Target

MAX_THREADS = 256
SPIN_OFFSET = 656  # i64: pauses a worker makes before it sleeps; 0 means DEFAULT_SPIN
DEFAULT_SPIN = 20_000
_RECORDS = 1024  # MAX_THREADS records {state, thread number}, the workers' arguments
POOL_STATE_BYTES = _RECORDS + 16 * MAX_THREADS

# Offsets in the state. Words that different threads write stand 128 bytes apart: cache lines are fetched in pairs.
_OFFSETS = {
    "TICKET": 0, "DONE": 128, "SLEEPERS": 256, "SEQUENCE": 384,
    "KERNEL": 512, "ARGS": 520, "DIMS": 528, "COUNT": 536, "GRAIN": 544, "SCRATCH": 552, "SCRATCH_BYTES": 560,
    "STATUS": 568, "CHUNKS": 576, "LIMIT": 584,
    "LOCK": 640, "STARTED": 648, "SPIN": SPIN_OFFSET, "SYSCALL": 664, "RECORDS": _RECORDS,
}  # fmt: skip
_PAUSE = {
    "x86_64": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    "aarch64": ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"),
}
_SYSCALLS = {"x86_64": {"FUTEX": 202, "YIELD": 24}, "aarch64": {"FUTEX": 98, "YIELD": 124}}

_TEXT = Template(r"""
declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.smin.i64(i64, i64)
$DECLARE_PAUSE

; Take chunks until there are none. The region's fields are read before the ticket is taken: the swap fails when a newer
; region has replaced them meanwhile.
define internal void @pool_work(ptr %pool, i64 %thread) noinline nounwind {
entry:
  %ticket.p = getelementptr i8, ptr %pool, i64 $TICKET
  %done.p = getelementptr i8, ptr %pool, i64 $DONE
  %kernel.p = getelementptr i8, ptr %pool, i64 $KERNEL
  %args.p = getelementptr i8, ptr %pool, i64 $ARGS
  %dims.p = getelementptr i8, ptr %pool, i64 $DIMS
  %count.p = getelementptr i8, ptr %pool, i64 $COUNT
  %grain.p = getelementptr i8, ptr %pool, i64 $GRAIN
  %scratch.p = getelementptr i8, ptr %pool, i64 $SCRATCH
  %bytes.p = getelementptr i8, ptr %pool, i64 $SCRATCH_BYTES
  %status.p = getelementptr i8, ptr %pool, i64 $STATUS
  %chunks.p = getelementptr i8, ptr %pool, i64 $CHUNKS
  %limit.p = getelementptr i8, ptr %pool, i64 $LIMIT
  br label %look
look:
  %ticket = load atomic i64, ptr %ticket.p acquire, align 8
  %kernel = load atomic ptr, ptr %kernel.p monotonic, align 8
  %args = load atomic ptr, ptr %args.p monotonic, align 8
  %dims = load atomic ptr, ptr %dims.p monotonic, align 8
  %count = load atomic i64, ptr %count.p monotonic, align 8
  %grain = load atomic i64, ptr %grain.p monotonic, align 8
  %scratch = load atomic ptr, ptr %scratch.p monotonic, align 8
  %bytes = load atomic i64, ptr %bytes.p monotonic, align 8
  %status = load atomic ptr, ptr %status.p monotonic, align 8
  %chunks = load atomic i64, ptr %chunks.p monotonic, align 8
  %limit = load atomic i64, ptr %limit.p monotonic, align 8
  %chunk = and i64 %ticket, 4294967295
  %left = icmp ult i64 %chunk, %chunks
  %invited = icmp ult i64 %thread, %limit
  %wanted = and i1 %left, %invited
  br i1 %wanted, label %take, label %out
take:
  %next = add i64 %ticket, 1
  %swap = cmpxchg ptr %ticket.p, i64 %ticket, i64 %next acq_rel monotonic
  %taken = extractvalue { i64, i1 } %swap, 1
  br i1 %taken, label %run, label %look
run:
  %begin = mul i64 %chunk, %grain
  %full = add i64 %begin, %grain
  %end = call i64 @llvm.smin.i64(i64 %full, i64 %count)
  %skip = mul i64 %thread, %bytes
  %own = getelementptr i8, ptr %scratch, i64 %skip
  call void %kernel(ptr %args, ptr %dims, i64 %begin, i64 %end, ptr %own, ptr %status)
  %before = atomicrmw add ptr %done.p, i64 1 release
  br label %look
out:
  ret void
}

; A worker's life: spin on the sequence word, help, spin again, sleep.
define internal ptr @pool_worker(ptr %record) nounwind {
entry:
  %pool = load ptr, ptr %record, align 8
  %thread.p = getelementptr i8, ptr %record, i64 8
  %thread = load i64, ptr %thread.p, align 8
  %sequence.p = getelementptr i8, ptr %pool, i64 $SEQUENCE
  %sleepers.p = getelementptr i8, ptr %pool, i64 $SLEEPERS
  %spin.p = getelementptr i8, ptr %pool, i64 $SPIN
  %syscall.p = getelementptr i8, ptr %pool, i64 $SYSCALL
  %syscall = load ptr, ptr %syscall.p, align 8
  br label %wait
wait:
  %last = phi i32 [ 0, %entry ], [ %last, %sleep ], [ %sequence, %work ]
  %set = load atomic i64, ptr %spin.p monotonic, align 8
  %unset = icmp eq i64 %set, 0
  %spins = select i1 %unset, i64 $DEFAULT_SPIN, i64 %set
  br label %look
look:
  %spun = phi i64 [ 0, %wait ], [ %spun.next, %pause ]
  %sequence = load atomic i32, ptr %sequence.p acquire, align 4
  %same = icmp eq i32 %sequence, %last
  br i1 %same, label %pause, label %work
pause:
  $PAUSE
  %spun.next = add i64 %spun, 1
  %again = icmp slt i64 %spun.next, %spins
  br i1 %again, label %look, label %sleep
sleep:
  %in = atomicrmw add ptr %sleepers.p, i32 1 seq_cst
  %slept = call i64 (i64, ...) %syscall(i64 $FUTEX, ptr %sequence.p, i32 128, i32 %last, ptr null, ptr null, i32 0)
  %left = atomicrmw sub ptr %sleepers.p, i32 1 seq_cst
  br label %wait
work:
  call void @pool_work(ptr %pool, i64 %thread)
  br label %wait
}

; Create the threads up to %threads that do not exist yet. The lock is held. A failure is not tried again.
define internal void @pool_grow(ptr %env, ptr %pool, i64 %threads) noinline nounwind {
entry:
  %id = alloca i64, align 8
  %create.p = getelementptr i8, ptr %env, i64 32
  %create = load ptr, ptr %create.p, align 8
  %syscall.from = getelementptr i8, ptr %env, i64 40
  %syscall = load ptr, ptr %syscall.from, align 8
  %syscall.to = getelementptr i8, ptr %pool, i64 $SYSCALL
  store ptr %syscall, ptr %syscall.to, align 8
  %started.p = getelementptr i8, ptr %pool, i64 $STARTED
  %started = load i64, ptr %started.p, align 8
  %first = call i64 @llvm.smax.i64(i64 %started, i64 1)
  %capped = call i64 @llvm.smin.i64(i64 %threads, i64 $MAX_THREADS)
  %records = getelementptr i8, ptr %pool, i64 $RECORDS
  br label %check
check:
  %thread = phi i64 [ %first, %entry ], [ %thread.next, %create.one ]
  %more = icmp slt i64 %thread, %capped
  br i1 %more, label %create.one, label %out
create.one:
  %skip = mul i64 %thread, 16
  %record = getelementptr i8, ptr %records, i64 %skip
  store ptr %pool, ptr %record, align 8
  %number.p = getelementptr i8, ptr %record, i64 8
  store i64 %thread, ptr %number.p, align 8
  %error = call i32 %create(ptr %id, ptr null, ptr @pool_worker, ptr %record)
  %thread.next = add i64 %thread, 1
  %fine = icmp eq i32 %error, 0
  br i1 %fine, label %check, label %out
out:
  store i64 %threads, ptr %started.p, align 8
  ret void
}

define void @fb_pool_start(ptr %env, i64 %threads) nounwind {
entry:
  %pool.p = getelementptr i8, ptr %env, i64 24
  %pool = load ptr, ptr %pool.p, align 8
  %lock.p = getelementptr i8, ptr %pool, i64 $LOCK
  %started.p = getelementptr i8, ptr %pool, i64 $STARTED
  br label %try
try:
  %swap = cmpxchg ptr %lock.p, i32 0, i32 1 acquire monotonic
  %held = extractvalue { i32, i1 } %swap, 1
  br i1 %held, label %locked, label %pause
pause:
  $PAUSE
  br label %try
locked:
  %started = load i64, ptr %started.p, align 8
  %short = icmp slt i64 %started, %threads
  br i1 %short, label %grow, label %out
grow:
  call void @pool_grow(ptr %env, ptr %pool, i64 %threads)
  br label %out
out:
  store atomic i32 0, ptr %lock.p release, align 4
  ret void
}

define void @fb_parallel(ptr %env, ptr %kernel, ptr %args, ptr %dims, i64 %count, i64 %grain.asked, ptr %scratch,
                         i64 %bytes, ptr %status) nounwind {
entry:
  %some = icmp sgt i64 %count, 0
  br i1 %some, label %sized, label %out
sized:
  %grain = call i64 @llvm.smax.i64(i64 %grain.asked, i64 1)
  %one = icmp sle i64 %count, %grain
  br i1 %one, label %single, label %several
single:
  call void %kernel(ptr %args, ptr %dims, i64 0, i64 %count, ptr %scratch, ptr %status)
  ret void
several:
  %threads.p = getelementptr i8, ptr %env, i64 8
  %threads = load i64, ptr %threads.p, align 8
  %pool.p = getelementptr i8, ptr %env, i64 24
  %pool = load ptr, ptr %pool.p, align 8
  %last = sub i64 %count, 1
  %full = udiv i64 %last, %grain
  %chunks = add i64 %full, 1
  %team = icmp sgt i64 %threads, 1
  %fits = icmp ult i64 %chunks, 4294967295
  %shared = and i1 %team, %fits
  br i1 %shared, label %try, label %inline
try:
  %lock.p = getelementptr i8, ptr %pool, i64 $LOCK
  %swap = cmpxchg ptr %lock.p, i32 0, i32 1 acquire monotonic
  %held = extractvalue { i32, i1 } %swap, 1
  br i1 %held, label %locked, label %inline
locked:
  %started.p = getelementptr i8, ptr %pool, i64 $STARTED
  %started = load i64, ptr %started.p, align 8
  %short = icmp slt i64 %started, %threads
  br i1 %short, label %grow, label %close
grow:
  call void @pool_grow(ptr %env, ptr %pool, i64 %threads)
  br label %close
close:
  ; Close the old generation (chunk = all ones), so that nobody can take a chunk while the fields change.
  %ticket.p = getelementptr i8, ptr %pool, i64 $TICKET
  %old = load atomic i64, ptr %ticket.p monotonic, align 8
  %generation = lshr i64 %old, 32
  %generation.closed = add i64 %generation, 1
  %closed.high = shl i64 %generation.closed, 32
  %closed = or i64 %closed.high, 4294967295
  store atomic i64 %closed, ptr %ticket.p monotonic, align 8
  fence release
  %kernel.p = getelementptr i8, ptr %pool, i64 $KERNEL
  store atomic ptr %kernel, ptr %kernel.p monotonic, align 8
  %args.p = getelementptr i8, ptr %pool, i64 $ARGS
  store atomic ptr %args, ptr %args.p monotonic, align 8
  %dims.p = getelementptr i8, ptr %pool, i64 $DIMS
  store atomic ptr %dims, ptr %dims.p monotonic, align 8
  %count.p = getelementptr i8, ptr %pool, i64 $COUNT
  store atomic i64 %count, ptr %count.p monotonic, align 8
  %grain.p = getelementptr i8, ptr %pool, i64 $GRAIN
  store atomic i64 %grain, ptr %grain.p monotonic, align 8
  %scratch.p = getelementptr i8, ptr %pool, i64 $SCRATCH
  store atomic ptr %scratch, ptr %scratch.p monotonic, align 8
  %bytes.p = getelementptr i8, ptr %pool, i64 $SCRATCH_BYTES
  store atomic i64 %bytes, ptr %bytes.p monotonic, align 8
  %status.p = getelementptr i8, ptr %pool, i64 $STATUS
  store atomic ptr %status, ptr %status.p monotonic, align 8
  %chunks.p = getelementptr i8, ptr %pool, i64 $CHUNKS
  store atomic i64 %chunks, ptr %chunks.p monotonic, align 8
  %limit.p = getelementptr i8, ptr %pool, i64 $LIMIT
  store atomic i64 %threads, ptr %limit.p monotonic, align 8
  %done.p = getelementptr i8, ptr %pool, i64 $DONE
  store atomic i64 0, ptr %done.p monotonic, align 8
  %generation.open = add i64 %generation.closed, 1
  %open = shl i64 %generation.open, 32
  store atomic i64 %open, ptr %ticket.p release, align 8
  %sequence.p = getelementptr i8, ptr %pool, i64 $SEQUENCE
  %sequence = atomicrmw add ptr %sequence.p, i32 1 seq_cst
  %sleepers.p = getelementptr i8, ptr %pool, i64 $SLEEPERS
  %sleepers = load atomic i32, ptr %sleepers.p seq_cst, align 4
  %asleep = icmp ne i32 %sleepers, 0
  %syscall.p = getelementptr i8, ptr %pool, i64 $SYSCALL
  %syscall = load ptr, ptr %syscall.p, align 8
  br i1 %asleep, label %wake, label %work
wake:
  %woken = call i64 (i64, ...) %syscall(i64 $FUTEX, ptr %sequence.p, i32 129, i32 2147483647, ptr null, ptr null, i32 0)
  br label %work
work:
  call void @pool_work(ptr %pool, i64 0)
  br label %join
join:
  %spun = phi i64 [ 0, %work ], [ %spun.next, %pause ], [ 0, %yield ]
  %finished = load atomic i64, ptr %done.p acquire, align 8
  %all = icmp eq i64 %finished, %chunks
  br i1 %all, label %unlock, label %wait
wait:
  ; Another thread is inside its last chunk. When it has lost its CPU, give it ours.
  %patient = icmp slt i64 %spun, 2000
  br i1 %patient, label %pause, label %yield
pause:
  $PAUSE
  %spun.next = add i64 %spun, 1
  br label %join
yield:
  %yielded = call i64 (i64, ...) %syscall(i64 $YIELD)
  br label %join
unlock:
  store atomic i32 0, ptr %lock.p release, align 4
  br label %out
inline:
  ; One thread, or the pool is busy with another caller: the same chunks in order, with the caller's own scratch.
  %begin = phi i64 [ 0, %several ], [ 0, %try ], [ %end, %inline ]
  %step = add i64 %begin, %grain
  %end = call i64 @llvm.smin.i64(i64 %step, i64 %count)
  call void %kernel(ptr %args, ptr %dims, i64 %begin, i64 %end, ptr %scratch, ptr %status)
  %more = icmp slt i64 %end, %count
  br i1 %more, label %inline, label %out
out:
  ret void
}
""")


def pool_ir(target: Target) -> str:
    """The pool's module for the target's architecture; it defines ``fb_parallel`` and ``fb_pool_start``."""
    declare, pause = _PAUSE[target.arch]
    constants: dict[str, object] = {**_OFFSETS, **_SYSCALLS[target.arch]}
    constants |= {"MAX_THREADS": MAX_THREADS, "DEFAULT_SPIN": DEFAULT_SPIN, "DECLARE_PAUSE": declare, "PAUSE": pause}
    return _TEXT.substitute(constants)
