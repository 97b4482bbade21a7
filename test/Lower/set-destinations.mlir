// Where results are computed, before bufferization.
//
// RUN: fusion-opt %s --tandem-materialize-workspaces --tandem-set-destinations --canonicalize --cse | FileCheck %s

// Results become arguments behind the inputs. Both branches compute into them;
// the sum is where the norm will be, so no other buffer is needed.
// CHECK-LABEL: func.func @guarded(
// CHECK-SAME: %[[X:[^:]*]]: tensor<?x8xf32> {bufferization.writable = false}, %[[H:[^:]*]]: tensor<?x8xf32> {bufferization.writable = false}, %[[G:[^:]*]]: tensor<8xf32>
// CHECK-SAME: %[[Y:[^:]*]]: memref<?x8xf32> {tandem.result = 0 : i64}, %[[R:[^:]*]]: memref<?x8xf32> {tandem.result = 1 : i64}, %[[W:[^:]*]]: !tandem.workspace {{.*}}, %[[Q:[^:]*]]: !tandem.stream) {
// CHECK-DAG: %[[TY:.*]] = bufferization.to_tensor %[[Y]] restrict writable
// CHECK-DAG: %[[TR:.*]] = bufferization.to_tensor %[[R]] restrict writable
// CHECK-NOT: tensor.empty
// CHECK: %[[IF:.*]]:2 = scf.if
// CHECK-NEXT: %[[F:.*]]:2 = tandem.launch fused_all_reduce_norm %[[X]] residual(%[[H]] : {{.*}}) gamma(%[[G]] : {{.*}}) workspace %[[W]] stream %[[Q]] outs(%[[TY]], %[[TR]] :
// CHECK-NEXT: scf.yield %[[F]]#0, %[[F]]#1
// CHECK-NEXT: } else {
// CHECK-NEXT: %[[S:.*]] = tandem.launch all_reduce %[[X]] workspace %[[W]] stream %[[Q]] outs(%[[TY]] : tensor<?x8xf32>) {fallback}
// CHECK-NEXT: %[[N:.*]]:2 = tandem.launch add_rms_norm %[[S]] residual(%[[H]] : {{.*}}) gamma(%[[G]] : {{.*}}) workspace %[[W]] stream %[[Q]] outs(%[[S]], %[[TR]] :
// CHECK-NEXT: scf.yield %[[N]]#0, %[[N]]#1
// CHECK: bufferization.materialize_in_destination %[[IF]]#0 in restrict writable %[[Y]]
// CHECK: bufferization.materialize_in_destination %[[IF]]#1 in restrict writable %[[R]]
// CHECK-NEXT: return
func.func @guarded(%x: tensor<?x8xf32>, %h: tensor<?x8xf32>, %g: tensor<8xf32>, %fuse: i1)
    -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  %y:2 = scf.if %fuse -> (tensor<?x8xf32>, tensor<?x8xf32>) {
    %c0 = arith.constant 0 : index
    %n = tensor.dim %x, %c0 : tensor<?x8xf32>
    %d = tensor.empty(%n) : tensor<?x8xf32>
    %f:2 = tandem.fused_all_reduce_norm %x residual(%h : tensor<?x8xf32>) gamma(%g : tensor<8xf32>)
      outs(%d, %d : tensor<?x8xf32>, tensor<?x8xf32>) {epsilon = 1.0e-5 : f64, returns_residual}
      : tensor<?x8xf32> -> tensor<?x8xf32>, tensor<?x8xf32>
    scf.yield %f#0, %f#1 : tensor<?x8xf32>, tensor<?x8xf32>
  } else {
    %s = tandem.all_reduce %x {fallback} : tensor<?x8xf32>
    %r = tandem.add %h, %s : tensor<?x8xf32>
    %m = tandem.rms_norm %r, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
    scf.yield %m, %r : tensor<?x8xf32>, tensor<?x8xf32>
  }
  return %y#0, %y#1 : tensor<?x8xf32>, tensor<?x8xf32>
}

// What nobody reads any more is overwritten: the first norm by the second
// sum, the first residual by the second; the results are made in place from the
// beginning.
// CHECK-LABEL: func.func @chain(
// CHECK-SAME: %[[X:[^:]*]]: tensor<4x8xf32>
// CHECK-NOT: tensor.empty
// CHECK: %[[S1:.*]] = tandem.launch all_reduce %[[X]]
// CHECK: %[[L1:.*]]:2 = tandem.launch add_rms_norm %[[S1]] {{.*}} outs(%[[S1]], %{{.*}} :
// CHECK: %[[S2:.*]] = tandem.launch all_reduce %[[L1]]#0 {{.*}} outs(%[[L1]]#0 :
// CHECK: %[[L2:.*]]:2 = tandem.launch add_rms_norm %[[S2]] residual(%[[L1]]#1 {{.*}} outs(%[[S2]], %[[L1]]#1 :
func.func @chain(%x: tensor<4x8xf32>, %h: tensor<4x8xf32>, %g: tensor<8xf32>)
    -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %s1 = tandem.all_reduce %x : tensor<4x8xf32>
  %r1 = tandem.add %s1, %h : tensor<4x8xf32>
  %y1 = tandem.rms_norm %r1, %g {epsilon = 1.0e-5 : f64} : tensor<4x8xf32>, tensor<8xf32>
  %s2 = tandem.all_reduce %y1 : tensor<4x8xf32>
  %r2 = tandem.add %s2, %r1 : tensor<4x8xf32>
  %y2 = tandem.rms_norm %r2, %g {epsilon = 1.0e-5 : f64} : tensor<4x8xf32>, tensor<8xf32>
  return %y2, %r2 : tensor<4x8xf32>, tensor<4x8xf32>
}

// The old residual is read again, so it must not be overwritten.
// CHECK-LABEL: func.func @residual_read_later(
// CHECK: %[[PLACE:.*]] = bufferization.to_tensor
// CHECK: %[[E:.*]] = tensor.empty()
// CHECK: %[[R1:.*]] = linalg.generic {{.*}} outs(%[[E]] :
// CHECK: %[[N:.*]]:2 = tandem.launch add_rms_norm %{{.*}} residual(%[[R1]] {{.*}} outs(%{{.*}}, %[[PLACE]] :
// CHECK: linalg.generic {{.*}} ins(%[[N]]#1, %[[R1]] : {{.*}} outs(%[[N]]#1 :
func.func @residual_read_later(%x: tensor<4x8xf32>, %h: tensor<4x8xf32>, %g: tensor<8xf32>)
    -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %r1 = tandem.add %h, %h : tensor<4x8xf32>
  %s = tandem.all_reduce %x : tensor<4x8xf32>
  %r2 = tandem.add %s, %r1 : tensor<4x8xf32>
  %y = tandem.rms_norm %r2, %g {epsilon = 1.0e-5 : f64} : tensor<4x8xf32>, tensor<8xf32>
  %z = tandem.add %r2, %r1 : tensor<4x8xf32>
  return %y, %z : tensor<4x8xf32>, tensor<4x8xf32>
}

// A caller may allow it: then nothing but the arguments' buffers is used.
// CHECK-LABEL: func.func @writable(
// CHECK-SAME: %[[X:[^:]*]]: tensor<4x8xf32> {bufferization.writable = true}
// CHECK: tandem.launch all_reduce %[[X]] {{.*}} outs(%[[X]] :
// CHECK-NOT: tensor.empty
func.func @writable(%x: tensor<4x8xf32> {bufferization.writable = true}, %g: tensor<8xf32>) -> tensor<1xf32> {
  %s = tandem.all_reduce %x : tensor<4x8xf32>
  %y = tandem.rms_norm %s, %g {epsilon = 1.0e-5 : f64} : tensor<4x8xf32>, tensor<8xf32>
  %t = tensor.extract_slice %y[0, 0] [1, 1] [1, 1] : tensor<4x8xf32> to tensor<1xf32>
  return %t : tensor<1xf32>
}

// Results of a guard that are not the function's get one tensor for both
// branches, made before it.
// CHECK-LABEL: func.func @inner_guard(
// CHECK: %[[E:.*]] = tensor.empty(%{{.*}}) : tensor<?x8xf32>
// CHECK-NEXT: scf.if
// CHECK-NEXT: tandem.launch fused_all_reduce_norm {{.*}} outs(%[[E]] :
// CHECK: else
// CHECK-NEXT: %[[S:.*]] = tandem.launch all_reduce {{.*}} outs(%[[E]] :
// CHECK-NEXT: tandem.launch rms_norm %[[S]] {{.*}} outs(%[[S]] :
func.func @inner_guard(%x: tensor<?x8xf32>, %g: tensor<8xf32>, %fuse: i1) -> tensor<8xf32> {
  %y = scf.if %fuse -> tensor<?x8xf32> {
    %c0 = arith.constant 0 : index
    %n = tensor.dim %x, %c0 : tensor<?x8xf32>
    %d = tensor.empty(%n) : tensor<?x8xf32>
    %f = tandem.fused_all_reduce_norm %x gamma(%g : tensor<8xf32>)
      outs(%d : tensor<?x8xf32>) {epsilon = 1.0e-5 : f64} : tensor<?x8xf32> -> tensor<?x8xf32>
    scf.yield %f : tensor<?x8xf32>
  } else {
    %s = tandem.all_reduce %x {fallback} : tensor<?x8xf32>
    %m = tandem.rms_norm %s, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
    scf.yield %m : tensor<?x8xf32>
  }
  %r = tensor.extract_slice %y[0, 0] [1, 8] [1, 1] : tensor<?x8xf32> to tensor<8xf32>
  return %r : tensor<8xf32>
}

// The same tensor as input and residual: two outputs can't both be over it.
// CHECK-LABEL: func.func @input_is_residual(
// CHECK: %[[S:.*]] = tandem.launch all_reduce
// CHECK: tandem.launch add_rms_norm %[[S]] residual(%[[S]] : {{.*}} outs(%[[S]], %[[O:.*]] :
// CHECK-NOT: outs(%[[S]], %[[S]]
func.func @input_is_residual(%x: tensor<4x8xf32>, %g: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %s = tandem.all_reduce %x : tensor<4x8xf32>
  %r = tandem.add %s, %s : tensor<4x8xf32>
  %y = tandem.rms_norm %r, %g {epsilon = 1.0e-5 : f64} : tensor<4x8xf32>, tensor<8xf32>
  return %y, %r : tensor<4x8xf32>, tensor<4x8xf32>
}

// A sandwich is one call; a first norm that others read is not part of it.
// CHECK-LABEL: func.func @sandwich(
// CHECK: tandem.launch add_rms_norm %{{.*}} residual({{.*}}) pre_gamma({{.*}}) gamma({{.*}}) {{.*}}pre_epsilon = 9.99
// CHECK-NOT: tandem.launch rms_norm
// CHECK: return
// CHECK-LABEL: func.func @no_sandwich(
// CHECK: tandem.launch rms_norm
// CHECK: tandem.launch add_rms_norm
// CHECK-NOT: pre_gamma
// CHECK: return
func.func @sandwich(%x: tensor<4x8xf32>, %h: tensor<4x8xf32>, %g: tensor<8xf32>) -> tensor<4x8xf32> {
  %s = tandem.all_reduce %x : tensor<4x8xf32>
  %t = tandem.rms_norm %s, %g {epsilon = 1.0e-6 : f64} : tensor<4x8xf32>, tensor<8xf32>
  %r = tandem.add %t, %h : tensor<4x8xf32>
  %y = tandem.rms_norm %r, %g {epsilon = 1.0e-5 : f64} : tensor<4x8xf32>, tensor<8xf32>
  return %y : tensor<4x8xf32>
}
func.func @no_sandwich(%x: tensor<4x8xf32>, %h: tensor<4x8xf32>, %g: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %s = tandem.all_reduce %x : tensor<4x8xf32>
  %t = tandem.rms_norm %s, %g {epsilon = 1.0e-6 : f64} : tensor<4x8xf32>, tensor<8xf32>
  %r = tandem.add %t, %h : tensor<4x8xf32>
  %y = tandem.rms_norm %r, %g {epsilon = 1.0e-5 : f64} : tensor<4x8xf32>, tensor<8xf32>
  return %y, %t : tensor<4x8xf32>, tensor<4x8xf32>
}

// The sum is read before the norm: they can't be one call.
// CHECK-LABEL: func.func @sum_read_between(
// CHECK: linalg.generic
// CHECK: tandem.launch all_reduce
// CHECK: tandem.launch rms_norm
// CHECK-NOT: add_rms_norm
// CHECK: return
func.func @sum_read_between(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %r = tandem.add %a, %b : tensor<4x8xf32>
  %s = tandem.all_reduce %r : tensor<4x8xf32>
  %c0 = arith.constant 0 : index
  %g = tensor.extract_slice %s[0, 0] [1, 8] [1, 1] : tensor<4x8xf32> to tensor<8xf32>
  %y = tandem.rms_norm %r, %g {epsilon = 1.0e-5 : f64} : tensor<4x8xf32>, tensor<8xf32>
  return %y : tensor<4x8xf32>
}

// Norms beside a batch-invariant collective of the same group are, too.
// CHECK-LABEL: func.func @batch_invariant(
// CHECK: tandem.launch all_reduce {{.*}} {batch_invariant, fallback}
// CHECK: tandem.launch rms_norm {{.*}} {batch_invariant,
func.func @batch_invariant(%x: tensor<4x8xf32>, %g: tensor<8xf32>) -> tensor<4x8xf32> {
  %s = tandem.all_reduce %x {fallback, batch_invariant, group = #tandem.group<"tp">} : tensor<4x8xf32>
  %y = tandem.rms_norm %s, %g {epsilon = 1.0e-5 : f64} : tensor<4x8xf32>, tensor<8xf32>
  return %y : tensor<4x8xf32>
}

// A call that stays gets buffers, and the callee writes to them.
// CHECK-LABEL: func.func @caller(
// CHECK: %[[B:.*]] = memref.alloc() : memref<4x8xf32>
// CHECK: call @recursive(%{{.*}}, %{{.*}}, %[[B]], %{{.*}}, %{{.*}}) :
// CHECK: bufferization.to_tensor %[[B]] restrict writable
// CHECK-LABEL: func.func private @recursive(
// CHECK-SAME: %{{[^:]*}}: memref<4x8xf32> {tandem.result = 0 : i64}, %{{[^:]*}}: !tandem.workspace
func.func @caller(%x: tensor<4x8xf32>, %n: index) -> tensor<4x8xf32> {
  %y = func.call @recursive(%x, %n) : (tensor<4x8xf32>, index) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
func.func private @recursive(%x: tensor<4x8xf32>, %n: index) -> tensor<4x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %s = tandem.all_reduce %x : tensor<4x8xf32>
  %done = arith.cmpi eq, %n, %c0 : index
  %r = scf.if %done -> tensor<4x8xf32> {
    scf.yield %s : tensor<4x8xf32>
  } else {
    %m = arith.subi %n, %c1 : index
    %y = func.call @recursive(%s, %m) : (tensor<4x8xf32>, index) -> tensor<4x8xf32>
    scf.yield %y : tensor<4x8xf32>
  }
  return %r : tensor<4x8xf32>
}
