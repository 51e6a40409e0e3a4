builtin.module {
  func.func @main(%x: tensor<?x16xf32, #nd.dims<"b, 16">>, %w: tensor<16xf32>) -> (tensor<16xf32>, tensor<f32>) {
    %scaled = nd.mul %x, %w : (tensor<?x16xf32, #nd.dims<"b, 16">>, tensor<16xf32>) -> tensor<?x16xf32, #nd.dims<"b, 16">>
    %0 = nd.reduce_max %scaled {axes = array<i64: 1>, keepdims = true} : (tensor<?x16xf32, #nd.dims<"b, 16">>) -> tensor<?x1xf32, #nd.dims<"b, 1">>
    %1 = nd.sub %scaled, %0 : (tensor<?x16xf32, #nd.dims<"b, 16">>, tensor<?x1xf32, #nd.dims<"b, 1">>) -> tensor<?x16xf32, #nd.dims<"b, 16">>
    %2 = nd.exp %1 : (tensor<?x16xf32, #nd.dims<"b, 16">>) -> tensor<?x16xf32, #nd.dims<"b, 16">>
    %3 = nd.reduce_sum %2 {axes = array<i64: 1>, keepdims = true} : (tensor<?x16xf32, #nd.dims<"b, 16">>) -> tensor<?x1xf32, #nd.dims<"b, 1">>
    %p = nd.div %2, %3 : (tensor<?x16xf32, #nd.dims<"b, 16">>, tensor<?x1xf32, #nd.dims<"b, 1">>) -> tensor<?x16xf32, #nd.dims<"b, 16">>
    %px = nd.mul %p, %x : (tensor<?x16xf32, #nd.dims<"b, 16">>, tensor<?x16xf32, #nd.dims<"b, 16">>) -> tensor<?x16xf32, #nd.dims<"b, 16">>
    %sum = nd.reduce_sum %px {axes = array<i64: 0, 1>, keepdims = false} : (tensor<?x16xf32, #nd.dims<"b, 16">>) -> tensor<f32>
    %4 = nd.reduce_sum %px {axes = array<i64: 1>, keepdims = true} : (tensor<?x16xf32, #nd.dims<"b, 16">>) -> tensor<?x1xf32, #nd.dims<"b, 1">>
    %5 = nd.mul %p, %4 : (tensor<?x16xf32, #nd.dims<"b, 16">>, tensor<?x1xf32, #nd.dims<"b, 1">>) -> tensor<?x16xf32, #nd.dims<"b, 16">>
    %6 = nd.sub %px, %5 : (tensor<?x16xf32, #nd.dims<"b, 16">>, tensor<?x16xf32, #nd.dims<"b, 16">>) -> tensor<?x16xf32, #nd.dims<"b, 16">>
    %7 = nd.mul %6, %x : (tensor<?x16xf32, #nd.dims<"b, 16">>, tensor<?x16xf32, #nd.dims<"b, 16">>) -> tensor<?x16xf32, #nd.dims<"b, 16">>
    %dw = nd.reduce_sum %7 {axes = array<i64: 0>, keepdims = false} : (tensor<?x16xf32, #nd.dims<"b, 16">>) -> tensor<16xf32>
    func.return %dw, %sum : tensor<16xf32>, tensor<f32>
  }
}
