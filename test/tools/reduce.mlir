// fusion-reduce knows our ops: of this module it keeps what the script asks
// for, and drops the rest.
// RUN: fusion-reduce %s -reduction-tree="traversal-mode=0 test=%S/Inputs/keeps-all-reduce.sh" \
// RUN:   | FileCheck %s

// A script that can't be run is told from one that finds nothing.
// RUN: not fusion-reduce %s -reduction-tree="traversal-mode=0 test=%t.none" 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: {{^}}fusion-reduce: error: the script '{{.*}}.none' is not there; it is named by its path, not looked up in the PATH{{$}}
// RUN: not fusion-reduce %s --reduction-tree="test=%s traversal-mode=0" 2>&1 | FileCheck %s --check-prefix=TEXT
// TEXT: {{^}}fusion-reduce: error: the script '{{.*}}reduce.mlir' is no file that can be executed{{$}}

// CHECK-NOT: func.func @other
func.func @other(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = tandem.add %x, %x : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// CHECK: func.func @kept
// CHECK: tandem.all_reduce{{.*}}reduction max
func.func @kept(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = tandem.all_reduce %x {reduction = #tandem<reduction max>} : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// CHECK-NOT: func.func @another
func.func @another(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = "onnx.Relu"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
