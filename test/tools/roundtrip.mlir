// --verify-roundtrip checks what is read and what is written, also where a
// constant is a resource, which MLIR's own check of that name can't read back
// from bytecode.
// RUN: fusion-opt %s --verify-roundtrip | FileCheck %s
// RUN: fusion-opt %s --verify-roundtrip --canonicalize --cse | FileCheck %s
// RUN: fusion-opt %s --verify-roundtrip --pass-pipeline="builtin.module(func.func(cse))" \
// RUN:   | FileCheck %s

// CHECK-LABEL: func.func @resource
// CHECK: dense_resource<w> : tensor<2xf32>
func.func @resource() -> tensor<2xf32> {
  %0 = "onnx.Constant"() {value = dense_resource<w> : tensor<2xf32>}
    : () -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// An op whose own form has no place for its block arguments' locations.
// CHECK-LABEL: func.func @loop
func.func @loop(%n: index, %x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  // CHECK: scf.for
  %0 = scf.for %i = %c0 to %n step %c1 iter_args(%a = %x) -> tensor<4x8xf32> {
    %1 = tandem.all_reduce %a : tensor<4x8xf32>
    scf.yield %1 : tensor<4x8xf32>
  }
  return %0 : tensor<4x8xf32>
}

// CHECK: w: "0x400000000000803F0000803F"
{-#
  dialect_resources: {
    builtin: {
      w: "0x400000000000803F0000803F"
    }
  }
#-}
