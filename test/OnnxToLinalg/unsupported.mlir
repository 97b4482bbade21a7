// RUN: not fusion-opt %s --allow-unregistered-dialect --tandem-onnx-to-linalg 2>&1 | FileCheck %s
// RUN: not fusion-opt %s --allow-unregistered-dialect --tandem-onnx-to-linalg 2>&1 | grep -c 'error:' | FileCheck %s --check-prefix=ONE

// One error for all of them, each kind with its number and its first place.
// ONE: {{^}}1{{$}}
// CHECK: error: tandem-onnx-to-linalg: 4 of the ops are of 3 kinds that can't be lowered: onnx.Softmax (2, first at {{.*}}unsupported.mlir:9:{{[0-9]+}}), com.microsoft.Gelu (1, first at {{.*}}unsupported.mlir:11:{{[0-9]+}}), onnx.Tanh (1, first at {{.*}}unsupported.mlir:12:{{[0-9]+}})

func.func @f(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = "onnx.Softmax"(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = "onnx.Softmax"(%0) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = "onnx.Custom"(%1) {function_name = "Gelu", domain_name = "com.microsoft"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %3 = "torch.operator"(%2) {name = "onnx.Tanh"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %3 : tensor<4x4xf32>
}
