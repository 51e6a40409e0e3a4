// before
builtin.module {
  func.func @main(%0: tensor<2x3xf64>, %1: tensor<3x4xf64>, %2: tensor<f64>) -> (tensor<2x3xf64>, tensor<3x4xf64>, tensor<f64>) {
    %3, %4, %5 = nd.grad %0, %1, %2 {wrt = 2 : i64, seeds = 1 : i64} : (tensor<2x3xf64>, tensor<3x4xf64>, tensor<f64>) -> (tensor<2x3xf64>, tensor<3x4xf64>, tensor<f64>) {
    ^bb0(%6: tensor<2x3xf64>, %7: tensor<3x4xf64>):
      %8 = nd.contract %6, %7 {spec = "m k, k n -> m n", sizes = #nd.dims<"2, 3, 4">} : (tensor<2x3xf64>, tensor<3x4xf64>) -> tensor<2x4xf64>
      %9 = nd.tanh %8 : (tensor<2x4xf64>) -> tensor<2x4xf64>
      %10 = nd.reduce_sum %9 {axes = array<i64: 0, 1>, keepdims = false} : (tensor<2x4xf64>) -> tensor<f64>
      nd.yield %10 : tensor<f64>
    }
    func.return %3, %4, %5 : tensor<2x3xf64>, tensor<3x4xf64>, tensor<f64>
  }
}
// after
builtin.module {
  func.func @main(%0: tensor<2x3xf64>, %1: tensor<3x4xf64>, %2: tensor<f64>) -> (tensor<2x3xf64>, tensor<3x4xf64>, tensor<f64>) {
    %3 = nd.contract %0, %1 {spec = "m k, k n -> m n", sizes = #nd.dims<"2, 3, 4">} : (tensor<2x3xf64>, tensor<3x4xf64>) -> tensor<2x4xf64>
    %4 = nd.tanh %3 : (tensor<2x4xf64>) -> tensor<2x4xf64>
    %5 = nd.reduce_sum %4 {axes = array<i64: 0, 1>, keepdims = false} : (tensor<2x4xf64>) -> tensor<f64>
    %6 = nd.reshape %2 {shape = #nd.dims<"1, 1">} : (tensor<f64>) -> tensor<1x1xf64>
    %7 = nd.broadcast_to %6 {shape = #nd.dims<"2, 4">} : (tensor<1x1xf64>) -> tensor<2x4xf64>
    %8 = nd.mul %4, %4 : (tensor<2x4xf64>, tensor<2x4xf64>) -> tensor<2x4xf64>
    %9 = nd.constant {value = #nd.literal<"f64 1.0">} : () -> tensor<f64>
    %10 = nd.sub %9, %8 : (tensor<f64>, tensor<2x4xf64>) -> tensor<2x4xf64>
    %11 = nd.mul %7, %10 : (tensor<2x4xf64>, tensor<2x4xf64>) -> tensor<2x4xf64>
    %12 = nd.contract %11, %1 {spec = "m n, k n -> m k", sizes = #nd.dims<"2, 4, 3">} : (tensor<2x4xf64>, tensor<3x4xf64>) -> tensor<2x3xf64>
    %13 = nd.contract %0, %11 {spec = "m k, m n -> k n", sizes = #nd.dims<"2, 3, 4">} : (tensor<2x3xf64>, tensor<2x4xf64>) -> tensor<3x4xf64>
    func.return %12, %13, %5 : tensor<2x3xf64>, tensor<3x4xf64>, tensor<f64>
  }
}
