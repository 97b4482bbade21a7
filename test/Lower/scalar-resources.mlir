// Constants of rank 0 in resources, for which MLIR's own conversion of
// memref.global has no way.
//
// MLIR's llvm.mlir.global reads back with a property that it did not have.
// UNSUPPORTED: roundtrip
//
// RUN: fusion-opt %s --tandem-lower-pipeline --split-input-file --verify-diagnostics | FileCheck %s

// CHECK-DAG: llvm.mlir.global private constant @{{.*}}(1.000000e+00 : f32) {{.*}} : f32
// CHECK-DAG: llvm.mlir.global private constant @{{.*}}(true) {{.*}} : i1
// CHECK-DAG: llvm.mlir.global private constant @global(513 : i64)
memref.global "private" constant @global : memref<i64> = dense_resource<i64>

func.func @f() -> (tensor<f32>, tensor<i1>, tensor<i64>) {
  %0 = arith.constant dense_resource<one> : tensor<f32>
  %1 = arith.constant dense_resource<i1> : tensor<i1>
  %m = memref.get_global @global : memref<i64>
  %2 = bufferization.to_tensor %m restrict : memref<i64> to tensor<i64>
  return %0, %1, %2 : tensor<f32>, tensor<i1>, tensor<i64>
}

{-#
  dialect_resources: {
    builtin: {
      one: "0x040000000000803F",
      i64: "0x080000000102000000000000",
      i1: "0x0100000001"
    }
  }
#-}

// -----

func.func @no_data() -> tensor<f32> {
  // expected-error @+1 {{holds a scalar in a resource that has no data, or not the size that its type has}}
  %0 = arith.constant dense_resource<none> : tensor<f32>
  return %0 : tensor<f32>
}
