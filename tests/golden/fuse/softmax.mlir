builtin.module {
  func.func @main(%0: tensor<?x16xf32, #nd.dims<"b, 16">>) -> tensor<?x16xf32, #nd.dims<"b, 16">> {
    %1 = nd.group %0 {group = "loops", label = "", domain = #nd.dims<"b, 16">, axes = array<i64: 1>} : (tensor<?x16xf32, #nd.dims<"b, 16">>) -> tensor<?x16xf32, #nd.dims<"b, 16">> {
    ^bb0(%2: tensor<?x16xf32, #nd.dims<"b, 16">>):
      %3 = nd.reduce_max %2 {axes = array<i64: 1>, keepdims = true} : (tensor<?x16xf32, #nd.dims<"b, 16">>) -> tensor<?x1xf32, #nd.dims<"b, 1">>
      %4 = nd.sub %2, %3 : (tensor<?x16xf32, #nd.dims<"b, 16">>, tensor<?x1xf32, #nd.dims<"b, 1">>) -> tensor<?x16xf32, #nd.dims<"b, 16">>
      %5 = nd.exp %4 : (tensor<?x16xf32, #nd.dims<"b, 16">>) -> tensor<?x16xf32, #nd.dims<"b, 16">>
      %6 = nd.reduce_sum %5 {axes = array<i64: 1>, keepdims = true} : (tensor<?x16xf32, #nd.dims<"b, 16">>) -> tensor<?x1xf32, #nd.dims<"b, 1">>
      %7 = nd.div %5, %6 : (tensor<?x16xf32, #nd.dims<"b, 16">>, tensor<?x1xf32, #nd.dims<"b, 1">>) -> tensor<?x16xf32, #nd.dims<"b, 16">>
      nd.yield %7 : tensor<?x16xf32, #nd.dims<"b, 16">>
    }
    func.return %1 : tensor<?x16xf32, #nd.dims<"b, 16">>
  }
}
