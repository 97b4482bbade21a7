// All ops, attributes and types, through the custom and the generic form.
// RUN: fusion-opt %s | fusion-opt | FileCheck %s
// RUN: fusion-opt %s --mlir-print-op-generic | fusion-opt | FileCheck %s
// RUN: fusion-opt %s --mlir-print-op-generic \
// RUN:   | FileCheck %s --check-prefix=GENERIC
// RUN: fusion-opt %s --emit-bytecode | fusion-opt | FileCheck %s

// CHECK-LABEL: func.func @types
// CHECK-SAME: (%{{.*}}: !tandem.workspace, %{{.*}}: !tandem.stream)
func.func @types(%w: !tandem.workspace, %s: !tandem.stream) {
  return
}

// Fields at their defaults are left out.
// CHECK-LABEL: func.func private @attributes
// CHECK-SAME: external0 = #tandem.external<"w.data">
// CHECK-SAME: external1 = #tandem.external<"dir/w\22.data", offset = 4096, length = 0>
// CHECK-SAME: group0 = #tandem.group<"world">
// CHECK-SAME: group1 = #tandem.group<"tp", size = 2>
// CHECK-SAME: group2 = #tandem.group<"tp", size = 2, ranks = [0, 1, 4, 5]>
// CHECK-SAME: reductions = [#tandem<reduction sum>, #tandem<reduction product>, #tandem<reduction min>, #tandem<reduction max>, #tandem<reduction average>]
// CHECK-SAME: roundings = [#tandem<rounding before_gamma>, #tandem<rounding after_gamma>]
func.func private @attributes() attributes {
  external0 = #tandem.external<"w.data", offset = 0, length = -1>,
  external1 = #tandem.external<"dir/w\22.data", length = 0, offset = 4096>,
  group0 = #tandem.group<"world", size = 0, ranks = []>,
  group1 = #tandem.group<"tp", size = 2>,
  group2 = #tandem.group<"tp", ranks = [0, 1, 4, 5], size = 2>,
  reductions = [#tandem<reduction sum>, #tandem<reduction product>,
                #tandem<reduction min>, #tandem<reduction max>,
                #tandem<reduction average>],
  roundings = [#tandem<rounding before_gamma>, #tandem<rounding after_gamma>]
}

// CHECK-LABEL: func.func @all_reduce
// GENERIC-LABEL: sym_name = "all_reduce"
func.func @all_reduce(%x: tensor<?x?x64xbf16>, %i: tensor<4xi32>,
                      %u: tensor<*xf32>, %s: tensor<f32>,
                      %w: !tandem.workspace, %st: !tandem.stream) {
  // CHECK: tandem.all_reduce %{{.*}} : tensor<?x?x64xbf16>
  // GENERIC: "tandem.all_reduce"(%{{.*}}) <{group = #tandem.group<"world">, operandSegmentSizes = array<i32: 1, 0, 0>, reduction = #tandem<reduction sum>}> ({
  // GENERIC-NEXT: }) : (tensor<?x?x64xbf16>) -> tensor<?x?x64xbf16>
  %0 = tandem.all_reduce %x : tensor<?x?x64xbf16>
  // CHECK: tandem.all_reduce %{{.*}} workspace %{{.*}} : tensor<?x?x64xbf16>
  // GENERIC: "tandem.all_reduce"(%{{.*}}, %{{.*}}) <{{.*}}operandSegmentSizes = array<i32: 1, 1, 0>
  %1 = tandem.all_reduce %x workspace %w : tensor<?x?x64xbf16>
  // CHECK: tandem.all_reduce %{{.*}} stream %{{.*}} : tensor<?x?x64xbf16>
  // GENERIC: "tandem.all_reduce"(%{{.*}}, %{{.*}}) <{{.*}}operandSegmentSizes = array<i32: 1, 0, 1>
  %2 = tandem.all_reduce %x stream %st : tensor<?x?x64xbf16>
  // CHECK: tandem.all_reduce %{{.*}} workspace %{{.*}} stream %{{.*}} {batch_invariant, fallback, group = #tandem.group<"tp", size = 4>, reduction = #tandem<reduction max>, source_positions = array<i64>} : tensor<?x?x64xbf16>
  %3 = tandem.all_reduce %x workspace %w stream %st
      {group = #tandem.group<"tp", size = 4>, reduction = #tandem<reduction max>,
       fallback, batch_invariant, source_positions = array<i64>}
      : tensor<?x?x64xbf16>
  // Integers, rank 0 and tensors of unknown rank can be reduced too.
  // CHECK: tandem.all_reduce %{{.*}} {reduction = #tandem<reduction min>} : tensor<4xi32>
  %4 = tandem.all_reduce %i {reduction = #tandem<reduction min>} : tensor<4xi32>
  // CHECK: tandem.all_reduce %{{.*}} : tensor<*xf32>
  %5 = tandem.all_reduce %u : tensor<*xf32>
  // CHECK: tandem.all_reduce %{{.*}} : tensor<f32>
  %6 = tandem.all_reduce %s : tensor<f32>
  // Discardable attributes are kept.
  // CHECK: tandem.all_reduce %{{.*}} {onnx_node_name = "ar"} : tensor<f32>
  %7 = tandem.all_reduce %s {onnx_node_name = "ar"} : tensor<f32>
  return
}

// CHECK-LABEL: func.func @add
// GENERIC-LABEL: sym_name = "add"
func.func @add(%a: tensor<?x8xf16>, %b: tensor<?x8xf16>, %s: tensor<f64>) {
  // CHECK: tandem.add %{{.*}}, %{{.*}} : tensor<?x8xf16>
  // GENERIC: "tandem.add"(%{{.*}}, %{{.*}}) ({
  // GENERIC-NEXT: }) : (tensor<?x8xf16>, tensor<?x8xf16>) -> tensor<?x8xf16>
  %0 = tandem.add %a, %b : tensor<?x8xf16>
  // CHECK: tandem.add %{{.*}}, %{{.*}} {source_positions = array<i64>} : tensor<f64>
  %1 = tandem.add %s, %s {source_positions = array<i64>} : tensor<f64>
  return
}

// CHECK-LABEL: func.func @rms_norm
// GENERIC-LABEL: sym_name = "rms_norm"
func.func @rms_norm(%x: tensor<?x8xbf16>, %g: tensor<8xf32>,
                    %d: tensor<?x?xf32>, %e: tensor<?xf32>) {
  // CHECK: tandem.rms_norm %{{.*}}, %{{.*}} {epsilon = 1.000000e-05 : f64} : tensor<?x8xbf16>, tensor<8xf32>
  // GENERIC: "tandem.rms_norm"(%{{.*}}, %{{.*}}) <{epsilon = 1.000000e-05 : f64, rounding = #tandem<rounding before_gamma>}> ({
  %0 = tandem.rms_norm %x, %g {epsilon = 1.0e-5 : f64}
      : tensor<?x8xbf16>, tensor<8xf32>
  // CHECK: tandem.rms_norm %{{.*}}, %{{.*}} {epsilon = 0.000000e+00 : f64, rounding = #tandem<rounding after_gamma>} : tensor<?x?xf32>, tensor<?xf32>
  %1 = tandem.rms_norm %d, %e
      {epsilon = 0.0 : f64, rounding = #tandem<rounding after_gamma>}
      : tensor<?x?xf32>, tensor<?xf32>
  // Epsilon keeps all bits of an f32 constant.
  // CHECK: epsilon = 9.9999999747524271E-7 : f64
  %2 = tandem.rms_norm %d, %e {epsilon = 9.9999999747524271e-07 : f64}
      : tensor<?x?xf32>, tensor<?xf32>
  return
}

// CHECK-LABEL: func.func @fused
// CHECK-SAME: (%[[X:[^:]*]]: tensor<?x8xbf16>, %[[R:[^:]*]]: tensor<?x8xbf16>, %[[B:[^:]*]]: tensor<8xbf16>, %[[P:[^:]*]]: tensor<8xf32>, %[[G:[^:]*]]: tensor<8xbf16>, %[[D:[^:]*]]: tensor<?x8xbf16>, %[[W:[^:]*]]: !tandem.workspace, %[[S:[^:]*]]: !tandem.stream)
// GENERIC-LABEL: sym_name = "fused"
func.func @fused(%x: tensor<?x8xbf16>, %r: tensor<?x8xbf16>,
                 %b: tensor<8xbf16>, %p: tensor<8xf32>, %g: tensor<8xbf16>,
                 %d: tensor<?x8xbf16>, %w: !tandem.workspace,
                 %s: !tandem.stream) {
  // CHECK: %{{.*}} = tandem.fused_all_reduce_norm %[[X]] gamma(%[[G]] : tensor<8xbf16>) outs(%[[D]] : tensor<?x8xbf16>) {epsilon = 1.000000e-05 : f64} : tensor<?x8xbf16> -> tensor<?x8xbf16>
  // GENERIC: "tandem.fused_all_reduce_norm"(%{{.*}}, %{{.*}}, %{{.*}}) <{epsilon = 1.000000e-05 : f64, group = #tandem.group<"world">, operandSegmentSizes = array<i32: 1, 0, 0, 0, 1, 0, 0, 1>, pre_rounding = #tandem<rounding before_gamma>, rounding = #tandem<rounding before_gamma>}> : (tensor<?x8xbf16>, tensor<8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %0 = tandem.fused_all_reduce_norm %x gamma(%g : tensor<8xbf16>)
      outs(%d : tensor<?x8xbf16>) {epsilon = 1.0e-5 : f64}
      : tensor<?x8xbf16> -> tensor<?x8xbf16>
  // The sum alone is the second result here.
  // CHECK: %{{.*}}:2 = tandem.fused_all_reduce_norm %[[X]] bias(%[[B]] : tensor<8xbf16>) gamma(%[[G]] : tensor<8xbf16>) outs(%[[D]], %[[D]] : tensor<?x8xbf16>, tensor<?x8xbf16>) {epsilon = 1.000000e-05 : f64, returns_sum} : tensor<?x8xbf16> -> tensor<?x8xbf16>, tensor<?x8xbf16>
  %1:2 = tandem.fused_all_reduce_norm %x bias(%b : tensor<8xbf16>)
      gamma(%g : tensor<8xbf16>)
      outs(%d, %d : tensor<?x8xbf16>, tensor<?x8xbf16>)
      {epsilon = 1.0e-5 : f64, returns_sum}
      : tensor<?x8xbf16> -> tensor<?x8xbf16>, tensor<?x8xbf16>
  // CHECK: %{{.*}}:2 = tandem.fused_all_reduce_norm %[[X]] residual(%[[R]] : tensor<?x8xbf16>) gamma(%[[G]] : tensor<8xbf16>) workspace %[[W]] outs(%[[D]], %[[D]] : tensor<?x8xbf16>, tensor<?x8xbf16>) {epsilon = 1.000000e-05 : f64, returns_residual, rounding = #tandem<rounding after_gamma>} : tensor<?x8xbf16> -> tensor<?x8xbf16>, tensor<?x8xbf16>
  %2:2 = tandem.fused_all_reduce_norm %x residual(%r : tensor<?x8xbf16>)
      gamma(%g : tensor<8xbf16>) workspace %w
      outs(%d, %d : tensor<?x8xbf16>, tensor<?x8xbf16>)
      {epsilon = 1.0e-5 : f64, returns_residual,
       rounding = #tandem<rounding after_gamma>}
      : tensor<?x8xbf16> -> tensor<?x8xbf16>, tensor<?x8xbf16>
  // CHECK: %{{.*}}:3 = tandem.fused_all_reduce_norm %[[X]] residual(%[[R]] : tensor<?x8xbf16>) bias(%[[B]] : tensor<8xbf16>) pre_gamma(%[[P]] : tensor<8xf32>) gamma(%[[G]] : tensor<8xbf16>) workspace %[[W]] stream %[[S]] outs(%[[D]], %[[D]], %[[D]] : tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>) {batch_invariant, epsilon = 1.000000e-05 : f64, group = #tandem.group<"tp", size = 2>, pre_epsilon = 1.250000e-01 : f64, pre_rounding = #tandem<rounding after_gamma>, returns_residual, returns_sum} : tensor<?x8xbf16> -> tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>
  %3:3 = tandem.fused_all_reduce_norm %x residual(%r : tensor<?x8xbf16>)
      bias(%b : tensor<8xbf16>) pre_gamma(%p : tensor<8xf32>)
      gamma(%g : tensor<8xbf16>) workspace %w stream %s
      outs(%d, %d, %d : tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>)
      {batch_invariant, epsilon = 1.0e-5 : f64,
       group = #tandem.group<"tp", size = 2>, pre_epsilon = 0.125 : f64,
       pre_rounding = #tandem<rounding after_gamma>, returns_residual,
       returns_sum}
      : tensor<?x8xbf16>
        -> tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>
  // CHECK: tandem.fused_all_reduce_norm %[[X]] gamma(%[[G]] : tensor<8xbf16>) stream %[[S]] outs
  %4 = tandem.fused_all_reduce_norm %x gamma(%g : tensor<8xbf16>) stream %s
      outs(%d : tensor<?x8xbf16>) {epsilon = 1.0e-5 : f64}
      : tensor<?x8xbf16> -> tensor<?x8xbf16>
  return
}

// CHECK-LABEL: func.func @token_limit
// GENERIC-LABEL: sym_name = "token_limit"
func.func @token_limit(%w: !tandem.workspace) {
  // CHECK: tandem.token_limit {element_type = bf16, hidden = 4096 : i64}
  // GENERIC: "tandem.token_limit"() <{element_type = bf16, group = #tandem.group<"world">, hidden = 4096 : i64}> : () -> i64
  %0 = tandem.token_limit {hidden = 4096 : i64, element_type = bf16}
  // CHECK: tandem.token_limit %{{.*}} {element_type = f32, group = #tandem.group<"tp">, hidden = 8 : i64}
  %1 = tandem.token_limit %w {hidden = 8 : i64, element_type = f32,
                              group = #tandem.group<"tp">}
  return
}

// What a raised op remembers of its source: unknown ops, captured values, and
// a value that is not a tensor.
// CHECK-LABEL: func.func @source
// CHECK-SAME: (%[[X:[^:]*]]: tensor<4x8xf32>, %[[G:[^:]*]]: tensor<8xf32>)
// GENERIC-LABEL: sym_name = "source"
func.func @source(%x: tensor<4x8xf32>, %g: tensor<8xf32>) {
  // CHECK: tandem.all_reduce %[[X]] {source_positions = array<i64: 0>} : tensor<4x8xf32> source {
  // CHECK-NEXT: %[[S:.*]] = "onnx.Custom"(%[[X]])
  // CHECK-NEXT: tandem.yield %[[S]] : tensor<4x8xf32>
  // CHECK-NEXT: }
  // GENERIC: "tandem.yield"(%{{.*}}) : (tensor<4x8xf32>) -> ()
  %s = tandem.all_reduce %x {source_positions = array<i64: 0>}
      : tensor<4x8xf32> source {
    %0 = "onnx.Custom"(%x) {function_name = "AllReduce",
                            domain_name = "com.microsoft"}
        : (tensor<4x8xf32>) -> tensor<4x8xf32>
    tandem.yield %0 : tensor<4x8xf32>
  }
  // CHECK: tandem.add %{{.*}}, %[[X]] : tensor<4x8xf32> source {
  // CHECK-NEXT: "onnx.Add"
  // CHECK-NEXT: tandem.yield {{.*}} : !onnx.Any
  %a = tandem.add %s, %x : tensor<4x8xf32> source {
    %0 = "onnx.Add"(%s, %x) : (tensor<4x8xf32>, tensor<4x8xf32>) -> !onnx.Any
    tandem.yield %0 : !onnx.Any
  }
  // CHECK: tandem.rms_norm %{{.*}}, %[[G]] {epsilon = 1.000000e-05 : f64} : tensor<4x8xf32>, tensor<8xf32> source {
  // CHECK-NEXT: %[[N:.*]]:2 = "onnx.Skip"
  // CHECK-NEXT: tandem.yield %[[N]]#0, %[[N]]#1 : tensor<4x8xf32>, tensor<4x8xf32>
  %n = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64}
      : tensor<4x8xf32>, tensor<8xf32> source {
    %0:2 = "onnx.Skip"(%s, %x, %g)
        : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>)
        -> (tensor<4x8xf32>, tensor<4x8xf32>)
    tandem.yield %0#0, %0#1 : tensor<4x8xf32>, tensor<4x8xf32>
  }
  return
}
