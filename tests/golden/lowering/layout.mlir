// before
builtin.module {
  func.func @main(%x: tensor<2x3xf32>, %w: tensor<4x3xf32>) -> tensor<4x2xf32> {
    %t = nd.transpose %w {permutation = array<i64: 1, 0>} : (tensor<4x3xf32>) -> tensor<3x4xf32>
    %y = nd.contract %x, %t {spec = "m k, k n -> m n", sizes = #nd.dims<"2, 3, 4">} : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
    %r = nd.transpose %y {permutation = array<i64: 1, 0>} : (tensor<2x4xf32>) -> tensor<4x2xf32>
    func.return %r : tensor<4x2xf32>
  }
}
// after
builtin.module {
  func.func @main(%x: tensor<2x3xf32>, %w: tensor<4x3xf32>) -> tensor<4x2xf32> {
    %r = nd.contract %x, %w {spec = "m k, n k -> n m", sizes = #nd.dims<"2, 3, 4">} : (tensor<2x3xf32>, tensor<4x3xf32>) -> tensor<4x2xf32>
    func.return %r : tensor<4x2xf32>
  }
}
