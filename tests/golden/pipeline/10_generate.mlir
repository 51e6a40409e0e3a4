builtin.module {
  plan.program attributes {entry = "main", dims = ["b"], arena = #nd.dims<"128*b + 64*threads">, aliases = []} {
    %0 = plan.input {index = 0 : i64} : !plan.buffer
    %1 = plan.input {index = 1 : i64} : !plan.buffer
    %2 = plan.output {index = 0 : i64} : !plan.buffer
    %3 = plan.output {index = 1 : i64} : !plan.buffer
    %4 = plan.alloc {offset = #nd.dims<"0">, size = #nd.dims<"64*b">} : !plan.buffer
    %5 = plan.alloc {offset = #nd.dims<"64*b">, size = #nd.dims<"64*b">} : !plan.buffer
    plan.launch %0, %1, %4, %5 {kernel = @loops_0, count = #nd.dims<"b">, grain = 1136 : i64, scratch = #nd.dims<"64">, at = #nd.dims<"128*b">} : !plan.buffer, !plan.buffer, !plan.buffer, !plan.buffer
    plan.launch %4, %3 {kernel = @loops_1, count = #nd.dims<"1">, grain = 521 : i64, scratch = #nd.dims<"0">, at = #nd.dims<"128*b">} : !plan.buffer, !plan.buffer
    plan.launch %5, %2 {kernel = @loops_2, count = #nd.dims<"1">, grain = 33 : i64, scratch = #nd.dims<"0">, at = #nd.dims<"128*b">} : !plan.buffer, !plan.buffer
    plan.end
  }
  func.func @loops_0(%a0: memref<?xf32>, %a1: memref<?xf32>, %a2: memref<?xf32>, %a3: memref<?xf32>, %d0: index, %begin: index, %end: index, %scratch: memref<?xi8>, %status: memref<?xi64>) attributes {kernel.abi = "cpu", kernel.dims = array<i64: 0>, kernel.about = ["mul, reduce_max, sub, exp, reduce_sum, div, mul, reduce_sum, mul, sub, mul", "input.mlir:7, input.mlir:8, input.mlir:9"]} {
    %6 = arith.constant 1 : index
    %7 = arith.constant 0xff800000 : f32
    %8 = vector.broadcast %7 : f32 to vector<16xf32>
    %9 = arith.constant 16 : index
    %10 = arith.constant 0 : index
    %11 = vector.load %a1[%10] : memref<?xf32>, vector<16xf32>
    %12 = arith.constant 0.000000e+00 : f32
    %13 = vector.broadcast %12 : f32 to vector<16xf32>
    %14 = kernel.view %scratch[%10] : memref<?xi8> to memref<?xf32>
    %15 = kernel.view %scratch[%10] : memref<?xi8> to memref<?xf32>
    scf.for %16 = %begin to %end step %6 {
      %17 = arith.muli %16, %9 : index
      %18 = vector.load %a0[%17] : memref<?xf32>, vector<16xf32>
      %19 = arith.mulf %18, %11 : vector<16xf32>
      %20 = arith.maximumf %8, %19 : vector<16xf32>
      %21 = vector.shuffle %20, %20 [0, 1, 2, 3, 4, 5, 6, 7] : vector<16xf32>, vector<16xf32>
      %22 = vector.shuffle %20, %20 [8, 9, 10, 11, 12, 13, 14, 15] : vector<16xf32>, vector<16xf32>
      %23 = arith.maximumf %21, %22 : vector<8xf32>
      %24 = vector.shuffle %23, %23 [0, 1, 2, 3] : vector<8xf32>, vector<8xf32>
      %25 = vector.shuffle %23, %23 [4, 5, 6, 7] : vector<8xf32>, vector<8xf32>
      %26 = arith.maximumf %24, %25 : vector<4xf32>
      %27 = vector.shuffle %26, %26 [0, 1] : vector<4xf32>, vector<4xf32>
      %28 = vector.shuffle %26, %26 [2, 3] : vector<4xf32>, vector<4xf32>
      %29 = arith.maximumf %27, %28 : vector<2xf32>
      %30 = vector.extract %29[0] : f32 from vector<2xf32>
      %31 = vector.extract %29[1] : f32 from vector<2xf32>
      %32 = arith.maximumf %30, %31 : f32
      %33 = vector.broadcast %32 : f32 to vector<16xf32>
      %34 = arith.subf %19, %33 : vector<16xf32>
      %35 = math.exp %34 : vector<16xf32>
      %36 = arith.addf %13, %35 : vector<16xf32>
      vector.store %35, %14[%10] : memref<?xf32>, vector<16xf32>
      %37 = vector.shuffle %36, %36 [0, 1, 2, 3, 4, 5, 6, 7] : vector<16xf32>, vector<16xf32>
      %38 = vector.shuffle %36, %36 [8, 9, 10, 11, 12, 13, 14, 15] : vector<16xf32>, vector<16xf32>
      %39 = arith.addf %37, %38 : vector<8xf32>
      %40 = vector.shuffle %39, %39 [0, 1, 2, 3] : vector<8xf32>, vector<8xf32>
      %41 = vector.shuffle %39, %39 [4, 5, 6, 7] : vector<8xf32>, vector<8xf32>
      %42 = arith.addf %40, %41 : vector<4xf32>
      %43 = vector.shuffle %42, %42 [0, 1] : vector<4xf32>, vector<4xf32>
      %44 = vector.shuffle %42, %42 [2, 3] : vector<4xf32>, vector<4xf32>
      %45 = arith.addf %43, %44 : vector<2xf32>
      %46 = vector.extract %45[0] : f32 from vector<2xf32>
      %47 = vector.extract %45[1] : f32 from vector<2xf32>
      %48 = arith.addf %46, %47 : f32
      %49 = vector.load %15[%10] : memref<?xf32>, vector<16xf32>
      %50 = vector.broadcast %48 : f32 to vector<16xf32>
      %51 = arith.divf %49, %50 : vector<16xf32>
      %52 = arith.mulf %51, %18 : vector<16xf32>
      %53 = arith.addf %13, %52 : vector<16xf32>
      vector.store %52, %a2[%17] : memref<?xf32>, vector<16xf32>
      %54 = vector.shuffle %53, %53 [0, 1, 2, 3, 4, 5, 6, 7] : vector<16xf32>, vector<16xf32>
      %55 = vector.shuffle %53, %53 [8, 9, 10, 11, 12, 13, 14, 15] : vector<16xf32>, vector<16xf32>
      %56 = arith.addf %54, %55 : vector<8xf32>
      %57 = vector.shuffle %56, %56 [0, 1, 2, 3] : vector<8xf32>, vector<8xf32>
      %58 = vector.shuffle %56, %56 [4, 5, 6, 7] : vector<8xf32>, vector<8xf32>
      %59 = arith.addf %57, %58 : vector<4xf32>
      %60 = vector.shuffle %59, %59 [0, 1] : vector<4xf32>, vector<4xf32>
      %61 = vector.shuffle %59, %59 [2, 3] : vector<4xf32>, vector<4xf32>
      %62 = arith.addf %60, %61 : vector<2xf32>
      %63 = vector.extract %62[0] : f32 from vector<2xf32>
      %64 = vector.extract %62[1] : f32 from vector<2xf32>
      %65 = arith.addf %63, %64 : f32
      %66 = vector.load %a2[%17] : memref<?xf32>, vector<16xf32>
      %67 = vector.load %15[%10] : memref<?xf32>, vector<16xf32>
      %68 = arith.divf %67, %50 : vector<16xf32>
      %69 = vector.broadcast %65 : f32 to vector<16xf32>
      %70 = arith.mulf %68, %69 : vector<16xf32>
      %71 = arith.subf %66, %70 : vector<16xf32>
      %72 = arith.mulf %71, %18 : vector<16xf32>
      vector.store %72, %a3[%17] : memref<?xf32>, vector<16xf32>
    }
    func.return
  }
  func.func @loops_1(%a0: memref<?xf32>, %a1: memref<?xf32>, %d0: index, %begin: index, %end: index, %scratch: memref<?xi8>, %status: memref<?xi64>) attributes {kernel.abi = "cpu", kernel.dims = array<i64: 0>, kernel.about = ["reduce_sum", "input.mlir:10"]} {
    %6 = arith.constant 1 : index
    %7 = arith.constant 0.000000e+00 : f32
    %8 = vector.broadcast %7 : f32 to vector<16xf32>
    %9 = arith.constant 16 : index
    %10 = arith.muli %d0, %9 : index
    %11 = arith.constant 0 : index
    %12 = arith.constant 64 : index
    %13 = arith.divui %10, %12 : index
    %14 = arith.muli %13, %12 : index
    %15 = arith.constant 32 : index
    %16 = arith.constant 48 : index
    %17 = arith.divui %10, %9 : index
    %18 = arith.muli %17, %9 : index
    %19 = kernel.cmp "slt" %18, %10 : index to i1
    %20 = arith.subi %10, %18 : index
    %21 = kernel.mask %20 : vector<16xi1>
    scf.for %22 = %begin to %end step %6 {
      %23, %24, %25, %26 = scf.for %27 = %11 to %14 step %12 iter_args(%28 = %8, %29 = %8, %30 = %8, %31 = %8) -> (vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>) {
        %32 = vector.load %a0[%27] : memref<?xf32>, vector<16xf32>
        %33 = arith.addf %28, %32 : vector<16xf32>
        %34 = arith.addi %27, %9 : index
        %35 = vector.load %a0[%34] : memref<?xf32>, vector<16xf32>
        %36 = arith.addf %29, %35 : vector<16xf32>
        %37 = arith.addi %27, %15 : index
        %38 = vector.load %a0[%37] : memref<?xf32>, vector<16xf32>
        %39 = arith.addf %30, %38 : vector<16xf32>
        %40 = arith.addi %27, %16 : index
        %41 = vector.load %a0[%40] : memref<?xf32>, vector<16xf32>
        %42 = arith.addf %31, %41 : vector<16xf32>
        scf.yield %33, %36, %39, %42 : vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>
      }
      %43 = arith.addf %23, %25 : vector<16xf32>
      %44 = arith.addf %24, %26 : vector<16xf32>
      %45 = arith.addf %43, %44 : vector<16xf32>
      %46 = scf.for %47 = %14 to %18 step %9 iter_args(%48 = %45) -> (vector<16xf32>) {
        %49 = vector.load %a0[%47] : memref<?xf32>, vector<16xf32>
        %50 = arith.addf %48, %49 : vector<16xf32>
        scf.yield %50 : vector<16xf32>
      }
      %51 = scf.if %19 -> (vector<16xf32>) {
        %52 = vector.maskedload %a0[%18], %21, %8 : memref<?xf32>, vector<16xi1>, vector<16xf32> into vector<16xf32>
        %53 = kernel.select %21, %52, %8 : vector<16xi1>, vector<16xf32>
        %54 = arith.addf %46, %53 : vector<16xf32>
        scf.yield %54 : vector<16xf32>
      } else {
        scf.yield %46 : vector<16xf32>
      }
      %55 = vector.shuffle %51, %51 [0, 1, 2, 3, 4, 5, 6, 7] : vector<16xf32>, vector<16xf32>
      %56 = vector.shuffle %51, %51 [8, 9, 10, 11, 12, 13, 14, 15] : vector<16xf32>, vector<16xf32>
      %57 = arith.addf %55, %56 : vector<8xf32>
      %58 = vector.shuffle %57, %57 [0, 1, 2, 3] : vector<8xf32>, vector<8xf32>
      %59 = vector.shuffle %57, %57 [4, 5, 6, 7] : vector<8xf32>, vector<8xf32>
      %60 = arith.addf %58, %59 : vector<4xf32>
      %61 = vector.shuffle %60, %60 [0, 1] : vector<4xf32>, vector<4xf32>
      %62 = vector.shuffle %60, %60 [2, 3] : vector<4xf32>, vector<4xf32>
      %63 = arith.addf %61, %62 : vector<2xf32>
      %64 = vector.extract %63[0] : f32 from vector<2xf32>
      %65 = vector.extract %63[1] : f32 from vector<2xf32>
      %66 = arith.addf %64, %65 : f32
      memref.store %66, %a1[%11] : memref<?xf32>
    }
    func.return
  }
  func.func @loops_2(%a0: memref<?xf32>, %a1: memref<?xf32>, %d0: index, %begin: index, %end: index, %scratch: memref<?xi8>, %status: memref<?xi64>) attributes {kernel.abi = "cpu", kernel.dims = array<i64: 0>, kernel.about = ["reduce_sum", "input.mlir:7"]} {
    %6 = arith.constant 1 : index
    %7 = arith.constant 16 : index
    %8 = arith.constant 64 : index
    %9 = arith.constant 0 : index
    %10 = arith.constant 0.000000e+00 : f32
    %11 = vector.broadcast %10 : f32 to vector<16xf32>
    scf.for %12 = %begin to %end step %6 {
      %13 = scf.for %14 = %9 to %d0 step %6 iter_args(%15 = %11) -> (vector<16xf32>) {
        %16 = arith.muli %14, %7 : index
        %17 = vector.load %a0[%16] : memref<?xf32>, vector<16xf32>
        %18 = arith.addf %15, %17 : vector<16xf32>
        scf.yield %18 : vector<16xf32>
      }
      vector.store %13, %a1[%9] : memref<?xf32>, vector<16xf32>
    }
    func.return
  }
}
