// Chains in branches and bodies (loops are in loop.mlir), each in one block; several
// functions; ops outside of any.
//
// RUN: fusion-opt %s --tandem-fuse='report=%t.json' -o %t.once
// RUN: FileCheck %s < %t.once
// RUN: FileCheck %s --check-prefix=REPORT < %t.json
// RUN: fusion-opt %t.once --tandem-fuse -o %t.twice
// RUN: cmp %t.once %t.twice

// The comparison made before the branch serves within it.
// CHECK-LABEL: func.func @branches(
// CHECK: %[[FUSE:.*]] = arith.andi
// CHECK: scf.if %[[FUSE]]
// CHECK: scf.if %arg2
// CHECK-NOT: arith.cmpi
// CHECK: scf.if %[[FUSE]]
// CHECK: tandem.fused_all_reduce_norm
// CHECK: } else {
// CHECK-NOT: arith.cmpi
// CHECK: scf.if %[[FUSE]]
// CHECK: tandem.fused_all_reduce_norm
func.func @branches(%x: tensor<?x8xf32>, %g: tensor<8xf32>, %c: i1) -> tensor<?x8xf32> {
  %s0 = tandem.all_reduce %x : tensor<?x8xf32>
  %x1 = tandem.rms_norm %s0, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  %y = scf.if %c -> tensor<?x8xf32> {
    %s = tandem.all_reduce %x1 : tensor<?x8xf32>
    %n = tandem.rms_norm %s, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
    scf.yield %n : tensor<?x8xf32>
  } else {
    %s = tandem.all_reduce %x1 : tensor<?x8xf32>
    %a = tandem.add %s, %x1 : tensor<?x8xf32>
    %n = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
    scf.yield %n : tensor<?x8xf32>
  }
  return %y : tensor<?x8xf32>
}

// A comparison made within one branch does not serve in the other.
// CHECK-LABEL: func.func @checks_apart(
// CHECK: tandem.token_limit
// CHECK: scf.if %arg2
// CHECK: arith.cmpi sle
// CHECK: tandem.fused_all_reduce_norm
// CHECK: arith.cmpi sle
// CHECK: tandem.fused_all_reduce_norm
func.func @checks_apart(%x: tensor<?x8xf32>, %g: tensor<8xf32>, %c: i1) -> tensor<?x8xf32> {
  %y = scf.if %c -> tensor<?x8xf32> {
    %s = tandem.all_reduce %x : tensor<?x8xf32>
    %n = tandem.rms_norm %s, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
    scf.yield %n : tensor<?x8xf32>
  } else {
    %s = tandem.all_reduce %x : tensor<?x8xf32>
    %a = tandem.add %s, %x : tensor<?x8xf32>
    %n = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
    scf.yield %n : tensor<?x8xf32>
  }
  return %y : tensor<?x8xf32>
}

// The bodies of ONNX's If.
// CHECK-LABEL: func.func @onnx_if(
// CHECK: "onnx.If"
// CHECK: scf.if
// CHECK: tandem.fused_all_reduce_norm
// CHECK: "onnx.Yield"
func.func @onnx_if(%x: tensor<?x8xf32>, %g: tensor<8xf32>, %c: tensor<i1>) -> tensor<?x8xf32> {
  %y = "onnx.If"(%c) ({
    %s = tandem.all_reduce %x : tensor<?x8xf32>
    %n = tandem.rms_norm %s, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
    "onnx.Yield"(%n) : (tensor<?x8xf32>) -> ()
  }, {
    "onnx.Yield"(%x) : (tensor<?x8xf32>) -> ()
  }) : (tensor<i1>) -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

// A body reads the sum: it becomes a result of the fused op.
// CHECK-LABEL: func.func @captured_sum(
// CHECK: %[[IF:.*]]:2 = scf.if
// CHECK: returns_sum
// CHECK: scf.if %arg2
// CHECK: "onnx.Relu"(%[[IF]]#1)
func.func @captured_sum(%x: tensor<?x8xf32>, %g: tensor<8xf32>, %c: i1) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %y = tandem.rms_norm %s, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  %z = scf.if %c -> tensor<?x8xf32> {
    %r = "onnx.Relu"(%s) : (tensor<?x8xf32>) -> tensor<?x8xf32>
    scf.yield %r : tensor<?x8xf32>
  } else {
    scf.yield %x : tensor<?x8xf32>
  }
  return %y, %z : tensor<?x8xf32>, tensor<?x8xf32>
}

// Blocks of a control-flow graph: a chain in one block; its values used in
// another.
// CHECK-LABEL: func.func @blocks(
// CHECK: tandem.token_limit
// CHECK: cf.cond_br
// CHECK: ^bb1:
// CHECK: %[[IF:.*]]:2 = scf.if
// CHECK: tandem.fused_all_reduce_norm
// CHECK: ^bb2:
// CHECK: return %[[IF]]#0, %[[IF]]#1
func.func @blocks(%x: tensor<?x8xf32>, %g: tensor<8xf32>, %c: i1) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  cf.cond_br %c, ^bb1, ^bb3
^bb1:
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %a = tandem.add %x, %s : tensor<?x8xf32>
  %n = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  cf.br ^bb2
^bb2:
  return %n, %a : tensor<?x8xf32>, tensor<?x8xf32>
^bb3:
  return %x, %x : tensor<?x8xf32>, tensor<?x8xf32>
}

// A norm that only some calls reach: the all-reduce must not move to it.
// CHECK-LABEL: func.func @negative_norm_in_branch(
// CHECK-NOT: fused
// CHECK: return
// REPORT: "function": "negative_norm_in_branch"
// REPORT: "reason": "CrossBlock"
func.func @negative_norm_in_branch(%x: tensor<?x8xf32>, %g: tensor<8xf32>, %c: i1) -> tensor<?x8xf32> {
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %y = scf.if %c -> tensor<?x8xf32> {
    %n = tandem.rms_norm %s, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
    scf.yield %n : tensor<?x8xf32>
  } else {
    scf.yield %x : tensor<?x8xf32>
  }
  return %y : tensor<?x8xf32>
}

// A function within a module within the module, and one that is only declared.
// CHECK-LABEL: module @inner
// CHECK: func.func @nested(
// CHECK: tandem.token_limit
// CHECK: tandem.fused_all_reduce_norm
// REPORT: "function": "nested"
// REPORT: "status": "fused"
module @inner {
  func.func @nested(%x: tensor<?x8xf32>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
    %s = tandem.all_reduce %x : tensor<?x8xf32>
    %y = tandem.rms_norm %s, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
    return %y : tensor<?x8xf32>
  }
  func.func private @declared(tensor<?x8xf32>)
}

// Ops that stand in no function.
// REPORT: "function": ""
// REPORT: "status": "fused"
%x = tensor.empty() : tensor<2x8xf32>
%g = tensor.empty() : tensor<8xf32>
%s = tandem.all_reduce %x : tensor<2x8xf32>
%y = tandem.rms_norm %s, %g {epsilon = 1.0e-5 : f64} : tensor<2x8xf32>, tensor<8xf32>
