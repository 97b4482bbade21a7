// What v1.0.mlirbc was made from, by version 1.0 of the dialect:
//   fusion-opt v1.0.mlir -o v1.0.mlirbc
module attributes {tandem.signature = ["all_reduce_sum group=world type=?x8xbf16"]} {
  func.func @ops(%x: tensor<?x8xbf16>, %r: tensor<?x8xbf16>,
                 %b: tensor<8xbf16>, %p: tensor<8xf32>, %g: tensor<8xbf16>,
                 %d: tensor<?x8xbf16>, %w: !tandem.workspace,
                 %s: !tandem.stream) {
    %0 = tandem.all_reduce %x : tensor<?x8xbf16>
    %1 = tandem.all_reduce %x workspace %w stream %s
        {group = #tandem.group<"tp", size = 2, ranks = [0, 1, 2, 3]>,
         reduction = #tandem<reduction max>, fallback, batch_invariant}
        : tensor<?x8xbf16>
    %2 = tandem.add %0, %r : tensor<?x8xbf16>
    %3 = tandem.rms_norm %2, %g
        {epsilon = 9.9999999747524271e-07 : f64,
         rounding = #tandem<rounding after_gamma>}
        : tensor<?x8xbf16>, tensor<8xbf16>
    %4 = tandem.fused_all_reduce_norm %x gamma(%g : tensor<8xbf16>)
        outs(%d : tensor<?x8xbf16>) {epsilon = 0.5 : f64}
        : tensor<?x8xbf16> -> tensor<?x8xbf16>
    %5:3 = tandem.fused_all_reduce_norm %x residual(%r : tensor<?x8xbf16>)
        bias(%b : tensor<8xbf16>) pre_gamma(%p : tensor<8xf32>)
        gamma(%g : tensor<8xbf16>) workspace %w stream %s
        outs(%d, %d, %d : tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>)
        {batch_invariant, epsilon = 0.5 : f64,
         group = #tandem.group<"tp", size = 2>, pre_epsilon = 0.125 : f64,
         pre_rounding = #tandem<rounding after_gamma>, returns_residual,
         returns_sum}
        : tensor<?x8xbf16>
          -> tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>
    %6 = tandem.token_limit %w {hidden = 8 : i64, element_type = bf16}
    return
  }
  func.func @source(%x: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {
      weights = #tandem.external<"w.data", offset = 4096, length = 8192>} {
    %0 = tandem.all_reduce %x {source_positions = array<i64: 0>}
        : tensor<4x8xf32> source {
      %1 = "onnx.Custom"(%x) {function_name = "AllReduce",
                              domain_name = "com.microsoft"}
          : (tensor<4x8xf32>) -> tensor<4x8xf32>
      tandem.yield %1 : tensor<4x8xf32>
    }
    return %0 : tensor<4x8xf32>
  }
}
