// Every form of the chain, and what others need of it. The fused op stands in
// the guard's first branch, the source's ops in the second.
//
// RUN: fusion-opt %s --tandem-fuse -o %t.once
// RUN: FileCheck %s < %t.once
// RUN: fusion-opt %t.once --tandem-fuse -o %t.twice
// RUN: cmp %t.once %t.twice
// Whatever the options of a second run: what is fused stays as it is.
// RUN: fusion-opt %t.once --tandem-fuse='guard=none max-tokens=5 batch-invariant merge-all-reduces' -o %t.twice
// RUN: cmp %t.once %t.twice
// RUN: fusion-opt %t.once --tandem-fuse-pipeline='guard=function world-size=1' -o %t.twice
// RUN: cmp %t.once %t.twice

// CHECK-LABEL: func.func @norm(
// CHECK-SAME: %[[X:.*]]: tensor<?x?x8xbf16>, %[[G:.*]]: tensor<8xbf16>)
// CHECK: %[[LIMIT:.*]] = tandem.token_limit {element_type = bf16, hidden = 8 : i64}
// CHECK-DAG: %[[D0:.*]] = tensor.dim %[[X]], %c0
// CHECK-DAG: %[[D1:.*]] = tensor.dim %[[X]], %c1
// CHECK: %[[TOKENS:.*]] = arith.muli
// CHECK: %[[SOME:.*]] = arith.cmpi sgt, %[[TOKENS]], %c0_i64
// CHECK: %[[FEW:.*]] = arith.cmpi sle, %[[TOKENS]], %[[LIMIT]]
// CHECK: %[[FUSE:.*]] = arith.andi %[[SOME]], %[[FEW]] : i1
// CHECK: %[[Y:.*]] = scf.if %[[FUSE]] -> (tensor<?x?x8xbf16>) {
// CHECK: %[[D:.*]] = tensor.empty(%{{.*}}, %{{.*}}) : tensor<?x?x8xbf16>
// CHECK: %[[F:.*]] = tandem.fused_all_reduce_norm %[[X]] gamma(%[[G]] : tensor<8xbf16>) outs(%[[D]] : tensor<?x?x8xbf16>) {epsilon = 1.000000e-05 : f64, tandem.guard = "tokens <= token_limit"} : tensor<?x?x8xbf16> -> tensor<?x?x8xbf16>
// CHECK: scf.yield %[[F]]
// CHECK: } else {
// CHECK: %[[S:.*]] = tandem.all_reduce %[[X]] {fallback} : tensor<?x?x8xbf16>
// CHECK: %[[N:.*]] = tandem.rms_norm %[[S]], %[[G]] {epsilon = 1.000000e-05 : f64}
// CHECK: scf.yield %[[N]]
// CHECK: return %[[Y]]
func.func @norm(%x: tensor<?x?x8xbf16>, %g: tensor<8xbf16>) -> tensor<?x?x8xbf16> {
  %s = tandem.all_reduce %x : tensor<?x?x8xbf16>
  %y = tandem.rms_norm %s, %g {epsilon = 1.0e-5 : f64} : tensor<?x?x8xbf16>, tensor<8xbf16>
  return %y : tensor<?x?x8xbf16>
}

// A vocabulary-parallel embedding: the sum is itself the next residual.
// CHECK-LABEL: func.func @sum_is_residual(
// CHECK: %[[IF:.*]]:2 = scf.if
// CHECK: %[[F:.*]]:2 = tandem.fused_all_reduce_norm {{.*}} returns_sum
// CHECK: scf.yield %[[F]]#0, %[[F]]#1
// CHECK: %[[S:.*]] = tandem.all_reduce {{.*}}fallback
// CHECK: %[[N:.*]] = tandem.rms_norm %[[S]]
// CHECK: scf.yield %[[N]], %[[S]]
// CHECK: return %[[IF]]#0, %[[IF]]#1
func.func @sum_is_residual(%x: tensor<?x8xf32>, %g: tensor<8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %y = tandem.rms_norm %s, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y, %s : tensor<?x8xf32>, tensor<?x8xf32>
}

// The new residual has no other user, so it is no result. Then one that the
// function returns, and one that a later op reads.
// CHECK-LABEL: func.func @residual_unused(
// CHECK-SAME: %[[X:.*]]: tensor<?x8xf16>, %[[R:.*]]: tensor<?x8xf16>, %[[G:.*]]: tensor<8xf16>)
// CHECK: %[[IF:.*]] = scf.if
// CHECK: tandem.fused_all_reduce_norm %[[X]] residual(%[[R]] : tensor<?x8xf16>) gamma(%[[G]] : tensor<8xf16>)
// CHECK-NOT: returns
// CHECK: } else {
// CHECK: %[[S:.*]] = tandem.all_reduce %[[X]] {fallback}
// CHECK: %[[A:.*]] = tandem.add %[[S]], %[[R]]
// CHECK: %[[N:.*]] = tandem.rms_norm %[[A]], %[[G]]
// CHECK: scf.yield %[[N]]
// CHECK: return %[[IF]]
func.func @residual_unused(%x: tensor<?x8xf16>, %r: tensor<?x8xf16>, %g: tensor<8xf16>) -> tensor<?x8xf16> {
  %s = tandem.all_reduce %x : tensor<?x8xf16>
  %a = tandem.add %s, %r : tensor<?x8xf16>
  %y = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf16>, tensor<8xf16>
  return %y : tensor<?x8xf16>
}

// CHECK-LABEL: func.func @residual_returned(
// CHECK: %[[IF:.*]]:2 = scf.if
// CHECK: tandem.fused_all_reduce_norm {{.*}} returns_residual
// CHECK: %[[A:.*]] = tandem.add
// CHECK: %[[N:.*]] = tandem.rms_norm %[[A]]
// CHECK: scf.yield %[[N]], %[[A]]
// CHECK: return %[[IF]]#0, %[[IF]]#1
func.func @residual_returned(%x: tensor<?x8xf32>, %r: tensor<?x8xf32>, %g: tensor<8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %a = tandem.add %s, %r : tensor<?x8xf32>
  %y = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y, %a : tensor<?x8xf32>, tensor<?x8xf32>
}

// The all-reduce as the second operand: the other branch keeps the order.
// Two layers, the first's new residual being the second's residual.
// CHECK-LABEL: func.func @commuted_layers(
// CHECK-SAME: %[[X:[^:]*]]: tensor<?x8xf32>, %[[R:[^:]*]]: tensor<?x8xf32>,
// CHECK: %[[L1:.*]]:2 = scf.if
// CHECK: tandem.fused_all_reduce_norm %[[X]] residual(%[[R]] : {{.*}} returns_residual
// CHECK: %[[S:.*]] = tandem.all_reduce %[[X]] {fallback}
// CHECK: tandem.add %[[R]], %[[S]]
// CHECK: %[[H:.*]] = "onnx.Relu"(%[[L1]]#0)
// CHECK: %[[L2:.*]] = scf.if
// CHECK: tandem.fused_all_reduce_norm %[[H]] residual(%[[L1]]#1 :
// CHECK-NOT: returns
// CHECK: %[[T:.*]] = tandem.all_reduce %[[H]] {fallback}
// CHECK: tandem.add %[[L1]]#1, %[[T]]
// CHECK: return %[[L2]]
func.func @commuted_layers(%x: tensor<?x8xf32>, %r: tensor<?x8xf32>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %a = tandem.add %r, %s : tensor<?x8xf32>
  %n = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  %h = "onnx.Relu"(%n) : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %t = tandem.all_reduce %h : tensor<?x8xf32>
  %b = tandem.add %a, %t : tensor<?x8xf32>
  %y = tandem.rms_norm %b, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y : tensor<?x8xf32>
}

// The sum has another user: it becomes the last result, and that user stands
// behind the guard.
// CHECK-LABEL: func.func @sum_used(
// CHECK: %[[IF:.*]]:3 = scf.if
// CHECK: %[[F:.*]]:3 = tandem.fused_all_reduce_norm {{.*}} returns_residual, returns_sum
// CHECK: scf.yield %[[F]]#0, %[[F]]#1, %[[F]]#2
// CHECK: %[[S:.*]] = tandem.all_reduce
// CHECK: scf.yield %{{.*}}, %{{.*}}, %[[S]]
// CHECK: %[[U:.*]] = "onnx.Tanh"(%[[IF]]#2)
// CHECK: return %[[IF]]#0, %[[IF]]#1, %[[U]]
func.func @sum_used(%x: tensor<?x8xf32>, %r: tensor<?x8xf32>, %g: tensor<8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>) {
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %u = "onnx.Tanh"(%s) : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %a = tandem.add %s, %r : tensor<?x8xf32>
  %y = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y, %a, %u : tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>
}

// A bias of shape [H] is added to the sum first; its rounding is kept.
// CHECK-LABEL: func.func @bias(
// CHECK-SAME: %[[B:[^:]*]]: tensor<8xbf16>, %{{[^:]*}}: tensor<8xbf16>)
// CHECK: tandem.fused_all_reduce_norm {{.*}} residual({{.*}}) bias(%[[B]] : tensor<8xbf16>) gamma
// CHECK: %[[S:.*]] = tandem.all_reduce
// CHECK: %[[C:.*]] = "onnx.Add"(%[[B]], %[[S]])
// CHECK: tandem.add %[[C]],
func.func @bias(%x: tensor<?x8xbf16>, %r: tensor<?x8xbf16>, %b: tensor<8xbf16>, %g: tensor<8xbf16>) -> tensor<?x8xbf16> {
  %s = tandem.all_reduce %x : tensor<?x8xbf16>
  %c = "onnx.Add"(%b, %s) : (tensor<8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %a = tandem.add %c, %r : tensor<?x8xbf16>
  %y = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xbf16>, tensor<8xbf16>
  return %y : tensor<?x8xbf16>
}

// A bias of shape [1, 1, H] becomes a row; here there is no residual.
// CHECK-LABEL: func.func @bias_with_ones(
// CHECK-SAME: %[[B:[^:]*]]: tensor<1x1x8xf32>
// CHECK: %[[ROW:.*]] = tensor.collapse_shape %[[B]] {{\[\[}}0, 1, 2]] : tensor<1x1x8xf32> into tensor<8xf32>
// CHECK: tandem.fused_all_reduce_norm %{{[^ ]*}} bias(%[[ROW]] : tensor<8xf32>) gamma
// CHECK: "onnx.Add"(%{{.*}}, %[[B]])
func.func @bias_with_ones(%x: tensor<?x?x8xf32>, %b: tensor<1x1x8xf32>, %g: tensor<8xf32>) -> tensor<?x?x8xf32> {
  %s = tandem.all_reduce %x : tensor<?x?x8xf32>
  %c = "onnx.Add"(%s, %b) : (tensor<?x?x8xf32>, tensor<1x1x8xf32>) -> tensor<?x?x8xf32>
  %y = tandem.rms_norm %c, %g {epsilon = 1.0e-5 : f64} : tensor<?x?x8xf32>, tensor<8xf32>
  return %y : tensor<?x?x8xf32>
}

// The biased sum is needed elsewhere. The fused op gives the sum, and the bias
// is added to it once more. The source's name goes with what others read.
// CHECK-LABEL: func.func @biased_sum_used(
// CHECK: %[[IF:.*]]:2 = scf.if
// CHECK: tandem.fused_all_reduce_norm {{.*}} bias({{.*}} returns_sum
// CHECK: "onnx.Add"(%{{[^ ]*}}, %{{[^ ]*}}) : (
// CHECK: %[[C:.*]] = "onnx.Add"(%[[IF]]#1, %{{.*}}) {onnx_node_name = "bias", tandem.outputs = ["biased"]}
// CHECK: return %[[IF]]#0, %[[C]]
func.func @biased_sum_used(%x: tensor<?x8xf32>, %b: tensor<8xf32>, %g: tensor<8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %c = "onnx.Add"(%s, %b) {onnx_node_name = "bias", tandem.outputs = ["biased"]} : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  %y = tandem.rms_norm %c, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y, %c : tensor<?x8xf32>, tensor<?x8xf32>
}

// GLM-4-0414: the sum is normalised before the residual is added. Each norm
// keeps its gamma, epsilon and rounding.
// CHECK-LABEL: func.func @sandwich(
// CHECK-SAME: %[[X:[^:]*]]: tensor<?x8xbf16>, %[[R:[^:]*]]: tensor<?x8xbf16>, %[[G1:[^:]*]]: tensor<8xf32>, %[[G2:[^:]*]]: tensor<8xbf16>)
// CHECK: tandem.fused_all_reduce_norm %[[X]] residual(%[[R]] : tensor<?x8xbf16>) pre_gamma(%[[G1]] : tensor<8xf32>) gamma(%[[G2]] : tensor<8xbf16>)
// CHECK-SAME: {epsilon = 2.500000e-05 : f64, pre_epsilon = 1.562500e-07 : f64, pre_rounding = #tandem<rounding after_gamma>, returns_residual,
// CHECK: %[[S:.*]] = tandem.all_reduce
// CHECK: %[[P:.*]] = tandem.rms_norm %[[S]], %[[G1]] {epsilon = 1.562500e-07 : f64, rounding = #tandem<rounding after_gamma>}
// CHECK: %[[A:.*]] = tandem.add %[[R]], %[[P]]
// CHECK: tandem.rms_norm %[[A]], %[[G2]]
func.func @sandwich(%x: tensor<?x8xbf16>, %r: tensor<?x8xbf16>, %g1: tensor<8xf32>, %g2: tensor<8xbf16>) -> (tensor<?x8xbf16>, tensor<?x8xbf16>) {
  %s = tandem.all_reduce %x : tensor<?x8xbf16>
  %p = tandem.rms_norm %s, %g1 {epsilon = 1.5625e-7 : f64, rounding = #tandem<rounding after_gamma>} : tensor<?x8xbf16>, tensor<8xf32>
  %a = tandem.add %r, %p : tensor<?x8xbf16>
  %y = tandem.rms_norm %a, %g2 {epsilon = 2.5e-5 : f64} : tensor<?x8xbf16>, tensor<8xbf16>
  return %y, %a : tensor<?x8xbf16>, tensor<?x8xbf16>
}

// A bias before the sandwich.
// CHECK-LABEL: func.func @biased_sandwich(
// CHECK: tandem.fused_all_reduce_norm {{.*}} residual({{.*}}) bias({{.*}}) pre_gamma({{.*}}) gamma(
func.func @biased_sandwich(%x: tensor<?x8xf32>, %r: tensor<?x8xf32>, %b: tensor<1x8xf32>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %c = "onnx.Add"(%s, %b) : (tensor<?x8xf32>, tensor<1x8xf32>) -> tensor<?x8xf32>
  %p = tandem.rms_norm %c, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  %a = tandem.add %p, %r : tensor<?x8xf32>
  %y = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y : tensor<?x8xf32>
}

// Two norms on one sum, as where attention and MLP run side by side: one is
// fused, the other reads the new residual.
// CHECK-LABEL: func.func @two_norms(
// CHECK-SAME: %[[G1:[^:]*]]: tensor<8xf32>, %[[G2:[^:]*]]: tensor<8xf32>)
// CHECK: %[[IF:.*]]:2 = scf.if
// CHECK: tandem.fused_all_reduce_norm {{.*}} gamma(%[[G1]] : {{.*}} returns_residual
// CHECK: %[[N:.*]] = tandem.rms_norm %[[IF]]#1, %[[G2]]
// CHECK: return %[[IF]]#0, %[[N]]
func.func @two_norms(%x: tensor<?x8xf32>, %r: tensor<?x8xf32>, %g1: tensor<8xf32>, %g2: tensor<8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %a = tandem.add %s, %r : tensor<?x8xf32>
  %y = tandem.rms_norm %a, %g1 {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  %z = tandem.rms_norm %a, %g2 {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y, %z : tensor<?x8xf32>, tensor<?x8xf32>
}

// The norm before the residual add has another user, so it is computed once
// more from the sum.
// CHECK-LABEL: func.func @pre_norm_used(
// CHECK: %[[IF:.*]]:2 = scf.if
// CHECK: tandem.fused_all_reduce_norm {{.*}} pre_gamma({{.*}} returns_sum
// CHECK: %[[P:.*]] = tandem.rms_norm %[[IF]]#1
// CHECK: return %[[IF]]#0, %[[P]]
func.func @pre_norm_used(%x: tensor<?x8xf32>, %r: tensor<?x8xf32>, %g: tensor<8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %p = tandem.rms_norm %s, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  %a = tandem.add %p, %r : tensor<?x8xf32>
  %y = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y, %p : tensor<?x8xf32>, tensor<?x8xf32>
}

// A norm behind the residual stream that has no all-reduce before it (as the
// first norm of a model, or q and k norms) stays.
// CHECK-LABEL: func.func @other_norms_stay(
// CHECK: %[[N:.*]] = tandem.rms_norm %{{.*}}, %{{.*}} {epsilon = 2.500000e-05 : f64} : tensor<?x2x4xf32>
// CHECK: tandem.fused_all_reduce_norm
// CHECK: return %{{.*}}, %[[N]]
func.func @other_norms_stay(%q: tensor<?x2x4xf32>, %gq: tensor<4xf32>, %x: tensor<?x8xf32>, %g: tensor<8xf32>) -> (tensor<?x8xf32>, tensor<?x2x4xf32>) {
  %n = tandem.rms_norm %q, %gq {epsilon = 2.5e-5 : f64} : tensor<?x2x4xf32>, tensor<4xf32>
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %y = tandem.rms_norm %s, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y, %n : tensor<?x8xf32>, tensor<?x2x4xf32>
}

// The group goes along.
// CHECK-LABEL: func.func @group(
// CHECK: tandem.token_limit {element_type = f32, group = #tandem.group<"tp", size = 4>, hidden = 8 : i64}
// CHECK: tandem.fused_all_reduce_norm {{.*}} group = #tandem.group<"tp", size = 4>
// CHECK: tandem.all_reduce {{.*}} {fallback, group = #tandem.group<"tp", size = 4>}
func.func @group(%x: tensor<?x8xf32>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  %s = tandem.all_reduce %x {group = #tandem.group<"tp", size = 4>} : tensor<?x8xf32>
  %y = tandem.rms_norm %s, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y : tensor<?x8xf32>
}
