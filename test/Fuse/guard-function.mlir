// guard=function: one check at the beginning of a function decides between two
// versions of it. Where the check can't be made from the arguments, or dims
// have to be compared, each chain has its own guard as with guard=chain.
//
// RUN: fusion-opt %s --tandem-fuse='guard=function max-tokens=64 report=%t.json' -o %t.once
// RUN: FileCheck %s < %t.once
// RUN: FileCheck %s --check-prefix=REPORT < %t.json
// RUN: fusion-opt %t.once --tandem-fuse='guard=function max-tokens=64 report=%t.2.json' -o %t.twice
// RUN: cmp %t.once %t.twice
// RUN: FileCheck %s --check-prefix=AGAIN < %t.2.json
// RUN: fusion-opt %t.once --tandem-fuse-pipeline='guard=chain' -o %t.chain
// RUN: cmp %t.once %t.chain

// The second run finds as many all-reduces, though there are two versions.
// REPORT: "all_reduces": 10
// REPORT: "fused": 9
// REPORT: "guarded": 8
// REPORT: "missed": 1
// AGAIN: "all_reduces": 10
// AGAIN: "fused": 9
// AGAIN: "guarded": 8
// AGAIN: "missed": 1

// CHECK-LABEL: func.func @layers(
// CHECK-SAME: %[[X:[^:]*]]: tensor<?x?x8xf32> {onnx.name = "x"}, %[[R:[^:]*]]: tensor<?x?x8xf32>, %[[G:[^:]*]]: tensor<8xf32>) -> (tensor<?x?x8xf32> {onnx.name = "y"}, tensor<?x?x8xf32>)
// CHECK: %[[LIMIT:.*]] = tandem.token_limit
// CHECK: %[[MIN:.*]] = arith.minsi %{{.*}}, %[[LIMIT]]
// CHECK: %[[TOKENS:.*]] = arith.muli
// CHECK: %[[SOME:.*]] = arith.cmpi sgt, %[[TOKENS]]
// CHECK: %[[FEW:.*]] = arith.cmpi sle, %[[TOKENS]], %[[MIN]]
// CHECK: %[[FUSE:.*]] = arith.andi %[[SOME]], %[[FEW]]
// CHECK-NOT: arith.cmpi
// CHECK: %[[IF:.*]]:2 = scf.if %[[FUSE]]
// CHECK: %[[A:.*]]:2 = func.call @layers_fused(%[[X]], %[[R]], %[[G]])
// CHECK: scf.yield %[[A]]#0, %[[A]]#1
// CHECK: %[[B:.*]]:2 = func.call @layers_fallback(%[[X]], %[[R]], %[[G]])
// CHECK: scf.yield %[[B]]#0, %[[B]]#1
// CHECK: return %[[IF]]#0, %[[IF]]#1

// CHECK-LABEL: func.func private @layers_fused(
// CHECK-SAME: onnx.name = "x"
// CHECK-NOT: scf.if
// CHECK: tandem.fused_all_reduce_norm {{.*}} tandem.guard = "tokens <= 64, once for the function"
// CHECK-NOT: scf.if
// CHECK: tandem.fused_all_reduce_norm
// CHECK-NOT: tandem.all_reduce
// CHECK: return

// CHECK-LABEL: func.func private @layers_fallback(
// CHECK-SAME: attributes {tandem.fallback}
// CHECK-NOT: fused
// CHECK: tandem.all_reduce %{{.*}} {fallback}
// CHECK: tandem.rms_norm
// CHECK: tandem.all_reduce %{{.*}} {fallback}
// CHECK: tandem.rms_norm
// CHECK: return

// REPORT: "function": "layers"
// REPORT: "guard": "tokens <= 64, once for the function"
// REPORT: "function": "layers"
// REPORT: "guard": "tokens <= 64, once for the function"
// AGAIN: "function": "layers_fused"
// AGAIN: "function": "layers_fused"
func.func @layers(%x: tensor<?x?x8xf32> {onnx.name = "x"}, %r: tensor<?x?x8xf32>, %g: tensor<8xf32>) -> (tensor<?x?x8xf32> {onnx.name = "y"}, tensor<?x?x8xf32>) {
  %s = tandem.all_reduce %x : tensor<?x?x8xf32>
  %a = tandem.add %s, %r : tensor<?x?x8xf32>
  %n = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64} : tensor<?x?x8xf32>, tensor<8xf32>
  %h = "onnx.Relu"(%n) : (tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
  %t = tandem.all_reduce %h : tensor<?x?x8xf32>
  %b = tandem.add %t, %a : tensor<?x?x8xf32>
  %y = tandem.rms_norm %b, %g {epsilon = 1.0e-5 : f64} : tensor<?x?x8xf32>, tensor<8xf32>
  return %y, %b : tensor<?x?x8xf32>, tensor<?x?x8xf32>
}

// A caller's call stays one of the function that decides.
// CHECK-LABEL: func.func @caller(
// CHECK: call @layers(
func.func @caller(%x: tensor<?x?x8xf32>, %g: tensor<8xf32>) -> tensor<?x?x8xf32> {
  %y:2 = call @layers(%x, %x, %g) : (tensor<?x?x8xf32>, tensor<?x?x8xf32>, tensor<8xf32>) -> (tensor<?x?x8xf32>, tensor<?x?x8xf32>)
  return %y#0 : tensor<?x?x8xf32>
}

// Two hidden sizes have two limits; both conditions must hold.
// CHECK-LABEL: func.func @two_limits(
// CHECK-COUNT-2: tandem.token_limit
// CHECK: %[[C1:.*]] = arith.andi
// CHECK: %[[C2:.*]] = arith.andi
// CHECK: %[[BOTH:.*]] = arith.andi %[[C1]], %[[C2]]
// CHECK: scf.if %[[BOTH]]
// CHECK: call @two_limits_fused
// CHECK-LABEL: func.func private @two_limits_fused(
// CHECK-LABEL: func.func private @two_limits_fallback(
func.func @two_limits(%x: tensor<?x8xf32>, %z: tensor<?x4xf32>, %g8: tensor<8xf32>, %g4: tensor<4xf32>) -> (tensor<?x8xf32>, tensor<?x4xf32>) {
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %y = tandem.rms_norm %s, %g8 {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  %t = tandem.all_reduce %z : tensor<?x4xf32>
  %u = tandem.rms_norm %t, %g4 {epsilon = 1.0e-5 : f64} : tensor<?x4xf32>, tensor<4xf32>
  return %y, %u : tensor<?x8xf32>, tensor<?x4xf32>
}

// A chain with a static count needs no check: its fused op is in the fused
// version alone. So is what did not fuse in both, and a second run touches
// neither.
// CHECK-LABEL: func.func @static_chain_and_miss(
// CHECK: scf.if
// CHECK-LABEL: func.func private @static_chain_and_miss_fused(
// CHECK: tandem.fused_all_reduce_norm
// CHECK: tandem.fused_all_reduce_norm
// CHECK: tandem.all_reduce
// CHECK-LABEL: func.func private @static_chain_and_miss_fallback(
// CHECK-NOT: tandem.fused_all_reduce_norm
// CHECK-COUNT-3: tandem.all_reduce
func.func @static_chain_and_miss(%x: tensor<?x8xf32>, %z: tensor<4x8xf32>, %g: tensor<8xf32>) -> (tensor<?x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) {
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %y = tandem.rms_norm %s, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  %t = tandem.all_reduce %z : tensor<4x8xf32>
  %u = tandem.rms_norm %t, %g {epsilon = 1.0e-5 : f64} : tensor<4x8xf32>, tensor<8xf32>
  %v = tandem.all_reduce %z : tensor<4x8xf32>
  return %y, %u, %v : tensor<?x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
}

// The token count is not a product of the arguments' dims: at the beginning it
// is not known yet.
// CHECK-LABEL: func.func @count_computed_inside(
// CHECK: scf.if
// CHECK: tandem.fused_all_reduce_norm {{.*}} tandem.guard = "tokens <= 64"}
// CHECK-NOT: func.func private @count_computed_inside
func.func @count_computed_inside(%x: tensor<?x8xf32>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  %z = "onnx.Custom"(%x) {domain_name = "com.acme", function_name = "Pick"} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %s = tandem.all_reduce %z : tensor<?x8xf32>
  %y = tandem.rms_norm %s, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y : tensor<?x8xf32>
}

// CHECK-LABEL: func.func @shapes_compared(
// CHECK: arith.cmpi eq
// CHECK: tandem.fused_all_reduce_norm
func.func @shapes_compared(%x: tensor<?x8xf32>, %r: tensor<?x8xf32>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %a = "onnx.Add"(%s, %r) : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %y = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y : tensor<?x8xf32>
}

// A name that is taken is not taken twice.
// CHECK-LABEL: func.func private @named_fused(
func.func private @named_fused()
// CHECK: func.func private @named_fused_{{[0-9]+}}(
// CHECK: func.func private @named_fallback(
func.func @named(%x: tensor<?x8xf32>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %y = tandem.rms_norm %s, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y : tensor<?x8xf32>
}
