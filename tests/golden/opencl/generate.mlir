builtin.module {
  plan.program attributes {entry = "main", dims = [], arena = #nd.dims<"0">, aliases = [[0 : i64, 0 : i64]]} {
    %0 = plan.input {index = 0 : i64} : !plan.buffer
    %1 = plan.output {index = 0 : i64} : !plan.buffer
    plan.launch %0, %1 {kernel = @loops_0, count = #nd.dims<"150">, grain = 32 : i64, scratch = #nd.dims<"0">, at = #nd.dims<"0">} : !plan.buffer, !plan.buffer
    plan.end
  }
  func.func @loops_0(%a0: memref<?xf32>, %a1: memref<?xf32>, %workspace: memref<?xi8>, %status: memref<?xi64>) attributes {kernel.abi = "opencl", kernel.dims = array<i64>, kernel.group = 32 : i64, kernel.narrow, kernel.about = ["reduce_max, sub, exp, reduce_sum, div", "input.mlir:4"]} {
    %2 = arith.constant 300 : index
    %3 = kernel.id "group"
    %4 = arith.constant 0 : index
    %5 = kernel.id "item"
    %6 = arith.constant 16 : index
    %7 = arith.divui %5, %6 : index
    %8 = arith.remui %5, %6 : index
    %9 = arith.muli %7, %6 : index
    %10 = arith.constant 2 : index
    %11 = arith.muli %3, %10 : index
    %12 = arith.addi %11, %7 : index
    %13 = arith.constant 4 : index
    %14 = arith.muli %8, %13 : index
    %15 = arith.constant 64 : index
    %16 = arith.muli %12, %15 : index
    %17 = arith.addi %16, %14 : index
    %18 = vector.load %a0[%17] : memref<?xf32>, vector<4xf32>
    %19 = vector.shuffle %18, %18 [0, 1] : vector<4xf32>, vector<4xf32>
    %20 = vector.shuffle %18, %18 [2, 3] : vector<4xf32>, vector<4xf32>
    %21 = arith.maximumf %19, %20 : vector<2xf32>
    %22 = vector.extract %21[0] : f32 from vector<2xf32>
    %23 = vector.extract %21[1] : f32 from vector<2xf32>
    %24 = arith.maximumf %22, %23 : f32
    %25 = arith.constant 1 : index
    %26 = arith.addi %9, %8 : index
    %27 = kernel.alloc "local" : memref<32xf32>
    memref.store %24, %27[%26] : memref<32xf32>
    kernel.barrier
    %28 = kernel.cmp "slt" %8, %13 : index to i1
    %29 = arith.addi %26, %13 : index
    %30 = arith.constant 8 : index
    %31 = arith.addi %26, %30 : index
    %32 = arith.constant 12 : index
    %33 = arith.addi %26, %32 : index
    %34 = kernel.alloc "local" : memref<32xf32>
    scf.if %28 {
      %35 = memref.load %27[%26] : memref<32xf32>
      %36 = memref.load %27[%29] : memref<32xf32>
      %37 = memref.load %27[%31] : memref<32xf32>
      %38 = memref.load %27[%33] : memref<32xf32>
      %39 = arith.maximumf %35, %37 : f32
      %40 = arith.maximumf %36, %38 : f32
      %41 = arith.maximumf %39, %40 : f32
      memref.store %41, %34[%26] : memref<32xf32>
    }
    kernel.barrier
    %42 = vector.load %34[%9] : memref<32xf32>, vector<4xf32>
    %43 = vector.extract %42[0] : f32 from vector<4xf32>
    %44 = vector.extract %42[1] : f32 from vector<4xf32>
    %45 = vector.extract %42[2] : f32 from vector<4xf32>
    %46 = vector.extract %42[3] : f32 from vector<4xf32>
    %47 = arith.maximumf %43, %45 : f32
    %48 = arith.maximumf %44, %46 : f32
    %49 = arith.maximumf %47, %48 : f32
    %50 = vector.broadcast %49 : f32 to vector<4xf32>
    %51 = arith.subf %18, %50 : vector<4xf32>
    %52 = math.exp %51 : vector<4xf32>
    %53 = vector.shuffle %52, %52 [0, 1] : vector<4xf32>, vector<4xf32>
    %54 = vector.shuffle %52, %52 [2, 3] : vector<4xf32>, vector<4xf32>
    %55 = arith.addf %53, %54 : vector<2xf32>
    %56 = vector.extract %55[0] : f32 from vector<2xf32>
    %57 = vector.extract %55[1] : f32 from vector<2xf32>
    %58 = arith.addf %56, %57 : f32
    memref.store %58, %27[%26] : memref<32xf32>
    kernel.barrier
    scf.if %28 {
      %59 = memref.load %27[%26] : memref<32xf32>
      %60 = memref.load %27[%29] : memref<32xf32>
      %61 = memref.load %27[%31] : memref<32xf32>
      %62 = memref.load %27[%33] : memref<32xf32>
      %63 = arith.addf %59, %61 : f32
      %64 = arith.addf %60, %62 : f32
      %65 = arith.addf %63, %64 : f32
      memref.store %65, %34[%26] : memref<32xf32>
    }
    kernel.barrier
    %66 = vector.load %34[%9] : memref<32xf32>, vector<4xf32>
    %67 = vector.extract %66[0] : f32 from vector<4xf32>
    %68 = vector.extract %66[1] : f32 from vector<4xf32>
    %69 = vector.extract %66[2] : f32 from vector<4xf32>
    %70 = vector.extract %66[3] : f32 from vector<4xf32>
    %71 = arith.addf %67, %69 : f32
    %72 = arith.addf %68, %70 : f32
    %73 = arith.addf %71, %72 : f32
    %74 = vector.broadcast %73 : f32 to vector<4xf32>
    %75 = arith.divf %52, %74 : vector<4xf32>
    vector.store %75, %a1[%17] : memref<?xf32>, vector<4xf32>
    func.return
  }
}
