// The thin onnx dialect takes every op and type as it is written, and no pass
// knows anything about such an op.
// RUN: fusion-opt %s | fusion-opt | FileCheck %s
// RUN: fusion-opt %s --mlir-print-op-generic | fusion-opt | FileCheck %s
// RUN: fusion-opt %s --emit-bytecode | fusion-opt | FileCheck %s
// RUN: fusion-opt %s --verify-roundtrip --canonicalize --cse --symbol-dce \
// RUN:   | FileCheck %s

// CHECK-LABEL: func.func @types
// CHECK-SAME: !onnx.String
// CHECK-SAME: !onnx<"Seq<tensor<?xf32>>">
func.func @types(%s: tensor<2x!onnx.String>, %q: !onnx<"Seq<tensor<?xf32>>">) {
  return
}

// Attributes, a value that is left out, a region with captures.
// CHECK-LABEL: func.func @ops
func.func @ops(%c: tensor<i1>, %x: tensor<?x8xf32> {onnx.name = "x"})
    -> tensor<?x8xf32> {
  // CHECK: "onnx.NoValue"() {value} : () -> none
  %none = "onnx.NoValue"() {value} : () -> none
  // CHECK: "onnx.Clip"(%{{.*}}, %{{.*}}, %{{.*}}) {onnx_node_name = "clip"}
  %0 = "onnx.Clip"(%x, %none, %none) {onnx_node_name = "clip"}
    : (tensor<?x8xf32>, none, none) -> tensor<?x8xf32>
  // CHECK: "onnx.If"
  %1 = "onnx.If"(%c) ({
    "onnx.Yield"(%0) : (tensor<?x8xf32>) -> ()
  }, {
    // CHECK: "onnx.Softmax"(%{{.*}}) {axis = -1 : si64}
    %2 = "onnx.Softmax"(%0) {axis = -1 : si64}
      : (tensor<?x8xf32>) -> tensor<?x8xf32>
    "onnx.Yield"(%2) : (tensor<?x8xf32>) -> ()
  }) : (tensor<i1>) -> tensor<?x8xf32>
  // Unused, twice the same, and still both there: it may have effects.
  // CHECK-COUNT-2: "onnx.Custom"
  %3 = "onnx.Custom"(%1) {domain_name = "d", function_name = "f"}
    : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %4 = "onnx.Custom"(%1) {domain_name = "d", function_name = "f"}
    : (tensor<?x8xf32>) -> tensor<?x8xf32>
  return %1 : tensor<?x8xf32>
}
