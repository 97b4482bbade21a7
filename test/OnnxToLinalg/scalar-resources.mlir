// Constants of rank 0 in resources are written out: MLIR can't lower a
// memref.global of rank 0 that is a resource.
//
// RUN: fusion-opt %s --tandem-onnx-to-linalg | FileCheck %s

// CHECK-DAG: arith.constant dense<1.000000e+00> : tensor<f32>
// CHECK-DAG: arith.constant dense<-2.000000e+00> : tensor<f64>
// CHECK-DAG: arith.constant dense<1.500000e+00> : tensor<f16>
// CHECK-DAG: arith.constant dense<2.500000e-01> : tensor<bf16>
// CHECK-DAG: arith.constant dense<-3> : tensor<i8>
// CHECK-DAG: arith.constant dense<258> : tensor<i16>
// CHECK-DAG: arith.constant dense<-1> : tensor<i32>
// CHECK-DAG: arith.constant dense<513> : tensor<i64>
// CHECK-DAG: arith.constant dense<true> : tensor<i1>
// CHECK-DAG: arith.constant dense_resource<one> : tensor<1xf32>
func.func @f() -> (tensor<f32>, tensor<f64>, tensor<f16>, tensor<bf16>, tensor<i8>, tensor<i16>, tensor<i32>, tensor<i64>, tensor<i1>, tensor<1xf32>) {
  %0 = "onnx.Constant"() {value = dense_resource<one> : tensor<f32>} : () -> tensor<f32>
  %1 = "onnx.Constant"() {value = dense_resource<f64> : tensor<f64>} : () -> tensor<f64>
  %2 = "onnx.Constant"() {value = dense_resource<f16> : tensor<f16>} : () -> tensor<f16>
  %3 = "onnx.Constant"() {value = dense_resource<bf16> : tensor<bf16>} : () -> tensor<bf16>
  %4 = "onnx.Constant"() {value = dense_resource<i8> : tensor<i8>} : () -> tensor<i8>
  %5 = "onnx.Constant"() {value = dense_resource<i16> : tensor<i16>} : () -> tensor<i16>
  %6 = "onnx.Constant"() {value = dense_resource<i32> : tensor<i32>} : () -> tensor<i32>
  %7 = "onnx.Constant"() {value = dense_resource<i64> : tensor<i64>} : () -> tensor<i64>
  %8 = "onnx.Constant"() {value = dense_resource<i1> : tensor<i1>} : () -> tensor<i1>
  %9 = "onnx.Constant"() {value = dense_resource<one> : tensor<1xf32>} : () -> tensor<1xf32>
  return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9 : tensor<f32>, tensor<f64>, tensor<f16>, tensor<bf16>, tensor<i8>, tensor<i16>, tensor<i32>, tensor<i64>, tensor<i1>, tensor<1xf32>
}

{-#
  dialect_resources: {
    builtin: {
      one: "0x040000000000803F",
      f64: "0x0800000000000000000000C0",
      f16: "0x02000000003E",
      bf16: "0x02000000803E",
      i8: "0x01000000FD",
      i16: "0x020000000201",
      i32: "0x04000000FFFFFFFF",
      i64: "0x080000000102000000000000",
      i1: "0x0100000001"
    }
  }
#-}
