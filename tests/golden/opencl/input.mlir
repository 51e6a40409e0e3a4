// A softmax over the rows of a matrix.
builtin.module {
  func.func @main(%x: tensor<300x64xf32>) -> tensor<300x64xf32> {
    %p = nd.softmax %x {axis = 1 : i64} : (tensor<300x64xf32>) -> tensor<300x64xf32>
    func.return %p : tensor<300x64xf32>
  }
}
