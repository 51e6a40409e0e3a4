// The gradient of sum(softmax(x * w) * x) by w, for any number of rows.
builtin.module {
  func.func @main(%x: tensor<?x16xf32, #nd.dims<"b, 16">>, %w: tensor<16xf32>) -> (tensor<16xf32>, tensor<f32>) {
    %one = nd.constant {value = #nd.literal<"f32 1.0">} : () -> tensor<f32>
    %dw, %loss = nd.grad %w, %one {wrt = 1 : i64, seeds = 1 : i64} : (tensor<16xf32>, tensor<f32>) -> (tensor<16xf32>, tensor<f32>) {
    ^bb0(%w_1: tensor<16xf32>):
      %scaled = nd.mul %x, %w_1 : (tensor<?x16xf32, #nd.dims<"b, 16">>, tensor<16xf32>) -> tensor<?x16xf32, #nd.dims<"b, 16">>
      %p = nd.softmax %scaled {axis = 1 : i64} : (tensor<?x16xf32, #nd.dims<"b, 16">>) -> tensor<?x16xf32, #nd.dims<"b, 16">>
      %px = nd.mul %p, %x : (tensor<?x16xf32, #nd.dims<"b, 16">>, tensor<?x16xf32, #nd.dims<"b, 16">>) -> tensor<?x16xf32, #nd.dims<"b, 16">>
      %sum = nd.reduce_sum %px {axes = array<i64: 0, 1>, keepdims = false} : (tensor<?x16xf32, #nd.dims<"b, 16">>) -> tensor<f32>
      nd.yield %sum : tensor<f32>
    }
    func.return %dw, %loss : tensor<16xf32>, tensor<f32>
  }
}
