// What may stand between the all-reduce and the rest of its chain. The fused
// op goes behind the last value that it reads, so the all-reduce moves down
// past the ops in between; those that read its sum move behind the fused op.
//
// RUN: fusion-opt %s --allow-unregistered-dialect --tandem-fuse='report=%t.json' -o %t.once
// RUN: FileCheck %s < %t.once
// RUN: FileCheck %s --check-prefix=REPORT < %t.json
// RUN: fusion-opt %t.once --allow-unregistered-dialect --tandem-fuse -o %t.twice
// RUN: cmp %t.once %t.twice

// Ops without effects, and ai.onnx ops that compute from their operands alone,
// with what stands in them.
// CHECK-LABEL: func.func @deterministic_ops(
// CHECK: arith.addf
// CHECK: "onnx.MatMul"
// CHECK: %[[R:.*]] = scf.if
// CHECK: scf.if
// CHECK: tandem.fused_all_reduce_norm %{{.*}} residual(%[[R]] :
func.func @deterministic_ops(%x: tensor<?x8xf32>, %q: tensor<?x8xf32>, %w: tensor<8x8xf32>, %c: i1, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %p = arith.addf %q, %q : tensor<?x8xf32>
  %m = "onnx.MatMul"(%p, %w) : (tensor<?x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>
  %r = scf.if %c -> tensor<?x8xf32> {
    %t = "onnx.Softmax"(%m) {axis = -1 : si64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
    scf.yield %t : tensor<?x8xf32>
  } else {
    scf.yield %m : tensor<?x8xf32>
  }
  %a = tandem.add %s, %r : tensor<?x8xf32>
  %y = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y : tensor<?x8xf32>
}

// Nobody knows the op, but it says that it has no effects.
// CHECK-LABEL: func.func @says_that_it_is_pure(
// CHECK: %[[R:.*]] = "torch.operator"
// CHECK: tandem.fused_all_reduce_norm %{{.*}} residual(%[[R]] :
func.func @says_that_it_is_pure(%x: tensor<?x8xf32>, %q: tensor<?x8xf32>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %r = "torch.operator"(%q) {name = "torch.aten.cos", tandem.pure} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %a = tandem.add %s, %r : tensor<?x8xf32>
  %y = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y : tensor<?x8xf32>
}

// The same op without that word.
// CHECK-LABEL: func.func @negative_says_nothing(
// CHECK-NOT: tandem.fused_all_reduce_norm
// CHECK: return
// REPORT: "function": "negative_says_nothing"
// REPORT: "reason": "InterveningSideEffect"
func.func @negative_says_nothing(%x: tensor<?x8xf32>, %q: tensor<?x8xf32>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %r = "torch.operator"(%q) {name = "torch.aten.cos"} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %a = tandem.add %s, %r : tensor<?x8xf32>
  %y = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y : tensor<?x8xf32>
}

// A registered op has effects, whatever an attribute says.
// CHECK-LABEL: func.func @negative_registered(
// CHECK-NOT: tandem.fused_all_reduce_norm
// CHECK: return
// REPORT: "function": "negative_registered"
// REPORT: "reason": "InterveningSideEffect"
func.func @negative_registered(%x: tensor<?x8xf32>, %q: tensor<?x8xf32>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %r = call @negative_says_nothing(%q, %q, %g) {tandem.pure} : (tensor<?x8xf32>, tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  %a = tandem.add %s, %r : tensor<?x8xf32>
  %y = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y : tensor<?x8xf32>
}

// Gamma is computed behind the all-reduce.
// CHECK-LABEL: func.func @gamma_late(
// CHECK: %[[G:.*]] = arith.addf
// CHECK: tandem.fused_all_reduce_norm %{{.*}} gamma(%[[G]] :
func.func @gamma_late(%x: tensor<?x8xf32>, %w: tensor<8xf32>) -> tensor<?x8xf32> {
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %g = arith.addf %w, %w : tensor<8xf32>
  %y = tandem.rms_norm %s, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y : tensor<?x8xf32>
}

// The op that reads the sum stands before the residual; what reads that op
// goes along, in order.
// CHECK-LABEL: func.func @moved_down(
// CHECK: %[[R:.*]] = "onnx.Relu"
// CHECK: %[[IF:.*]]:2 = scf.if
// CHECK: residual(%[[R]] :
// CHECK: }
// CHECK: %[[T:.*]] = "onnx.Tanh"(%[[IF]]#1)
// CHECK: %[[U:.*]] = "onnx.Sigmoid"(%[[T]])
// CHECK: return %[[IF]]#0, %[[U]]
func.func @moved_down(%x: tensor<?x8xf32>, %q: tensor<?x8xf32>, %g: tensor<8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %t = "onnx.Tanh"(%s) : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %u = "onnx.Sigmoid"(%t) : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %r = "onnx.Relu"(%q) : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %a = tandem.add %s, %r : tensor<?x8xf32>
  %y = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y, %u : tensor<?x8xf32>, tensor<?x8xf32>
}

// An op with effects behind the last operand is not in the way: the fused op
// stands before it.
// CHECK-LABEL: func.func @effect_behind(
// CHECK: scf.if
// CHECK: tandem.fused_all_reduce_norm
// CHECK: "test.effect"
// CHECK: return
func.func @effect_behind(%x: tensor<?x8xf32>, %r: tensor<?x8xf32>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %a = tandem.add %s, %r : tensor<?x8xf32>
  "test.effect"() : () -> ()
  %y = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y : tensor<?x8xf32>
}

// A second all-reduce whose operand does not hang on the first stays behind
// it, and both are fused in order.
// CHECK-LABEL: func.func @two_in_order(
// CHECK: tandem.fused_all_reduce_norm %arg0
// CHECK: tandem.fused_all_reduce_norm %arg1
func.func @two_in_order(%x: tensor<?x8xf32>, %z: tensor<?x8xf32>, %g: tensor<8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %t = tandem.all_reduce %z : tensor<?x8xf32>
  %y = tandem.rms_norm %s, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  %u = tandem.rms_norm %t, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y, %u : tensor<?x8xf32>, tensor<?x8xf32>
}

// The second all-reduce stands in the first one's way until it has moved down
// itself, behind its own gamma. Their order stays.
// CHECK-LABEL: func.func @way_cleared(
// CHECK: %[[G1:.*]] = "onnx.Tanh"
// CHECK: tandem.fused_all_reduce_norm %arg0 gamma(%[[G1]]
// CHECK: %[[G2:.*]] = "onnx.Sigmoid"
// CHECK: tandem.fused_all_reduce_norm %arg1 gamma(%[[G2]]
// CHECK-NOT: fused
// CHECK: return
func.func @way_cleared(%x: tensor<?x8xf32>, %z: tensor<?x8xf32>, %g: tensor<8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %t = tandem.all_reduce %z : tensor<?x8xf32>
  %w = "onnx.Tanh"(%g) : (tensor<8xf32>) -> tensor<8xf32>
  %y = tandem.rms_norm %s, %w {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  %h = "onnx.Sigmoid"(%w) : (tensor<8xf32>) -> tensor<8xf32>
  %u = tandem.rms_norm %t, %h {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y, %u : tensor<?x8xf32>, tensor<?x8xf32>
}

// From here on: what no collective may pass. All ranks execute collectives
// and effects in one order, and the pass must not change it.

// CHECK-LABEL: func.func @negative_unknown_op(
// CHECK-NOT: fused
// CHECK: return
// REPORT: "function": "negative_unknown_op"
// REPORT: "reason": "InterveningSideEffect"
// REPORT: "blocked_by": "test.unknown at {{.*}}order.mlir:[[# @LINE + 3]]:8"
func.func @negative_unknown_op(%x: tensor<?x8xf32>, %q: tensor<?x8xf32>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %r = "test.unknown"(%q) : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %a = tandem.add %s, %r : tensor<?x8xf32>
  %y = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y : tensor<?x8xf32>
}

// An op of a custom domain may do anything, whatever its name.
// CHECK-LABEL: func.func @negative_custom_domain(
// CHECK-NOT: fused
// CHECK: return
// REPORT: "function": "negative_custom_domain"
// REPORT: "blocked_by": "onnx.Custom at
func.func @negative_custom_domain(%x: tensor<?x8xf32>, %q: tensor<?x8xf32>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %r = "onnx.Custom"(%q) {domain_name = "com.acme", function_name = "Relu"} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %a = tandem.add %s, %r : tensor<?x8xf32>
  %y = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y : tensor<?x8xf32>
}

// Random numbers: drawn in order.
// CHECK-LABEL: func.func @negative_random(
// CHECK-NOT: fused
// CHECK: return
// REPORT: "function": "negative_random"
// REPORT: "blocked_by": "onnx.RandomNormalLike at
func.func @negative_random(%x: tensor<?x8xf32>, %q: tensor<?x8xf32>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %r = "onnx.RandomNormalLike"(%q) : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %a = tandem.add %s, %r : tensor<?x8xf32>
  %y = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y : tensor<?x8xf32>
}

// An effect inside of an op that has none itself.
// CHECK-LABEL: func.func @negative_nested_effect(
// CHECK-NOT: fused
// CHECK: return
// REPORT: "function": "negative_nested_effect"
// REPORT: "blocked_by": "scf.if at
func.func @negative_nested_effect(%x: tensor<?x8xf32>, %q: tensor<?x8xf32>, %c: i1, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %r = scf.if %c -> tensor<?x8xf32> {
    "test.effect"() : () -> ()
    scf.yield %q : tensor<?x8xf32>
  } else {
    scf.yield %q : tensor<?x8xf32>
  }
  %a = tandem.add %s, %r : tensor<?x8xf32>
  %y = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y : tensor<?x8xf32>
}

// A call may do anything.
// CHECK-LABEL: func.func @negative_call(
// CHECK-NOT: fused
// CHECK: return
// REPORT: "function": "negative_call"
// REPORT: "blocked_by": "func.call at
func.func @negative_call(%x: tensor<?x8xf32>, %q: tensor<?x8xf32>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %r = call @elsewhere(%q) : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %a = tandem.add %s, %r : tensor<?x8xf32>
  %y = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y : tensor<?x8xf32>
}
func.func private @elsewhere(tensor<?x8xf32>) -> tensor<?x8xf32>

// Another collective: the first can't be fused behind it, and is not. The
// second can, with the first's sum as its residual's input.
// CHECK-LABEL: func.func @negative_other_collective(
// CHECK: %[[S:.*]] = tandem.all_reduce %arg0 : tensor<?x8xf32>
// CHECK: tandem.fused_all_reduce_norm %arg1
// CHECK: tandem.add %[[S]]
// REPORT: "function": "negative_other_collective"
// REPORT: "reason": "InterveningSideEffect"
// REPORT: "blocked_by": "tandem.all_reduce at {{.*}}order.mlir:[[# @LINE + 4]]:8"
// REPORT: "status": "fused"
func.func @negative_other_collective(%x: tensor<?x8xf32>, %z: tensor<?x8xf32>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %t = tandem.all_reduce %z : tensor<?x8xf32>
  %r = tandem.rms_norm %t, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  %a = tandem.add %s, %r : tensor<?x8xf32>
  %y = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y : tensor<?x8xf32>
}

// A collective of ONNX's that was not raised.
// CHECK-LABEL: func.func @negative_all_gather(
// CHECK-NOT: fused
// CHECK: return
// REPORT: "function": "negative_all_gather"
// REPORT: "reason": "InterveningSideEffect"
func.func @negative_all_gather(%x: tensor<?x8xf32>, %q: tensor<?x4xf32>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %r = "onnx.Custom"(%q) {domain_name = "com.microsoft", function_name = "AllGather"} : (tensor<?x4xf32>) -> tensor<?x8xf32>
  %a = tandem.add %s, %r : tensor<?x8xf32>
  %y = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y : tensor<?x8xf32>
}
