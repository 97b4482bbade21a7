// A model that Tandem exported with guards as If nodes stays as it is: raised and
// fused again, both branches of each guard would hold a guard of their own.
// RUN: fusion-opt %s --tandem-fuse-pipeline 2>&1 | FileCheck %s
// RUN: sed 's/ai.tandem/org.other/' %s | fusion-opt --tandem-raise | FileCheck %s --check-prefix=OTHER

// CHECK: warning: this ONNX model was exported by Tandem: it is fused already and stays as it is
// CHECK-NOT: = tandem.
// OTHER-NOT: warning
// OTHER-COUNT-2: = tandem.all_reduce
module attributes {tandem.onnx = {opset_imports = {ai.onnx = 21 : i64, ai.tandem = 1 : i64}}} {
  func.func @main(%x: tensor<?x8xf32>, %within: tensor<i1>) -> tensor<?x8xf32> {
    %0 = "onnx.If"(%within) ({
      %1 = "onnx.Custom"(%x) {domain_name = "com.microsoft", function_name = "AllReduce"} : (tensor<?x8xf32>) -> tensor<?x8xf32>
      "onnx.Yield"(%1) : (tensor<?x8xf32>) -> ()
    }, {
      %2 = "onnx.Custom"(%x) {domain_name = "com.microsoft", function_name = "AllReduce"} : (tensor<?x8xf32>) -> tensor<?x8xf32>
      "onnx.Yield"(%2) : (tensor<?x8xf32>) -> ()
    }) : (tensor<i1>) -> tensor<?x8xf32>
    return %0 : tensor<?x8xf32>
  }
}
