// A call's collectives are executed where the call stands, as often as before.
// RUN: fusion-opt %s --inline | FileCheck %s

func.func private @layer(%x: tensor<4x8xf32>, %g: tensor<8xf32>)
    -> tensor<4x8xf32> {
  %0 = tandem.all_reduce %x : tensor<4x8xf32> source {
    %2 = "onnx.Custom"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    tandem.yield %2 : tensor<4x8xf32>
  }
  %1 = tandem.rms_norm %0, %g {epsilon = 0.5 : f64}
      : tensor<4x8xf32>, tensor<8xf32>
  return %1 : tensor<4x8xf32>
}

// CHECK-LABEL: func.func @twice
// CHECK-SAME: (%[[C:.*]]: i1, %[[X:.*]]: tensor<4x8xf32>, %[[G:.*]]: tensor<8xf32>)
// CHECK-NEXT: %[[S:.*]] = tandem.all_reduce %[[X]] : tensor<4x8xf32> source {
// CHECK-NEXT: "onnx.Custom"(%[[X]])
// CHECK: %[[N:.*]] = tandem.rms_norm %[[S]], %[[G]]
// CHECK-NEXT: %[[R:.*]] = scf.if %[[C]]
// CHECK-NEXT: tandem.all_reduce %[[N]]
// CHECK: tandem.rms_norm
// CHECK: else
// CHECK-NEXT: scf.yield %[[N]]
// CHECK: return %[[R]]
func.func @twice(%c: i1, %x: tensor<4x8xf32>, %g: tensor<8xf32>)
    -> tensor<4x8xf32> {
  %0 = call @layer(%x, %g)
      : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %1 = scf.if %c -> tensor<4x8xf32> {
    %2 = func.call @layer(%0, %g)
        : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    scf.yield %2 : tensor<4x8xf32>
  } else {
    scf.yield %0 : tensor<4x8xf32>
  }
  return %1 : tensor<4x8xf32>
}

// A source region only says where an op came from: nothing is inlined there.
// CHECK-LABEL: func.func @in_source
// CHECK: source {
// CHECK-NEXT: func.call @layer
func.func @in_source(%x: tensor<4x8xf32>, %g: tensor<8xf32>)
    -> tensor<4x8xf32> {
  %0 = tandem.add %x, %x : tensor<4x8xf32> source {
    %1 = func.call @layer(%x, %g)
        : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    tandem.yield %1 : tensor<4x8xf32>
  }
  return %0 : tensor<4x8xf32>
}
