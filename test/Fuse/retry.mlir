// What stands in a chain's way may move with another chain. Then one run of
// the pass finds both, and another run finds no more.
// RUN: fusion-opt %s --tandem-fuse | FileCheck %s
// RUN: fusion-opt %s --tandem-fuse -o %t.once
// RUN: fusion-opt %s --tandem-fuse --tandem-fuse -o %t.twice
// RUN: diff %t.once %t.twice
// RUN: fusion-opt %s --tandem-fuse="guard=function" -o %t.once
// RUN: fusion-opt %s --tandem-fuse="guard=function" \
// RUN:   --tandem-fuse="guard=function" -o %t.twice
// RUN: diff %t.once %t.twice

// The second all-reduce's residual is computed behind the effect, until the
// first chain's norm has gone before it.
// CHECK-LABEL: func.func @residual_moves_up
// CHECK: tandem.fused_all_reduce_norm %arg0
// CHECK: tandem.fused_all_reduce_norm %arg1
// CHECK: "onnx.Effect"
func.func @residual_moves_up(%x: tensor<?x8xf32>, %y: tensor<?x8xf32>,
                             %g: tensor<8xf32>) -> tensor<?x8xf32> {
  %0 = tandem.all_reduce %x : tensor<?x8xf32>
  %1 = tandem.all_reduce %y : tensor<?x8xf32>
  "onnx.Effect"() : () -> ()
  %2 = tandem.rms_norm %0, %g {epsilon = 1.0e-5 : f64}
      : tensor<?x8xf32>, tensor<8xf32>
  %3 = tandem.add %1, %2 : tensor<?x8xf32>
  %4 = tandem.rms_norm %3, %g {epsilon = 1.0e-5 : f64}
      : tensor<?x8xf32>, tensor<8xf32>
  return %4 : tensor<?x8xf32>
}
