builtin.module {
  func.func @main(%x: tensor<5x3xf32>, %a: tensor<3xf32>, %n: tensor<i64>) -> (tensor<3xf32>, tensor<5xf32>, tensor<i64>, tensor<3xf32>) {
    %last, %rows = nd.scan %a, %x, %n {carry = 1 : i64, slices = 1 : i64, length = #nd.dims<"5">, reverse = true} : (tensor<3xf32>, tensor<5x3xf32>, tensor<i64>) -> (tensor<3xf32>, tensor<5xf32>) {
    ^bb0(%c: tensor<3xf32>, %s: tensor<3xf32>, %k: tensor<i64>):
      %f = nd.cast %k {dtype = f32} : (tensor<i64>) -> tensor<f32>
      %m = nd.mul %c, %f : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
      %t = nd.add %m, %s : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
      %r = nd.reduce_sum %c {axes = array<i64: 0>, keepdims = false} : (tensor<3xf32>) -> tensor<f32>
      nd.yield %t, %r : tensor<3xf32>, tensor<f32>
    }
    %count, %root = nd.while %n, %last, %a {carry = 2 : i64} : (tensor<i64>, tensor<3xf32>, tensor<3xf32>) -> (tensor<i64>, tensor<3xf32>) while {
    ^bb1(%i: tensor<i64>, %v: tensor<3xf32>, %o: tensor<3xf32>):
      %end = nd.constant {value = #nd.literal<"i64 9">} : () -> tensor<i64>
      %more = nd.lt %i, %end : (tensor<i64>, tensor<i64>) -> tensor<i1>
      nd.yield %more : tensor<i1>
    } do {
    ^bb2(%j: tensor<i64>, %w: tensor<3xf32>, %p: tensor<3xf32>):
      %one = nd.constant {value = #nd.literal<"i64 1">} : () -> tensor<i64>
      %next = nd.add %j, %one : (tensor<i64>, tensor<i64>) -> tensor<i64>
      %sum = nd.add %w, %p : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
      nd.yield %next, %sum : tensor<i64>, tensor<3xf32>
    }
    %which = nd.eq %count, %n : (tensor<i64>, tensor<i64>) -> tensor<i1>
    %y = nd.cond %which, %root : (tensor<i1>, tensor<3xf32>) -> tensor<3xf32> then {
    ^bb3(%b: tensor<3xf32>):
      nd.yield %b : tensor<3xf32>
    } else {
    ^bb4(%d: tensor<3xf32>):
      %e = nd.neg %d : (tensor<3xf32>) -> tensor<3xf32>
      nd.yield %e : tensor<3xf32>
    }
    func.return %last, %rows, %count, %y : tensor<3xf32>, tensor<5xf32>, tensor<i64>, tensor<3xf32>
  }
}
