target triple = "x86_64-unknown-linux-gnu"

define void @loops_0(ptr %args, ptr %dims, i64 %begin, i64 %end, ptr %scratch, ptr %status) nounwind {
entry:
  %v1 = load ptr, ptr %args, align 8
  %v2 = getelementptr inbounds i64, ptr %args, i64 1
  %v3 = load ptr, ptr %v2, align 8
  %v4 = getelementptr inbounds i64, ptr %args, i64 2
  %v5 = load ptr, ptr %v4, align 8
  %v6 = getelementptr inbounds i64, ptr %args, i64 3
  %v7 = load ptr, ptr %v6, align 8
  %v8 = load <16 x float>, ptr %v3, align 4
  %v9 = icmp slt i64 %begin, %end  ; input.mlir:7
  br i1 %v9, label %loop1, label %done2
loop1:
  %v10 = phi i64 [ %begin, %entry ], [ %v108, %loop1 ]
  %v11 = mul nsw i64 %v10, 16
  %v12 = getelementptr inbounds float, ptr %v1, i64 %v11
  %v13 = load <16 x float>, ptr %v12, align 4
  %v14 = fmul <16 x float> %v13, %v8
  %v15 = fcmp ogt <16 x float> splat (float 0xFFF0000000000000), %v14  ; input.mlir:8
  %v16 = select <16 x i1> %v15, <16 x float> splat (float 0xFFF0000000000000), <16 x float> %v14
  %v17 = fcmp uno <16 x float> splat (float 0xFFF0000000000000), splat (float 0xFFF0000000000000)
  %v18 = select <16 x i1> %v17, <16 x float> splat (float 0xFFF0000000000000), <16 x float> %v16
  %v19 = shufflevector <16 x float> %v18, <16 x float> %v18, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v20 = shufflevector <16 x float> %v18, <16 x float> %v18, <8 x i32> <i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %v21 = fcmp ogt <8 x float> %v19, %v20
  %v22 = select <8 x i1> %v21, <8 x float> %v19, <8 x float> %v20
  %v23 = fcmp uno <8 x float> %v19, %v19
  %v24 = select <8 x i1> %v23, <8 x float> %v19, <8 x float> %v22
  %v25 = shufflevector <8 x float> %v24, <8 x float> %v24, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v26 = shufflevector <8 x float> %v24, <8 x float> %v24, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %v27 = fcmp ogt <4 x float> %v25, %v26
  %v28 = select <4 x i1> %v27, <4 x float> %v25, <4 x float> %v26
  %v29 = fcmp uno <4 x float> %v25, %v25
  %v30 = select <4 x i1> %v29, <4 x float> %v25, <4 x float> %v28
  %v31 = shufflevector <4 x float> %v30, <4 x float> %v30, <2 x i32> <i32 0, i32 1>
  %v32 = shufflevector <4 x float> %v30, <4 x float> %v30, <2 x i32> <i32 2, i32 3>
  %v33 = fcmp ogt <2 x float> %v31, %v32
  %v34 = select <2 x i1> %v33, <2 x float> %v31, <2 x float> %v32
  %v35 = fcmp uno <2 x float> %v31, %v31
  %v36 = select <2 x i1> %v35, <2 x float> %v31, <2 x float> %v34
  %v37 = extractelement <2 x float> %v36, i64 0
  %v38 = extractelement <2 x float> %v36, i64 1
  %v39 = fcmp ogt float %v37, %v38
  %v40 = select i1 %v39, float %v37, float %v38
  %v41 = fcmp uno float %v37, %v37
  %v42 = select i1 %v41, float %v37, float %v40
  %v43 = insertelement <16 x float> poison, float %v42, i64 0
  %v44 = shufflevector <16 x float> %v43, <16 x float> poison, <16 x i32> zeroinitializer
  %v45 = fsub <16 x float> %v14, %v44
  %v46 = fcmp ogt <16 x float> splat (float 0xC05A000000000000), %v45
  %v47 = select <16 x i1> %v46, <16 x float> splat (float 0xC05A000000000000), <16 x float> %v45
  %v48 = fcmp olt <16 x float> splat (float 0x4056400000000000), %v47
  %v49 = select <16 x i1> %v48, <16 x float> splat (float 0x4056400000000000), <16 x float> %v47
  %v50 = call <16 x float> @llvm.fma.v16f32(<16 x float> %v49, <16 x float> splat (float 0x3FF7154760000000), <16 x float> splat (float 0x4168000000000000))
  %v51 = fsub <16 x float> %v50, splat (float 0x4168000000000000)
  %v52 = bitcast <16 x float> %v50 to <16 x i32>
  %v53 = sub <16 x i32> %v52, splat (i32 1262485504)
  %v54 = call <16 x float> @llvm.fma.v16f32(<16 x float> %v51, <16 x float> splat (float 0xBFE62E4300000000), <16 x float> %v49)
  %v55 = call <16 x float> @llvm.fma.v16f32(<16 x float> %v51, <16 x float> splat (float 0x3E205C6100000000), <16 x float> %v54)
  %v56 = call <16 x float> @llvm.fma.v16f32(<16 x float> splat (float 0x3FC55548A0000000), <16 x float> %v55, <16 x float> splat (float 0x3FDFFFFFA0000000))
  %v57 = call <16 x float> @llvm.fma.v16f32(<16 x float> splat (float 0x3F8123F0C0000000), <16 x float> %v55, <16 x float> splat (float 0x3FA555AA60000000))
  %v58 = fmul <16 x float> %v55, %v55
  %v59 = call <16 x float> @llvm.fma.v16f32(<16 x float> %v57, <16 x float> %v58, <16 x float> %v56)
  %v60 = fmul <16 x float> %v58, %v58
  %v61 = call <16 x float> @llvm.fma.v16f32(<16 x float> splat (float 0x3F568ACFA0000000), <16 x float> %v60, <16 x float> %v59)
  %v62 = fmul <16 x float> %v55, %v55
  %v63 = call <16 x float> @llvm.fma.v16f32(<16 x float> %v62, <16 x float> %v61, <16 x float> %v55)
  %v64 = fadd <16 x float> %v63, splat (float 0x3FF0000000000000)
  %v65 = call <16 x float> @llvm.ldexp.v16f32.v16i32(<16 x float> %v64, <16 x i32> %v53)
  %v66 = fadd <16 x float> splat (float 0x0000000000000000), %v65
  store <16 x float> %v65, ptr %scratch, align 4
  %v67 = shufflevector <16 x float> %v66, <16 x float> %v66, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v68 = shufflevector <16 x float> %v66, <16 x float> %v66, <8 x i32> <i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %v69 = fadd <8 x float> %v67, %v68
  %v70 = shufflevector <8 x float> %v69, <8 x float> %v69, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v71 = shufflevector <8 x float> %v69, <8 x float> %v69, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %v72 = fadd <4 x float> %v70, %v71
  %v73 = shufflevector <4 x float> %v72, <4 x float> %v72, <2 x i32> <i32 0, i32 1>
  %v74 = shufflevector <4 x float> %v72, <4 x float> %v72, <2 x i32> <i32 2, i32 3>
  %v75 = fadd <2 x float> %v73, %v74
  %v76 = extractelement <2 x float> %v75, i64 0
  %v77 = extractelement <2 x float> %v75, i64 1
  %v78 = fadd float %v76, %v77
  %v79 = load <16 x float>, ptr %scratch, align 4
  %v80 = insertelement <16 x float> poison, float %v78, i64 0
  %v81 = shufflevector <16 x float> %v80, <16 x float> poison, <16 x i32> zeroinitializer
  %v82 = fdiv <16 x float> %v79, %v81
  %v83 = fmul <16 x float> %v82, %v13  ; input.mlir:9
  %v84 = fadd <16 x float> splat (float 0x0000000000000000), %v83  ; input.mlir:8
  %v85 = getelementptr inbounds float, ptr %v5, i64 %v11
  store <16 x float> %v83, ptr %v85, align 4
  %v86 = shufflevector <16 x float> %v84, <16 x float> %v84, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v87 = shufflevector <16 x float> %v84, <16 x float> %v84, <8 x i32> <i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %v88 = fadd <8 x float> %v86, %v87
  %v89 = shufflevector <8 x float> %v88, <8 x float> %v88, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v90 = shufflevector <8 x float> %v88, <8 x float> %v88, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %v91 = fadd <4 x float> %v89, %v90
  %v92 = shufflevector <4 x float> %v91, <4 x float> %v91, <2 x i32> <i32 0, i32 1>
  %v93 = shufflevector <4 x float> %v91, <4 x float> %v91, <2 x i32> <i32 2, i32 3>
  %v94 = fadd <2 x float> %v92, %v93
  %v95 = extractelement <2 x float> %v94, i64 0
  %v96 = extractelement <2 x float> %v94, i64 1
  %v97 = fadd float %v95, %v96
  %v98 = getelementptr inbounds float, ptr %v5, i64 %v11
  %v99 = load <16 x float>, ptr %v98, align 4
  %v100 = load <16 x float>, ptr %scratch, align 4
  %v101 = fdiv <16 x float> %v100, %v81
  %v102 = insertelement <16 x float> poison, float %v97, i64 0
  %v103 = shufflevector <16 x float> %v102, <16 x float> poison, <16 x i32> zeroinitializer
  %v104 = fmul <16 x float> %v101, %v103
  %v105 = fsub <16 x float> %v99, %v104
  %v106 = fmul <16 x float> %v105, %v13  ; input.mlir:7
  %v107 = getelementptr inbounds float, ptr %v7, i64 %v11
  store <16 x float> %v106, ptr %v107, align 4
  %v108 = add nsw i64 %v10, 1
  %v109 = icmp slt i64 %v108, %end
  br i1 %v109, label %loop1, label %done2
done2:
  ret void
}

define void @loops_1(ptr %args, ptr %dims, i64 %begin, i64 %end, ptr %scratch, ptr %status) nounwind {
entry:
  %v1 = load ptr, ptr %args, align 8
  %v2 = getelementptr inbounds i64, ptr %args, i64 1
  %v3 = load ptr, ptr %v2, align 8
  %v4 = load i64, ptr %dims, align 8
  %v5 = mul nsw i64 %v4, 16
  %v6 = udiv i64 %v5, 64
  %v7 = mul nsw i64 %v6, 64
  %v8 = udiv i64 %v5, 16  ; input.mlir:10
  %v9 = mul nsw i64 %v8, 16
  %v10 = icmp slt i64 %v9, %v5
  %v11 = sub nsw i64 %v5, %v9
  %v12 = call i64 @llvm.smax.i64(i64 %v11, i64 0)
  %v13 = call i64 @llvm.smin.i64(i64 %v12, i64 16)
  %v14 = trunc i64 %v13 to i32
  %v15 = insertelement <16 x i32> poison, i32 %v14, i64 0
  %v16 = shufflevector <16 x i32> %v15, <16 x i32> poison, <16 x i32> zeroinitializer
  %v17 = icmp ugt <16 x i32> %v16, <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %v18 = icmp slt i64 %begin, %end
  br i1 %v18, label %loop1, label %done2
loop1:
  %v19 = phi i64 [ %begin, %entry ], [ %v76, %end8 ]
  %v20 = icmp slt i64 0, %v7
  br i1 %v20, label %loop3, label %done4
loop3:
  %v21 = phi i64 [ 0, %loop1 ], [ %v41, %loop3 ]
  %v22 = phi <16 x float> [ splat (float 0x0000000000000000), %loop1 ], [ %v28, %loop3 ]
  %v23 = phi <16 x float> [ splat (float 0x0000000000000000), %loop1 ], [ %v32, %loop3 ]
  %v24 = phi <16 x float> [ splat (float 0x0000000000000000), %loop1 ], [ %v36, %loop3 ]
  %v25 = phi <16 x float> [ splat (float 0x0000000000000000), %loop1 ], [ %v40, %loop3 ]
  %v26 = getelementptr inbounds float, ptr %v1, i64 %v21
  %v27 = load <16 x float>, ptr %v26, align 4
  %v28 = fadd <16 x float> %v22, %v27
  %v29 = add nsw i64 %v21, 16
  %v30 = getelementptr inbounds float, ptr %v1, i64 %v29
  %v31 = load <16 x float>, ptr %v30, align 4
  %v32 = fadd <16 x float> %v23, %v31
  %v33 = add nsw i64 %v21, 32
  %v34 = getelementptr inbounds float, ptr %v1, i64 %v33
  %v35 = load <16 x float>, ptr %v34, align 4
  %v36 = fadd <16 x float> %v24, %v35
  %v37 = add nsw i64 %v21, 48
  %v38 = getelementptr inbounds float, ptr %v1, i64 %v37
  %v39 = load <16 x float>, ptr %v38, align 4
  %v40 = fadd <16 x float> %v25, %v39
  %v41 = add nsw i64 %v21, 64
  %v42 = icmp slt i64 %v41, %v7
  br i1 %v42, label %loop3, label %done4
done4:
  %v43 = phi <16 x float> [ splat (float 0x0000000000000000), %loop1 ], [ %v28, %loop3 ]
  %v44 = phi <16 x float> [ splat (float 0x0000000000000000), %loop1 ], [ %v32, %loop3 ]
  %v45 = phi <16 x float> [ splat (float 0x0000000000000000), %loop1 ], [ %v36, %loop3 ]
  %v46 = phi <16 x float> [ splat (float 0x0000000000000000), %loop1 ], [ %v40, %loop3 ]
  %v47 = fadd <16 x float> %v43, %v45
  %v48 = fadd <16 x float> %v44, %v46
  %v49 = fadd <16 x float> %v47, %v48
  %v50 = icmp slt i64 %v7, %v9
  br i1 %v50, label %loop5, label %done6
loop5:
  %v51 = phi i64 [ %v7, %done4 ], [ %v56, %loop5 ]
  %v52 = phi <16 x float> [ %v49, %done4 ], [ %v55, %loop5 ]
  %v53 = getelementptr inbounds float, ptr %v1, i64 %v51
  %v54 = load <16 x float>, ptr %v53, align 4
  %v55 = fadd <16 x float> %v52, %v54
  %v56 = add nsw i64 %v51, 16
  %v57 = icmp slt i64 %v56, %v9
  br i1 %v57, label %loop5, label %done6
done6:
  %v58 = phi <16 x float> [ %v49, %done4 ], [ %v55, %loop5 ]
  br i1 %v10, label %then7, label %else9
then7:
  %v59 = getelementptr inbounds float, ptr %v1, i64 %v9
  %v60 = call <16 x float> @llvm.masked.load.v16f32.p0(ptr align 4 %v59, <16 x i1> %v17, <16 x float> splat (float 0x0000000000000000))
  %v61 = select <16 x i1> %v17, <16 x float> %v60, <16 x float> splat (float 0x0000000000000000)
  %v62 = fadd <16 x float> %v58, %v61
  br label %end8
else9:
  br label %end8
end8:
  %v63 = phi <16 x float> [ %v62, %then7 ], [ %v58, %else9 ]
  %v64 = shufflevector <16 x float> %v63, <16 x float> %v63, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v65 = shufflevector <16 x float> %v63, <16 x float> %v63, <8 x i32> <i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %v66 = fadd <8 x float> %v64, %v65
  %v67 = shufflevector <8 x float> %v66, <8 x float> %v66, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v68 = shufflevector <8 x float> %v66, <8 x float> %v66, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %v69 = fadd <4 x float> %v67, %v68
  %v70 = shufflevector <4 x float> %v69, <4 x float> %v69, <2 x i32> <i32 0, i32 1>
  %v71 = shufflevector <4 x float> %v69, <4 x float> %v69, <2 x i32> <i32 2, i32 3>
  %v72 = fadd <2 x float> %v70, %v71
  %v73 = extractelement <2 x float> %v72, i64 0
  %v74 = extractelement <2 x float> %v72, i64 1
  %v75 = fadd float %v73, %v74
  store float %v75, ptr %v3, align 4
  %v76 = add nsw i64 %v19, 1
  %v77 = icmp slt i64 %v76, %end
  br i1 %v77, label %loop1, label %done2
done2:
  ret void
}

define void @loops_2(ptr %args, ptr %dims, i64 %begin, i64 %end, ptr %scratch, ptr %status) nounwind {
entry:
  %v1 = load ptr, ptr %args, align 8
  %v2 = getelementptr inbounds i64, ptr %args, i64 1
  %v3 = load ptr, ptr %v2, align 8
  %v4 = load i64, ptr %dims, align 8
  %v5 = icmp slt i64 %begin, %end  ; input.mlir:7
  br i1 %v5, label %loop1, label %done2
loop1:
  %v6 = phi i64 [ %begin, %entry ], [ %v17, %done4 ]
  %v7 = icmp slt i64 0, %v4
  br i1 %v7, label %loop3, label %done4
loop3:
  %v8 = phi i64 [ 0, %loop1 ], [ %v14, %loop3 ]
  %v9 = phi <16 x float> [ splat (float 0x0000000000000000), %loop1 ], [ %v13, %loop3 ]
  %v10 = mul nsw i64 %v8, 16
  %v11 = getelementptr inbounds float, ptr %v1, i64 %v10
  %v12 = load <16 x float>, ptr %v11, align 4
  %v13 = fadd <16 x float> %v9, %v12
  %v14 = add nsw i64 %v8, 1
  %v15 = icmp slt i64 %v14, %v4
  br i1 %v15, label %loop3, label %done4
done4:
  %v16 = phi <16 x float> [ splat (float 0x0000000000000000), %loop1 ], [ %v13, %loop3 ]
  store <16 x float> %v16, ptr %v3, align 4
  %v17 = add nsw i64 %v6, 1
  %v18 = icmp slt i64 %v17, %end
  br i1 %v18, label %loop1, label %done2
done2:
  ret void
}

declare <16 x float> @llvm.fma.v16f32(<16 x float>, <16 x float>, <16 x float>)
declare <16 x float> @llvm.ldexp.v16f32.v16i32(<16 x float>, <16 x i32>)
declare <16 x float> @llvm.masked.load.v16f32.p0(ptr, <16 x i1>, <16 x float>)
declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.smin.i64(i64, i64)

define void @main(ptr %env, ptr %args, ptr %dims, ptr %outs, ptr %status) nounwind {
entry:
  %table = alloca [4 x ptr], align 16
  %v1 = load i64, ptr %dims, align 8
  %v2 = getelementptr inbounds i64, ptr %env, i64 1
  %v3 = load i64, ptr %v2, align 8
  %v4 = getelementptr inbounds i64, ptr %env, i64 2
  %v5 = load ptr, ptr %v4, align 8
  %v6 = getelementptr inbounds i64, ptr %outs, i64 2
  %v7 = load ptr, ptr %v6, align 8
  %v8 = load ptr, ptr %args, align 8
  %v9 = getelementptr inbounds i64, ptr %args, i64 1
  %v10 = load ptr, ptr %v9, align 8
  %v11 = load ptr, ptr %outs, align 8
  %v12 = getelementptr inbounds i64, ptr %outs, i64 1
  %v13 = load ptr, ptr %v12, align 8
  %v14 = mul nsw i64 %v1, 64
  %v15 = getelementptr inbounds i8, ptr %v7, i64 %v14
  store ptr %v8, ptr %table, align 8
  %v16 = getelementptr inbounds ptr, ptr %table, i64 1
  store ptr %v10, ptr %v16, align 8
  %v17 = getelementptr inbounds ptr, ptr %table, i64 2
  store ptr %v7, ptr %v17, align 8
  %v18 = getelementptr inbounds ptr, ptr %table, i64 3
  store ptr %v15, ptr %v18, align 8
  %v19 = mul nsw i64 %v1, 128
  %v20 = getelementptr inbounds i8, ptr %v7, i64 %v19
  call void %v5(ptr %env, ptr @loops_0, ptr %table, ptr %dims, i64 %v1, i64 1136, ptr %v20, i64 64, ptr %status)
  store ptr %v7, ptr %table, align 8
  %v21 = getelementptr inbounds ptr, ptr %table, i64 1
  store ptr %v13, ptr %v21, align 8
  call void @loops_1(ptr %table, ptr %dims, i64 0, i64 1, ptr null, ptr %status)
  store ptr %v15, ptr %table, align 8
  %v22 = getelementptr inbounds ptr, ptr %table, i64 1
  store ptr %v11, ptr %v22, align 8
  call void @loops_2(ptr %table, ptr %dims, i64 0, i64 1, ptr null, ptr %status)
  ret void
}
