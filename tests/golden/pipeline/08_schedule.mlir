builtin.module {
  func.func @main(%x: tensor<?x16xf32, #nd.dims<"b, 16">>, %w: tensor<16xf32>) -> (tensor<16xf32>, tensor<f32>) {
    %px, %0 = nd.group %x, %w {group = "loops", label = "loops_0", domain = #nd.dims<"b, 16">, axes = array<i64: 1>, schedule = #nd.schedule<"template=loops lane=d1 lanes=16 grain=1136">} : (tensor<?x16xf32, #nd.dims<"b, 16">>, tensor<16xf32>) -> (tensor<?x16xf32, #nd.dims<"b, 16">>, tensor<?x16xf32, #nd.dims<"b, 16">>) {
    ^bb0(%x_1: tensor<?x16xf32, #nd.dims<"b, 16">>, %w_1: tensor<16xf32>):
      %scaled = nd.mul %x_1, %w_1 : (tensor<?x16xf32, #nd.dims<"b, 16">>, tensor<16xf32>) -> tensor<?x16xf32, #nd.dims<"b, 16">>
      %1 = nd.reduce_max %scaled {axes = array<i64: 1>, keepdims = true} : (tensor<?x16xf32, #nd.dims<"b, 16">>) -> tensor<?x1xf32, #nd.dims<"b, 1">>
      %2 = nd.sub %scaled, %1 : (tensor<?x16xf32, #nd.dims<"b, 16">>, tensor<?x1xf32, #nd.dims<"b, 1">>) -> tensor<?x16xf32, #nd.dims<"b, 16">>
      %3 = nd.exp %2 : (tensor<?x16xf32, #nd.dims<"b, 16">>) -> tensor<?x16xf32, #nd.dims<"b, 16">>
      %4 = nd.reduce_sum %3 {axes = array<i64: 1>, keepdims = true} : (tensor<?x16xf32, #nd.dims<"b, 16">>) -> tensor<?x1xf32, #nd.dims<"b, 1">>
      %p = nd.div %3, %4 : (tensor<?x16xf32, #nd.dims<"b, 16">>, tensor<?x1xf32, #nd.dims<"b, 1">>) -> tensor<?x16xf32, #nd.dims<"b, 16">>
      %px_1 = nd.mul %p, %x_1 : (tensor<?x16xf32, #nd.dims<"b, 16">>, tensor<?x16xf32, #nd.dims<"b, 16">>) -> tensor<?x16xf32, #nd.dims<"b, 16">>
      %5 = nd.reduce_sum %px_1 {axes = array<i64: 1>, keepdims = true} : (tensor<?x16xf32, #nd.dims<"b, 16">>) -> tensor<?x1xf32, #nd.dims<"b, 1">>
      %6 = nd.mul %p, %5 : (tensor<?x16xf32, #nd.dims<"b, 16">>, tensor<?x1xf32, #nd.dims<"b, 1">>) -> tensor<?x16xf32, #nd.dims<"b, 16">>
      %7 = nd.sub %px_1, %6 : (tensor<?x16xf32, #nd.dims<"b, 16">>, tensor<?x16xf32, #nd.dims<"b, 16">>) -> tensor<?x16xf32, #nd.dims<"b, 16">>
      %8 = nd.mul %7, %x_1 : (tensor<?x16xf32, #nd.dims<"b, 16">>, tensor<?x16xf32, #nd.dims<"b, 16">>) -> tensor<?x16xf32, #nd.dims<"b, 16">>
      nd.yield %px_1, %8 : tensor<?x16xf32, #nd.dims<"b, 16">>, tensor<?x16xf32, #nd.dims<"b, 16">>
    }
    %sum = nd.group %px {group = "loops", label = "loops_1", domain = #nd.dims<"b, 16">, axes = array<i64: 0, 1>, borders = ["0: domain"], schedule = #nd.schedule<"template=loops lane=d1 lanes=16 unroll=4 grain=521">} : (tensor<?x16xf32, #nd.dims<"b, 16">>) -> tensor<f32> {
    ^bb0(%px_1: tensor<?x16xf32, #nd.dims<"b, 16">>):
      %sum_1 = nd.reduce_sum %px_1 {axes = array<i64: 0, 1>, keepdims = false} : (tensor<?x16xf32, #nd.dims<"b, 16">>) -> tensor<f32>
      nd.yield %sum_1 : tensor<f32>
    }
    %dw = nd.group %0 {group = "loops", label = "loops_2", domain = #nd.dims<"b, 16">, axes = array<i64: 0>, borders = ["0: domain"], schedule = #nd.schedule<"template=loops lane=d1 lanes=16 block=64 grain=33">} : (tensor<?x16xf32, #nd.dims<"b, 16">>) -> tensor<16xf32> {
    ^bb0(%1: tensor<?x16xf32, #nd.dims<"b, 16">>):
      %dw_1 = nd.reduce_sum %1 {axes = array<i64: 0>, keepdims = false} : (tensor<?x16xf32, #nd.dims<"b, 16">>) -> tensor<16xf32>
      nd.yield %dw_1 : tensor<16xf32>
    }
    func.return %dw, %sum : tensor<16xf32>, tensor<f32>
  }
}
