builtin.module {
  func.func @main(%x: tensor<300x64xf32>) -> tensor<300x64xf32> {
    %p = nd.group %x {group = "loops", label = "loops_0", domain = #nd.dims<"300, 64">, axes = array<i64: 1>, schedule = #nd.schedule<"template=gpu-loops lane=d1 lanes=4 block=1 group=32 rows_per_group=2">} : (tensor<300x64xf32>) -> tensor<300x64xf32> {
    ^bb0(%x_1: tensor<300x64xf32>):
      %0 = nd.reduce_max %x_1 {axes = array<i64: 1>, keepdims = true} : (tensor<300x64xf32>) -> tensor<300x1xf32>
      %1 = nd.sub %x_1, %0 : (tensor<300x64xf32>, tensor<300x1xf32>) -> tensor<300x64xf32>
      %2 = nd.exp %1 : (tensor<300x64xf32>) -> tensor<300x64xf32>
      %3 = nd.reduce_sum %2 {axes = array<i64: 1>, keepdims = true} : (tensor<300x64xf32>) -> tensor<300x1xf32>
      %p_1 = nd.div %2, %3 : (tensor<300x64xf32>, tensor<300x1xf32>) -> tensor<300x64xf32>
      nd.yield %p_1 : tensor<300x64xf32>
    }
    func.return %p : tensor<300x64xf32>
  }
  plan.program attributes {entry = "main", dims = [], arena = #nd.dims<"0">, aliases = [[0 : i64, 0 : i64]]} {
    %0 = plan.input {index = 0 : i64} : !plan.buffer
    %1 = plan.output {index = 0 : i64} : !plan.buffer
    plan.launch %0, %1 {kernel = @loops_0, count = #nd.dims<"150">, grain = 32 : i64, scratch = #nd.dims<"0">, at = #nd.dims<"0">} : !plan.buffer, !plan.buffer
    plan.end
  }
}
