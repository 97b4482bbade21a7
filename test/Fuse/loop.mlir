// A chain in a loop.
//
// The text of scf.for doesn't hold its block arguments' locations.
// UNSUPPORTED: roundtrip
//
// RUN: fusion-opt %s --tandem-fuse='report=%t.json' -o %t.once
// RUN: FileCheck %s < %t.once
// RUN: FileCheck %s --check-prefix=REPORT < %t.json
// RUN: fusion-opt %t.once --tandem-fuse -o %t.twice
// RUN: cmp %t.once %t.twice

// The limit is asked once, at the function's beginning. The loop's own shape
// can't change, but only its iter_arg says so, so it is checked in the loop.
// CHECK-LABEL: func.func @loop(
// CHECK: tandem.token_limit
// CHECK: scf.for
// CHECK-NOT: tandem.token_limit
// CHECK: scf.if
// CHECK: tandem.fused_all_reduce_norm
// CHECK: scf.yield
// REPORT: "function": "loop"
// REPORT: "status": "fused"
func.func @loop(%x: tensor<?x8xf32>, %g: tensor<8xf32>, %lb: index, %ub: index, %step: index) -> tensor<?x8xf32> {
  %y = scf.for %i = %lb to %ub step %step iter_args(%h = %x) -> tensor<?x8xf32> {
    %s = tandem.all_reduce %h : tensor<?x8xf32>
    %a = tandem.add %s, %h : tensor<?x8xf32>
    %n = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
    scf.yield %n : tensor<?x8xf32>
  }
  return %y : tensor<?x8xf32>
}
