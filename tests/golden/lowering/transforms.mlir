builtin.module {
  func.func @main(%x: tensor<3xf32>, %c: tensor<3xf32>) -> tensor<3xf32> {
    %g, %y = nd.grad %x, %c {wrt = 1 : i64, seeds = 1 : i64} : (tensor<3xf32>, tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
    ^bb0(%a: tensor<3xf32>):
      %b = nd.mul %a, %x : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
      nd.yield %b : tensor<3xf32>
    }
    %p, %t = nd.jvp %x, %c {wrt = 1 : i64, seeds = 1 : i64} : (tensor<3xf32>, tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
    ^bb1(%a_1: tensor<3xf32>):
      nd.yield %a_1 : tensor<3xf32>
    }
    %m = nd.vmap %x {in_axes = array<i64: 0>, out_axes = array<i64: 0>, size = #nd.dims<"3">} : (tensor<3xf32>) -> tensor<3xf32> {
    ^bb2(%a_2: tensor<f32>):
      nd.yield %a_2 : tensor<f32>
    }
    %k = nd.checkpoint %m : (tensor<3xf32>) -> tensor<3xf32> {
    ^bb3(%a_3: tensor<3xf32>):
      nd.yield %a_3 : tensor<3xf32>
    }
    %v = nd.custom_vjp %k {results = 1 : i64} : (tensor<3xf32>) -> tensor<3xf32> forward {
    ^bb4(%a_4: tensor<3xf32>):
      nd.yield %a_4, %a_4 : tensor<3xf32>, tensor<3xf32>
    } backward {
    ^bb5(%r: tensor<3xf32>, %ct: tensor<3xf32>):
      nd.yield %ct : tensor<3xf32>
    }
    nd.checkpoint : () -> () {
      nd.yield
    }
    func.return %v : tensor<3xf32>
  }
}
