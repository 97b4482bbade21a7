// In a model that Tandem exported, fused nodes become fused ops again, and the other
// branch of a guard stays as it is.
// RUN: fusion-opt %s --tandem-raise | FileCheck %s
// RUN: fusion-opt %s --tandem-fuse-pipeline=report=%t.json -o /dev/null 2>/dev/null && FileCheck %s --check-prefix=REPORT --input-file=%t.json

// REPORT: "all_reduces": 3,
// REPORT-NEXT: "fused": 3,
// REPORT-NEXT: "guarded": 2,
// REPORT-NEXT: "missed": 0
// REPORT: "pattern": "all_reduce_add_rms_norm",
// REPORT-NEXT: "guard": "as the model checks",
// REPORT: "pattern": "all_reduce_rms_norm",
// REPORT-NEXT: "guard": "tokens <= 8",
// REPORT: "pattern": "all_reduce_rms_norm",
// REPORT-NEXT: "guard": null,

module attributes {
  tandem.onnx = {opset_imports = {ai.onnx = 21 : i64, ai.tandem = 1 : i64}},
  tandem.all_reduce_nodes = [{group = #tandem.group<"tp", size = 2>, reduction = #tandem<reduction sum>, nodes = []}, {
    group = #tandem.group<"world">, reduction = #tandem<reduction sum>,
    nodes = [{op = "onnx.Custom", attributes = {domain_name = "com.microsoft", function_name = "AllReduce"}}]}]
} {
  // CHECK-LABEL: func.func @main
  func.func @main(%x: tensor<?x8xf32>, %h: tensor<?x8xf32>, %g: tensor<8xf32>, %within: tensor<i1>) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
    // CHECK: "onnx.If"
    // CHECK: %[[F:.*]]:2 = tandem.fused_all_reduce_norm %arg0 residual(%arg1 : tensor<?x8xf32>) gamma(%arg2 : tensor<8xf32>)
    // CHECK-SAME: epsilon = 9.9999997473787516E-6 : f64, onnx_node_name = "site", returns_residual, {{.*}}tandem.outputs = ["n", "r"]
    // CHECK-NEXT: "onnx.Yield"(%[[F]]#0, %[[F]]#1)
    // CHECK: "onnx.Custom"(%arg0) {domain_name = "com.microsoft", function_name = "AllReduce"}
    // CHECK-NOT: tandem.add
    %0:2 = "onnx.If"(%within) ({
      %n, %r, %s = "onnx.Custom"(%x, %h, %g) {domain_name = "ai.tandem", function_name = "AllReduceAddRMSNorm_2", onnx_node_name = "site", tandem.outputs = ["n", "r", ""], epsilon = 1.0e-5 : f32, rounding = "before_gamma", group = "world", group_size = 0 : si64, ranks = [], batch_invariant = 0 : si64, max_tokens = -1 : si64} : (tensor<?x8xf32>, tensor<?x8xf32>, tensor<8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>, none)
      "onnx.Yield"(%n, %r) : (tensor<?x8xf32>, tensor<?x8xf32>) -> ()
    }, {
      %1 = "onnx.Custom"(%x) {domain_name = "com.microsoft", function_name = "AllReduce"} : (tensor<?x8xf32>) -> tensor<?x8xf32>
      %2 = "onnx.Add"(%1, %h) : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
      %3 = "onnx.RMSNormalization"(%2, %g) {epsilon = 1.0e-5 : f32} : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
      "onnx.Yield"(%3, %2) : (tensor<?x8xf32>, tensor<?x8xf32>) -> ()
    }) {tandem.bodies = [{name = "fused"}, {name = "unfused"}]} : (tensor<i1>) -> (tensor<?x8xf32>, tensor<?x8xf32>)
    // The fused op as a node alone, which has a limit of its own.
    // CHECK: tandem.fused_all_reduce_norm %{{.*}}#0 gamma(%arg2
    // CHECK-SAME: batch_invariant, epsilon = 0.000000e+00 : f64, group = #tandem.group<"tp", size = 2>, rounding = #tandem<rounding after_gamma>, tandem.guard = "tokens <= 8", tandem.max_tokens = 8
    %4 = "onnx.Custom"(%0#0, %g) {domain_name = "ai.tandem", function_name = "AllReduceRMSNorm", epsilon = 0.0 : f32, rounding = "after_gamma", group = "tp", group_size = 2 : si64, batch_invariant = 1 : si64, max_tokens = 8 : si64} : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
    // Of unknown size: it stays a node, and counts as fused.
    // CHECK: "onnx.Custom"(%{{.*}}, %arg2) {{.*}}function_name = "AllReduceRMSNorm"
    %5 = "onnx.Unknown"(%4) : (tensor<?x8xf32>) -> tensor<*xf32>
    %6 = "onnx.Custom"(%5, %g) {domain_name = "ai.tandem", function_name = "AllReduceRMSNorm", epsilon = 1.0e-5 : f32, rounding = "after_gamma", group = "tp", group_size = 2 : si64} : (tensor<*xf32>, tensor<8xf32>) -> tensor<*xf32>
    return %4, %0#1 : tensor<?x8xf32>, tensor<?x8xf32>
  }
}
