builtin.module {
  func.func @main(%x: tensor<?x16xf32, #nd.dims<"b, 16">>, %w: tensor<16xf32>) -> (tensor<16xf32>, tensor<f32>) {
    %scaled = nd.mul %x, %w : (tensor<?x16xf32, #nd.dims<"b, 16">>, tensor<16xf32>) -> tensor<?x16xf32, #nd.dims<"b, 16">>
    %p = nd.softmax %scaled {axis = 1 : i64} : (tensor<?x16xf32, #nd.dims<"b, 16">>) -> tensor<?x16xf32, #nd.dims<"b, 16">>
    %px = nd.mul %p, %x : (tensor<?x16xf32, #nd.dims<"b, 16">>, tensor<?x16xf32, #nd.dims<"b, 16">>) -> tensor<?x16xf32, #nd.dims<"b, 16">>
    %sum = nd.reduce_sum %px {axes = array<i64: 0, 1>, keepdims = false} : (tensor<?x16xf32, #nd.dims<"b, 16">>) -> tensor<f32>
    %0 = nd.reduce_sum %px {axes = array<i64: 1>, keepdims = true} : (tensor<?x16xf32, #nd.dims<"b, 16">>) -> tensor<?x1xf32, #nd.dims<"b, 1">>
    %1 = nd.mul %p, %0 : (tensor<?x16xf32, #nd.dims<"b, 16">>, tensor<?x1xf32, #nd.dims<"b, 1">>) -> tensor<?x16xf32, #nd.dims<"b, 16">>
    %2 = nd.sub %px, %1 : (tensor<?x16xf32, #nd.dims<"b, 16">>, tensor<?x16xf32, #nd.dims<"b, 16">>) -> tensor<?x16xf32, #nd.dims<"b, 16">>
    %3 = nd.mul %2, %x : (tensor<?x16xf32, #nd.dims<"b, 16">>, tensor<?x16xf32, #nd.dims<"b, 16">>) -> tensor<?x16xf32, #nd.dims<"b, 16">>
    %dw = nd.reduce_sum %3 {axes = array<i64: 0>, keepdims = false} : (tensor<?x16xf32, #nd.dims<"b, 16">>) -> tensor<16xf32>
    func.return %dw, %sum : tensor<16xf32>, tensor<f32>
  }
}
