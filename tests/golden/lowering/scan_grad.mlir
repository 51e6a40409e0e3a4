// before
builtin.module {
  func.func @main(%0: tensor<3xf64>, %1: tensor<4x3xf64>, %2: tensor<3xf64>, %3: tensor<3xf64>) -> (tensor<3xf64>, tensor<4x3xf64>, tensor<3xf64>) {
    %4, %5, %6, %7 = nd.grad %0, %1, %2, %3 {wrt = 3 : i64, seeds = 1 : i64} : (tensor<3xf64>, tensor<4x3xf64>, tensor<3xf64>, tensor<3xf64>) -> (tensor<3xf64>, tensor<4x3xf64>, tensor<3xf64>, tensor<3xf64>) {
    ^bb0(%8: tensor<3xf64>, %9: tensor<4x3xf64>, %10: tensor<3xf64>):
      %11 = nd.scan %8, %9, %10 {carry = 1 : i64, slices = 1 : i64, length = #nd.dims<"4">, reverse = false} : (tensor<3xf64>, tensor<4x3xf64>, tensor<3xf64>) -> tensor<3xf64> {
      ^bb0(%12: tensor<3xf64>, %13: tensor<3xf64>, %14: tensor<3xf64>):
        %15 = nd.mul %12, %14 : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xf64>
        %16 = nd.add %15, %13 : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xf64>
        %17 = nd.tanh %16 : (tensor<3xf64>) -> tensor<3xf64>
        nd.yield %17 : tensor<3xf64>
      }
      nd.yield %11 : tensor<3xf64>
    }
    func.return %4, %5, %6 : tensor<3xf64>, tensor<4x3xf64>, tensor<3xf64>
  }
}
// after
builtin.module {
  func.func @main(%0: tensor<3xf64>, %1: tensor<4x3xf64>, %2: tensor<3xf64>, %3: tensor<3xf64>) -> (tensor<3xf64>, tensor<4x3xf64>, tensor<3xf64>) {
    %4, %5, %6 = nd.scan %0, %1, %2 {carry = 1 : i64, slices = 1 : i64, length = #nd.dims<"4">, reverse = false} : (tensor<3xf64>, tensor<4x3xf64>, tensor<3xf64>) -> (tensor<3xf64>, tensor<4x3xf64>, tensor<4x3xf64>) {
    ^bb0(%7: tensor<3xf64>, %8: tensor<3xf64>, %9: tensor<3xf64>):
      %10 = nd.mul %7, %9 : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xf64>
      %11 = nd.add %10, %8 : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xf64>
      %12 = nd.tanh %11 : (tensor<3xf64>) -> tensor<3xf64>
      %13 = nd.mul %12, %12 : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xf64>
      %14 = nd.constant {value = #nd.literal<"f64 1.0">} : () -> tensor<f64>
      %15 = nd.sub %14, %13 : (tensor<f64>, tensor<3xf64>) -> tensor<3xf64>
      nd.yield %12, %7, %15 : tensor<3xf64>, tensor<3xf64>, tensor<3xf64>
    }
    %7 = nd.constant {value = #nd.literal<"f64 0.0">} : () -> tensor<f64>
    %8 = nd.broadcast_to %7 {shape = #nd.dims<"3">} : (tensor<f64>) -> tensor<3xf64>
    %9, %10, %11 = nd.scan %3, %8, %5, %6, %2 {carry = 2 : i64, slices = 2 : i64, length = #nd.dims<"4">, reverse = true} : (tensor<3xf64>, tensor<3xf64>, tensor<4x3xf64>, tensor<4x3xf64>, tensor<3xf64>) -> (tensor<3xf64>, tensor<3xf64>, tensor<4x3xf64>) {
    ^bb0(%12: tensor<3xf64>, %13: tensor<3xf64>, %14: tensor<3xf64>, %15: tensor<3xf64>, %16: tensor<3xf64>):
      %17 = nd.mul %12, %15 : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xf64>
      %18 = nd.mul %17, %16 : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xf64>
      %19 = nd.mul %17, %14 : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xf64>
      %20 = nd.add %13, %19 : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xf64>
      nd.yield %18, %20, %17 : tensor<3xf64>, tensor<3xf64>, tensor<3xf64>
    }
    func.return %9, %11, %10 : tensor<3xf64>, tensor<4x3xf64>, tensor<3xf64>
  }
}
