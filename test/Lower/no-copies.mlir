// After bufferization there are no copies and no buffers that the graph does not
// need: none at all for chains, whatever the guard.
//
// The passes of both sides, with options, in one command line: not through mlir-opt.
// UNSUPPORTED: through-plugin
//
// DEFINE: %{buffers} = --inline --tandem-materialize-workspaces --tandem-set-destinations --canonicalize --cse --eliminate-empty-tensors --one-shot-bufferize="bufferize-function-boundaries function-boundary-type-conversion=identity-layout-map" --canonicalize --cse --buffer-deallocation-pipeline --symbol-dce
// RUN: fusion-opt %s --tandem-fuse %{buffers} | FileCheck %s --implicit-check-not=memref.copy --implicit-check-not=memref.alloc
// RUN: fusion-opt %s --tandem-fuse=guard=function %{buffers} | FileCheck %s --implicit-check-not=memref.copy --implicit-check-not=memref.alloc
// RUN: fusion-opt %s --tandem-fuse=guard=none %{buffers} | FileCheck %s --implicit-check-not=memref.copy --implicit-check-not=memref.alloc
// RUN: fusion-opt %s %{buffers} | FileCheck %s --implicit-check-not=memref.copy --implicit-check-not=memref.alloc

// CHECK-LABEL: func.func @chain(
// CHECK: tandem.launch
func.func @chain(%x: tensor<?x8xf32>, %h: tensor<?x8xf32>, %g: tensor<8xf32>)
    -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %r = tandem.add %s, %h : tensor<?x8xf32>
  %y = tandem.rms_norm %r, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y, %r : tensor<?x8xf32>, tensor<?x8xf32>
}

// CHECK-LABEL: func.func @with_sum(
// CHECK: tandem.launch
func.func @with_sum(%x: tensor<?x8xf32>, %h: tensor<?x8xf32>, %g: tensor<8xf32>)
    -> (tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>) {
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %r = tandem.add %s, %h : tensor<?x8xf32>
  %y = tandem.rms_norm %r, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y, %r, %s : tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>
}

// The last of several layers writes where the first did.
// CHECK-LABEL: func.func @layers(
// CHECK: tandem.launch
func.func @layers(%x: tensor<?x8xf32>, %h: tensor<?x8xf32>, %g: tensor<8xf32>)
    -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  %s1 = tandem.all_reduce %x : tensor<?x8xf32>
  %r1 = tandem.add %s1, %h : tensor<?x8xf32>
  %y1 = tandem.rms_norm %r1, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  %s2 = tandem.all_reduce %y1 : tensor<?x8xf32>
  %r2 = tandem.add %s2, %r1 : tensor<?x8xf32>
  %y2 = tandem.rms_norm %r2, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  %s3 = tandem.all_reduce %y2 : tensor<?x8xf32>
  %r3 = tandem.add %r2, %s3 : tensor<?x8xf32>
  %y3 = tandem.rms_norm %r3, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y3, %r3 : tensor<?x8xf32>, tensor<?x8xf32>
}
