target triple = "x86_64-unknown-linux-gnu"

@fb.nowhere = internal constant [2 x i64] zeroinitializer, align 16
define internal i1 @fb.fail(ptr %status, i64 %kernel, i32 %code, i64 %call) nounwind noinline {
entry:
  %code.wide = sext i32 %code to i64
  %s1 = getelementptr i64, ptr %status, i64 1
  %s2 = getelementptr i64, ptr %status, i64 2
  %s3 = getelementptr i64, ptr %status, i64 3
  store i64 4, ptr %status, align 8
  store i64 %kernel, ptr %s1, align 8
  store i64 %code.wide, ptr %s2, align 8
  store i64 %call, ptr %s3, align 8
  ret i1 true
}

define internal i1 @fb.launch(ptr %env, ptr %status, i64 %number, ptr %table, i32 %count, i64 %groups, i64 %size) nounwind noinline {
entry:
  %global = alloca i64, align 8
  %local = alloca i64, align 8
  %some = icmp sgt i64 %groups, 0
  br i1 %some, label %begin, label %good
begin:
  %kernels.p = getelementptr i64, ptr %env, i64 3
  %kernels = load ptr, ptr %kernels.p, align 8
  %kernel.p = getelementptr i64, ptr %kernels, i64 %number
  %kernel = load i64, ptr %kernel.p, align 8
  %set.p = getelementptr i64, ptr %env, i64 4
  %set = load ptr, ptr %set.p, align 8
  %any = icmp sgt i32 %count, 0
  br i1 %any, label %argument, label %start
argument:
  %i = phi i32 [ 0, %begin ], [ %next, %more ]
  %wide = zext i32 %i to i64
  %value.p = getelementptr ptr, ptr %table, i64 %wide
  %value = load ptr, ptr %value.p, align 8
  %refused = call i32 %set(i64 %kernel, i32 %i, i64 8, ptr %value)
  %bad = icmp ne i32 %refused, 0
  br i1 %bad, label %fail, label %more
more:
  %next = add i32 %i, 1
  %again = icmp slt i32 %next, %count
  br i1 %again, label %argument, label %start
start:
  %queue.p = getelementptr i64, ptr %env, i64 2
  %queue = load i64, ptr %queue.p, align 8
  %enqueue.p = getelementptr i64, ptr %env, i64 5
  %enqueue = load ptr, ptr %enqueue.p, align 8
  %total = mul i64 %groups, %size
  store i64 %total, ptr %global, align 8
  store i64 %size, ptr %local, align 8
  %failed = call i32 %enqueue(i64 %queue, i64 %kernel, i32 1, ptr null, ptr %global, ptr %local, i32 0, ptr null, ptr null)
  %lost = icmp ne i32 %failed, 0
  br i1 %lost, label %fail, label %good
fail:
  %code = phi i32 [ %refused, %argument ], [ %failed, %start ]
  %call = phi i64 [ 0, %argument ], [ 1, %start ]
  %told = call i1 @fb.fail(ptr %status, i64 %number, i32 %code, i64 %call)
  ret i1 %told
good:
  ret i1 false
}

define void @main(ptr %env, ptr %args, ptr %dims, ptr %outs, ptr %status) nounwind {
entry:
  %table = alloca [4 x ptr], align 16
  %own = alloca [1 x [2 x i64]], align 16
  %v1 = getelementptr inbounds i64, ptr %outs, i64 1
  %v2 = load ptr, ptr %v1, align 8
  %v3 = icmp eq ptr %v2, null
  %v4 = select i1 %v3, ptr @fb.nowhere, ptr %v2
  %v5 = load ptr, ptr %args, align 8
  %v6 = load ptr, ptr %outs, align 8
  %v7 = getelementptr inbounds i64, ptr %v5, i64 1
  %v8 = getelementptr inbounds i64, ptr %v6, i64 1
  store ptr %v5, ptr %table, align 8
  %v9 = getelementptr inbounds ptr, ptr %table, i64 1
  store ptr %v7, ptr %v9, align 8
  %v10 = getelementptr inbounds ptr, ptr %table, i64 2
  store ptr %v6, ptr %v10, align 8
  %v11 = getelementptr inbounds ptr, ptr %table, i64 3
  store ptr %v8, ptr %v11, align 8
  %v12 = call i1 @fb.launch(ptr %env, ptr %status, i64 0, ptr %table, i32 4, i64 150, i64 32)
  br i1 %v12, label %stop1, label %go2
stop1:
  ret void
go2:
  ret void
}
