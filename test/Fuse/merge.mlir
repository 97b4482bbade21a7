// merge-all-reduces: all_reduce(a) + all_reduce(b) of one group becomes
// all_reduce(a + b), as where a mixture of experts reduces its routed and its
// shared part apart. It changes rounding, so it has to be asked for.
//
// RUN: fusion-opt %s --allow-unregistered-dialect --tandem-fuse='merge-all-reduces report=%t.json' -o %t.once
// RUN: FileCheck %s < %t.once
// RUN: FileCheck %s --check-prefix=REPORT < %t.json
// RUN: fusion-opt %t.once --allow-unregistered-dialect --tandem-fuse='merge-all-reduces' -o %t.twice
// RUN: cmp %t.once %t.twice
// RUN: fusion-opt %s --allow-unregistered-dialect --tandem-fuse='report=%t.2.json' -o /dev/null
// RUN: FileCheck %s --check-prefix=APART < %t.2.json

#a = #tandem.group<"a">
#b = #tandem.group<"b">

// Each of the source's all-reduces has its entry.
// CHECK-LABEL: func.func @experts(
// CHECK-SAME: %[[X:[^:]*]]: tensor<?x8xf32>, %[[Z:[^:]*]]: tensor<?x8xf32>, %[[R:[^:]*]]: tensor<?x8xf32>
// CHECK: %[[SUM:.*]] = tandem.add %[[X]], %[[Z]]
// CHECK: %[[IF:.*]]:2 = scf.if
// CHECK: tandem.fused_all_reduce_norm %[[SUM]] residual(%[[R]] : {{.*}} returns_residual
// CHECK: tandem.all_reduce %[[SUM]] {fallback}
// CHECK-NOT: tandem.all_reduce
// CHECK: return
// REPORT: "function": "experts"
// REPORT: "location": "{{.*}}merge.mlir:[[# @LINE + 14]]:8"
// REPORT: "status": "fused"
// REPORT: "merged": true
// REPORT: "function": "experts"
// REPORT: "location": "{{.*}}merge.mlir:[[# @LINE + 11]]:8"
// REPORT: "status": "fused"
// REPORT: "merged": true
// APART: "function": "experts"
// APART: "reason": "SumOfAllReduces"
// APART: "blocked_by": "tandem.all_reduce at {{.*}}merge.mlir:[[# @LINE + 6]]:8"
// APART: "function": "experts"
// APART: "reason": "SumOfAllReduces"
// APART: "blocked_by": "tandem.all_reduce at {{.*}}merge.mlir:[[# @LINE + 2]]:8"
func.func @experts(%x: tensor<?x8xf32>, %z: tensor<?x8xf32>, %r: tensor<?x8xf32>, %g: tensor<8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %t = tandem.all_reduce %z : tensor<?x8xf32>
  %u = tandem.add %s, %t : tensor<?x8xf32>
  %a = tandem.add %r, %u : tensor<?x8xf32>
  %y = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y, %a : tensor<?x8xf32>, tensor<?x8xf32>
}

// The reshape of one side goes before the add.
// CHECK-LABEL: func.func @reshape_between(
// CHECK: %[[V:.*]] = "onnx.Reshape"(%arg0, %arg1)
// CHECK: %[[SUM:.*]] = tandem.add %[[V]], %arg2
// CHECK: tandem.fused_all_reduce_norm %[[SUM]] gamma(
func.func @reshape_between(%x: tensor<?x8xf32>, %shape: tensor<3xi64>, %z: tensor<?x?x8xf32>, %g: tensor<8xf32>) -> tensor<?x?x8xf32> {
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %v = "onnx.Reshape"(%s, %shape) : (tensor<?x8xf32>, tensor<3xi64>) -> tensor<?x?x8xf32>
  %t = tandem.all_reduce %z : tensor<?x?x8xf32>
  %u = tandem.add %v, %t : tensor<?x?x8xf32>
  %y = tandem.rms_norm %u, %g {epsilon = 1.0e-5 : f64} : tensor<?x?x8xf32>, tensor<8xf32>
  return %y : tensor<?x?x8xf32>
}

// Three become one; in the sandwich too.
// CHECK-LABEL: func.func @three(
// CHECK: %[[S1:.*]] = tandem.add %arg0, %arg1
// CHECK: %[[S2:.*]] = tandem.add %[[S1]], %arg2
// CHECK: tandem.fused_all_reduce_norm %[[S2]] residual({{.*}} pre_gamma(
// CHECK: tandem.all_reduce
// CHECK-NOT: tandem.all_reduce
// CHECK: return
// REPORT: "function": "three"
// REPORT: "merged": true
// REPORT: "function": "three"
// REPORT: "merged": true
// REPORT: "function": "three"
// REPORT: "pattern": "all_reduce_rms_norm_add_rms_norm"
// REPORT: "merged": true
func.func @three(%x: tensor<?x8xf32>, %z: tensor<?x8xf32>, %w: tensor<?x8xf32>, %r: tensor<?x8xf32>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %t = tandem.all_reduce %z : tensor<?x8xf32>
  %u = tandem.add %s, %t : tensor<?x8xf32>
  %q = tandem.all_reduce %w : tensor<?x8xf32>
  %v = tandem.add %u, %q : tensor<?x8xf32>
  %p = tandem.rms_norm %v, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  %a = tandem.add %p, %r : tensor<?x8xf32>
  %y = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y : tensor<?x8xf32>
}

// Groups that differ can't be one.
// CHECK-LABEL: func.func @negative_groups_differ(
// CHECK: tandem.all_reduce {{.*}} {group = #tandem.group<"a">}
// CHECK: tandem.all_reduce {{.*}} {group = #tandem.group<"b">}
// CHECK-NOT: fused
// CHECK: return
// REPORT: "function": "negative_groups_differ"
// REPORT: "reason": "GroupsDiffer"
func.func @negative_groups_differ(%x: tensor<?x8xf32>, %z: tensor<?x8xf32>, %r: tensor<?x8xf32>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  %s = tandem.all_reduce %x {group = #a} : tensor<?x8xf32>
  %t = tandem.all_reduce %z {group = #b} : tensor<?x8xf32>
  %u = tandem.add %s, %t : tensor<?x8xf32>
  %a = tandem.add %u, %r : tensor<?x8xf32>
  %y = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y : tensor<?x8xf32>
}

// The third stands before the first add; it keeps its place behind the other
// two, of which one stays.
// CHECK-LABEL: func.func @three_before_the_first_add(
// CHECK: %[[S1:.*]] = tandem.add %arg0, %arg1
// CHECK: %[[S2:.*]] = tandem.add %[[S1]], %arg2
// CHECK: tandem.fused_all_reduce_norm %[[S2]] gamma(
// CHECK: tandem.all_reduce
// CHECK-NOT: tandem.all_reduce
// CHECK: return
// REPORT: "function": "three_before_the_first_add"
// REPORT: "merged": true
// REPORT: "function": "three_before_the_first_add"
// REPORT: "merged": true
// REPORT: "function": "three_before_the_first_add"
// REPORT: "merged": true
func.func @three_before_the_first_add(%x: tensor<?x8xf32>, %z: tensor<?x8xf32>, %w: tensor<?x8xf32>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %t = tandem.all_reduce %z : tensor<?x8xf32>
  %q = tandem.all_reduce %w : tensor<?x8xf32>
  %u = tandem.add %s, %t : tensor<?x8xf32>
  %v = tandem.add %u, %q : tensor<?x8xf32>
  %y = tandem.rms_norm %v, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y : tensor<?x8xf32>
}

// What a view reads besides may be computed late; the one stands behind it.
// CHECK-LABEL: func.func @late_shape(
// CHECK: %[[SHAPE:.*]] = "onnx.Shape"(%arg2)
// CHECK: %[[V:.*]] = "onnx.Reshape"(%arg0, %[[SHAPE]])
// CHECK: %[[SUM:.*]] = tandem.add %[[V]], %arg1
// CHECK: tandem.fused_all_reduce_norm %[[SUM]] gamma(
func.func @late_shape(%x: tensor<?x8xf32>, %z: tensor<?x?x8xf32>, %w: tensor<?x?x8xf32>, %g: tensor<8xf32>) -> tensor<?x?x8xf32> {
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %t = tandem.all_reduce %z : tensor<?x?x8xf32>
  %shape = "onnx.Shape"(%w) : (tensor<?x?x8xf32>) -> tensor<3xi64>
  %v = "onnx.Reshape"(%s, %shape) : (tensor<?x8xf32>, tensor<3xi64>) -> tensor<?x?x8xf32>
  %u = tandem.add %v, %t : tensor<?x?x8xf32>
  %y = tandem.rms_norm %u, %g {epsilon = 1.0e-5 : f64} : tensor<?x?x8xf32>, tensor<8xf32>
  return %y : tensor<?x?x8xf32>
}

// Without names, two unknown sizes may differ, and then the add broadcasts.
// CHECK-LABEL: func.func @negative_shapes_unproven(
// CHECK-COUNT-2: tandem.all_reduce
// CHECK-NOT: fused
// CHECK: return
// REPORT: "function": "negative_shapes_unproven"
// REPORT: "reason": "AllReducesNotMerged"
// REPORT: "message": "{{.*}} could not make one of them: the two are not proven to be of one shape"
func.func @negative_shapes_unproven(%x: tensor<?x8xf32>, %z: tensor<?x8xf32>, %r: tensor<?x8xf32>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %t = tandem.all_reduce %z : tensor<?x8xf32>
  %u = "onnx.Add"(%s, %t) : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %a = tandem.add %u, %r : tensor<?x8xf32>
  %y = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y : tensor<?x8xf32>
}

// The earlier one would have to pass a third.
// CHECK-LABEL: func.func @negative_third_between(
// CHECK-COUNT-3: tandem.all_reduce
// CHECK-NOT: fused
// CHECK: return
// REPORT: "function": "negative_third_between"
// REPORT: "reason": "AllReducesNotMerged"
// REPORT: "message": "{{.*}}: tandem.all_reduce at {{.*}}merge.mlir:[[# @LINE + 4]]:8 stands between them"
func.func @negative_third_between(%x: tensor<?x8xf32>, %z: tensor<?x8xf32>, %r: tensor<?x8xf32>, %g: tensor<8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  // Not read by the add.
  %q = tandem.all_reduce %r : tensor<?x8xf32>
  %t = tandem.all_reduce %z : tensor<?x8xf32>
  %u = tandem.add %s, %t : tensor<?x8xf32>
  %a = tandem.add %u, %r : tensor<?x8xf32>
  %y = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y, %q : tensor<?x8xf32>, tensor<?x8xf32>
}

// Each is added to what is not an all-reduce's sum. Adding in another order
// would round differently once more, which nobody asked for.
// CHECK-LABEL: func.func @negative_one_by_one(
// REPORT: "function": "negative_one_by_one"
// REPORT: "reason": "AllReducesNotMerged"
// REPORT: "message": "{{.*}}: they are not added to each other alone"
func.func @negative_one_by_one(%x: tensor<?x8xf32>, %z: tensor<?x8xf32>, %r: tensor<?x8xf32>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %u = tandem.add %s, %r : tensor<?x8xf32>
  %t = tandem.all_reduce %z : tensor<?x8xf32>
  %a = tandem.add %u, %t : tensor<?x8xf32>
  %y = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y : tensor<?x8xf32>
}

// One of the sums is used elsewhere, so its all-reduce has to stay.
// CHECK-LABEL: func.func @negative_sum_used(
// CHECK-COUNT-2: tandem.all_reduce
// CHECK-NOT: fused
// CHECK: return
// REPORT: "function": "negative_sum_used"
// REPORT: "reason": "AllReducesNotMerged"
// REPORT: "message": "{{.*}} could not make one of them: one of them is also used elsewhere"
// REPORT: "suggestion": "remove what keeps them apart, or reduce once in the model"
func.func @negative_sum_used(%x: tensor<?x8xf32>, %z: tensor<?x8xf32>, %r: tensor<?x8xf32>, %g: tensor<8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %t = tandem.all_reduce %z : tensor<?x8xf32>
  %u = tandem.add %s, %t : tensor<?x8xf32>
  %a = tandem.add %u, %r : tensor<?x8xf32>
  %y = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y, %t : tensor<?x8xf32>, tensor<?x8xf32>
}

// Only sums commute with the add.
// CHECK-LABEL: func.func @negative_max(
// CHECK-COUNT-2: tandem.all_reduce
// CHECK: return
func.func @negative_max(%x: tensor<?x8xf32>, %z: tensor<?x8xf32>, %r: tensor<?x8xf32>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  %s = tandem.all_reduce %x {reduction = #tandem<reduction max>} : tensor<?x8xf32>
  %t = tandem.all_reduce %z {reduction = #tandem<reduction max>} : tensor<?x8xf32>
  %u = tandem.add %s, %t : tensor<?x8xf32>
  %a = tandem.add %u, %r : tensor<?x8xf32>
  %y = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y : tensor<?x8xf32>
}

// One all-reduce added to itself.
// CHECK-LABEL: func.func @negative_twice_the_same(
// CHECK: tandem.all_reduce
// CHECK-NOT: tandem.all_reduce
// CHECK: return
func.func @negative_twice_the_same(%x: tensor<?x8xf32>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %u = tandem.add %s, %s : tensor<?x8xf32>
  %y = tandem.rms_norm %u, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y : tensor<?x8xf32>
}

// An effect between them would be reordered.
// CHECK-LABEL: func.func @negative_effect_between(
// CHECK: tandem.all_reduce
// CHECK: "test.effect"
// CHECK: tandem.all_reduce
// CHECK-NOT: fused
// CHECK: return
func.func @negative_effect_between(%x: tensor<?x8xf32>, %z: tensor<?x8xf32>, %r: tensor<?x8xf32>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  "test.effect"() : () -> ()
  %t = tandem.all_reduce %z : tensor<?x8xf32>
  %u = tandem.add %s, %t : tensor<?x8xf32>
  %a = tandem.add %u, %r : tensor<?x8xf32>
  %y = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y : tensor<?x8xf32>
}

// No norm follows, so there is nothing to gain.
// CHECK-LABEL: func.func @negative_no_norm(
// CHECK-COUNT-2: tandem.all_reduce
// CHECK: return
// REPORT: "function": "negative_no_norm"
// REPORT: "reason": "NoNormConsumer"
func.func @negative_no_norm(%x: tensor<?x8xf32>, %z: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %t = tandem.all_reduce %z : tensor<?x8xf32>
  %u = tandem.add %s, %t : tensor<?x8xf32>
  return %u : tensor<?x8xf32>
}
