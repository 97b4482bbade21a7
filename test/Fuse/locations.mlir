// The fused op has the locations of all that it replaces, the all-reduce's
// first; file, place and name survive, and so do those of the other branch.
//
// RUN: fusion-opt %s --tandem-fuse-pipeline='report=%t.json' --mlir-print-debuginfo -o %t.once
// RUN: FileCheck %s < %t.once
// RUN: FileCheck %s --check-prefix=REPORT < %t.json
// RUN: fusion-opt %t.once --tandem-fuse-pipeline='report=%t.2.json' --mlir-print-debuginfo -o %t.twice
// RUN: cmp %t.once %t.twice
//
// A second run says the same of where the all-reduce stood.
// RUN: FileCheck %s --check-prefix=REPORT < %t.2.json
// REPORT: "location": "\"/o_proj/AllReduce\" at model.onnx:7:1"

// CHECK: tandem.fused_all_reduce_norm {{.*}} loc(#[[FUSED:.*]])
// CHECK: tandem.all_reduce {{.*}} loc(#[[AR:.*]])
// CHECK: tandem.add {{.*}} loc(#[[ADD:.*]])
// CHECK: tandem.rms_norm {{.*}} loc(#[[NORM:.*]])
// CHECK-DAG: #[[FAR:.*]] = loc("model.onnx":7:1)
// CHECK-DAG: #[[FADD:.*]] = loc("model.onnx":8:1)
// CHECK-DAG: #[[FNORM:.*]] = loc("model.onnx":9:1)
// CHECK-DAG: #[[AR]] = loc("/o_proj/AllReduce"(#[[FAR]]))
// CHECK-DAG: #[[ADD]] = loc("/Add"(#[[FADD]]))
// CHECK-DAG: #[[NORM]] = loc("/norm"(#[[FNORM]]))
// CHECK-DAG: #[[FUSED]] = loc(fused[#[[AR]], #[[ADD]], #[[NORM]]])
func.func @main(%x: tensor<4x8xf32>, %r: tensor<4x8xf32>, %g: tensor<8xf32>) -> tensor<4x8xf32> {
  %s = "onnx.Custom"(%x) {domain_name = "com.microsoft", function_name = "AllReduce"} : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("/o_proj/AllReduce"("model.onnx":7:1))
  %a = "onnx.Add"(%s, %r) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc("/Add"("model.onnx":8:1))
  %y = "onnx.RMSNormalization"(%a, %g) {axis = -1 : si64, epsilon = 1.0e-5 : f32} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32> loc("/norm"("model.onnx":9:1))
  return %y : tensor<4x8xf32>
}
