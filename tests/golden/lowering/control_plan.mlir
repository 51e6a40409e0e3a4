builtin.module {
  func.func @main(%x: tensor<5x3xf32>, %a: tensor<3xf32>, %n: tensor<i64>) -> (tensor<3xf32>, tensor<5xf32>, tensor<i64>, tensor<3xf32>) {
    %last, %rows = nd.scan %a, %x, %n {carry = 1 : i64, slices = 1 : i64, length = #nd.dims<"5">, reverse = true} : (tensor<3xf32>, tensor<5x3xf32>, tensor<i64>) -> (tensor<3xf32>, tensor<5xf32>) {
    ^bb0(%c: tensor<3xf32>, %s: tensor<3xf32>, %k: tensor<i64>):
      %r = nd.group %c {group = "loops", label = "loops_0", domain = #nd.dims<"3">, axes = array<i64: 0>, schedule = #nd.schedule<"template=loops lane=d0 lanes=8 grain=10000">} : (tensor<3xf32>) -> tensor<f32> {
      ^bb0(%c_1: tensor<3xf32>):
        %r_1 = nd.reduce_sum %c_1 {axes = array<i64: 0>, keepdims = false} : (tensor<3xf32>) -> tensor<f32>
        nd.yield %r_1 : tensor<f32>
      }
      %t = nd.group %c, %k, %s {group = "loops", label = "loops_1", domain = #nd.dims<"3">, axes = array<i64>, schedule = #nd.schedule<"template=loops lane=d0 lanes=8 block=2048 grain=10000">} : (tensor<3xf32>, tensor<i64>, tensor<3xf32>) -> tensor<3xf32> {
      ^bb0(%c_1: tensor<3xf32>, %k_1: tensor<i64>, %s_1: tensor<3xf32>):
        %f = nd.cast %k_1 {dtype = f32} : (tensor<i64>) -> tensor<f32>
        %m = nd.mul %c_1, %f : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
        %t_1 = nd.add %m, %s_1 : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
        nd.yield %t_1 : tensor<3xf32>
      }
      nd.yield %t, %r : tensor<3xf32>, tensor<f32>
    }
    %count, %root = nd.while %n, %last, %a {carry = 2 : i64} : (tensor<i64>, tensor<3xf32>, tensor<3xf32>) -> (tensor<i64>, tensor<3xf32>) while {
    ^bb0(%i: tensor<i64>, %v: tensor<3xf32>, %o: tensor<3xf32>):
      %more = nd.group %i {group = "loops", label = "loops_2", domain = #nd.dims<"">, axes = array<i64>, schedule = #nd.schedule<"template=loops">} : (tensor<i64>) -> tensor<i1> {
      ^bb0(%i_1: tensor<i64>):
        %end = nd.constant {value = #nd.literal<"i64 9">} : () -> tensor<i64>
        %more_1 = nd.lt %i_1, %end : (tensor<i64>, tensor<i64>) -> tensor<i1>
        nd.yield %more_1 : tensor<i1>
      }
      nd.yield %more : tensor<i1>
    } do {
    ^bb0(%j: tensor<i64>, %w: tensor<3xf32>, %p: tensor<3xf32>):
      %next = nd.group %j {group = "loops", label = "loops_3", domain = #nd.dims<"">, axes = array<i64>, schedule = #nd.schedule<"template=loops">} : (tensor<i64>) -> tensor<i64> {
      ^bb0(%j_1: tensor<i64>):
        %one = nd.constant {value = #nd.literal<"i64 1">} : () -> tensor<i64>
        %next_1 = nd.add %j_1, %one : (tensor<i64>, tensor<i64>) -> tensor<i64>
        nd.yield %next_1 : tensor<i64>
      }
      %sum = nd.group %w, %p {group = "loops", label = "loops_4", domain = #nd.dims<"3">, axes = array<i64>, schedule = #nd.schedule<"template=loops lane=d0 lanes=8 block=2048 grain=10000">} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32> {
      ^bb0(%w_1: tensor<3xf32>, %p_1: tensor<3xf32>):
        %sum_1 = nd.add %w_1, %p_1 : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
        nd.yield %sum_1 : tensor<3xf32>
      }
      nd.yield %next, %sum : tensor<i64>, tensor<3xf32>
    }
    %which = nd.group %count, %n {group = "loops", label = "loops_5", domain = #nd.dims<"">, axes = array<i64>, borders = ["0: kind"], schedule = #nd.schedule<"template=loops">} : (tensor<i64>, tensor<i64>) -> tensor<i1> {
    ^bb0(%count_1: tensor<i64>, %n_1: tensor<i64>):
      %which_1 = nd.eq %count_1, %n_1 : (tensor<i64>, tensor<i64>) -> tensor<i1>
      nd.yield %which_1 : tensor<i1>
    }
    %y = nd.cond %which, %root : (tensor<i1>, tensor<3xf32>) -> tensor<3xf32> then {
    ^bb0(%b: tensor<3xf32>):
      nd.yield %b : tensor<3xf32>
    } else {
    ^bb0(%d: tensor<3xf32>):
      %e = nd.group %d {group = "loops", label = "loops_6", domain = #nd.dims<"3">, axes = array<i64>, schedule = #nd.schedule<"template=loops lane=d0 lanes=8 block=2048 grain=10000">} : (tensor<3xf32>) -> tensor<3xf32> {
      ^bb0(%d_1: tensor<3xf32>):
        %e_1 = nd.neg %d_1 : (tensor<3xf32>) -> tensor<3xf32>
        nd.yield %e_1 : tensor<3xf32>
      }
      nd.yield %e : tensor<3xf32>
    }
    func.return %last, %rows, %count, %y : tensor<3xf32>, tensor<5xf32>, tensor<i64>, tensor<3xf32>
  }
  plan.program attributes {entry = "main", dims = [], arena = #nd.dims<"128">, aliases = []} {
    %0 = plan.input {index = 0 : i64} : !plan.buffer
    %1 = plan.input {index = 1 : i64} : !plan.buffer
    %2 = plan.input {index = 2 : i64} : !plan.buffer
    %3 = plan.output {index = 0 : i64} : !plan.buffer
    %4 = plan.output {index = 1 : i64} : !plan.buffer
    %5 = plan.output {index = 2 : i64} : !plan.buffer
    %6 = plan.output {index = 3 : i64} : !plan.buffer
    plan.copy %1, %3 {bytes = #nd.dims<"12">} : !plan.buffer, !plan.buffer
    plan.for attributes {counter = "step0", count = #nd.dims<"5">} {
      %7 = plan.view %0 {offset = #nd.dims<"-12*step0 + 48">} : !plan.buffer
      %8 = plan.view %4 {offset = #nd.dims<"-4*step0 + 16">} : !plan.buffer
      plan.launch %3, %8 {kernel = @loops_0, count = #nd.dims<"1">, grain = 10000 : i64, scratch = #nd.dims<"0">, at = #nd.dims<"128">} : !plan.buffer, !plan.buffer
      plan.launch %3, %2, %7, %3 {kernel = @loops_1, count = #nd.dims<"1">, grain = 10000 : i64, scratch = #nd.dims<"0">, at = #nd.dims<"128">} : !plan.buffer, !plan.buffer, !plan.buffer, !plan.buffer
    }
    %9 = plan.alloc {offset = #nd.dims<"64">, size = #nd.dims<"64">} : !plan.buffer
    plan.copy %2, %5 {bytes = #nd.dims<"8">} : !plan.buffer, !plan.buffer
    plan.copy %3, %9 {bytes = #nd.dims<"12">} : !plan.buffer, !plan.buffer
    %10 = plan.alloc {offset = #nd.dims<"0">, size = #nd.dims<"64">} : !plan.buffer
    plan.while %10 {counter = "step1"} : !plan.buffer while {
      plan.launch %5, %10 {kernel = @loops_2, count = #nd.dims<"1">, grain = 1 : i64, scratch = #nd.dims<"0">, at = #nd.dims<"128">} : !plan.buffer, !plan.buffer
    } do {
      plan.launch %5, %5 {kernel = @loops_3, count = #nd.dims<"1">, grain = 1 : i64, scratch = #nd.dims<"0">, at = #nd.dims<"128">} : !plan.buffer, !plan.buffer
      plan.launch %9, %1, %9 {kernel = @loops_4, count = #nd.dims<"1">, grain = 10000 : i64, scratch = #nd.dims<"0">, at = #nd.dims<"128">} : !plan.buffer, !plan.buffer, !plan.buffer
    }
    %11 = plan.alloc {offset = #nd.dims<"0">, size = #nd.dims<"64">} : !plan.buffer
    plan.launch %5, %2, %11 {kernel = @loops_5, count = #nd.dims<"1">, grain = 1 : i64, scratch = #nd.dims<"0">, at = #nd.dims<"128">} : !plan.buffer, !plan.buffer, !plan.buffer
    plan.if %11 : !plan.buffer then {
      plan.copy %9, %6 {bytes = #nd.dims<"12">} : !plan.buffer, !plan.buffer
    } else {
      plan.launch %9, %6 {kernel = @loops_6, count = #nd.dims<"1">, grain = 10000 : i64, scratch = #nd.dims<"0">, at = #nd.dims<"128">} : !plan.buffer, !plan.buffer
    }
    plan.end
  }
}
