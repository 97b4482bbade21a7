// Reshapes that keep the last dimension, identities, and casts that change
// nothing may stand anywhere in the chain: they keep rows whole. In graphs of
// PyTorch's they hide half of the sites.
//
// RUN: fusion-opt %s --tandem-fuse -o %t.once
// RUN: FileCheck %s < %t.once
// RUN: fusion-opt %t.once --tandem-fuse -o %t.twice
// RUN: cmp %t.once %t.twice

// Before the add: the view is applied to what the fused op reads.
// CHECK-LABEL: func.func @reshape_before_add(
// CHECK-SAME: %[[X:[^:]*]]: tensor<?x8xf32>, %[[SHAPE:[^:]*]]: tensor<3xi64>, %[[R:[^:]*]]: tensor<?x?x8xf32>,
// CHECK: %[[V:.*]] = "onnx.Reshape"(%[[X]], %[[SHAPE]]) {allowzero = 0 : si64} : (tensor<?x8xf32>, tensor<3xi64>) -> tensor<?x?x8xf32>
// CHECK: tensor.dim %[[V]], %c0
// CHECK: tensor.dim %[[V]], %c1
// CHECK: tandem.fused_all_reduce_norm %[[V]] residual(%[[R]] : tensor<?x?x8xf32>)
// CHECK: %[[S:.*]] = tandem.all_reduce %[[X]] {fallback} : tensor<?x8xf32>
// CHECK: %[[W:.*]] = "onnx.Reshape"(%[[S]], %[[SHAPE]])
// CHECK: tandem.add %[[W]], %[[R]]
func.func @reshape_before_add(%x: tensor<?x8xf32>, %shape: tensor<3xi64>, %r: tensor<?x?x8xf32>, %g: tensor<8xf32>) -> tensor<?x?x8xf32> {
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %v = "onnx.Reshape"(%s, %shape) {allowzero = 0 : si64} : (tensor<?x8xf32>, tensor<3xi64>) -> tensor<?x?x8xf32>
  %a = tandem.add %v, %r : tensor<?x?x8xf32>
  %y = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64} : tensor<?x?x8xf32>, tensor<8xf32>
  return %y : tensor<?x?x8xf32>
}

// After the add: the view is applied to the norm's result; the new residual
// keeps its own shape.
// CHECK-LABEL: func.func @reshape_after_add(
// CHECK-SAME: %[[X:[^:]*]]: tensor<?x?x8xf32>
// CHECK: %[[IF:.*]]:2 = scf.if %{{.*}} -> (tensor<?x8xf32>, tensor<?x?x8xf32>)
// CHECK: %[[F:.*]]:2 = tandem.fused_all_reduce_norm %[[X]] residual(
// CHECK: %[[V:.*]] = "onnx.Reshape"(%[[F]]#0, %{{.*}}) : (tensor<?x?x8xf32>, tensor<2xi64>) -> tensor<?x8xf32>
// CHECK: scf.yield %[[V]], %[[F]]#1
// CHECK: return %[[IF]]#0, %[[IF]]#1
func.func @reshape_after_add(%x: tensor<?x?x8xf32>, %shape: tensor<2xi64>, %r: tensor<?x?x8xf32>, %g: tensor<8xf32>) -> (tensor<?x8xf32>, tensor<?x?x8xf32>) {
  %s = tandem.all_reduce %x : tensor<?x?x8xf32>
  %a = tandem.add %s, %r : tensor<?x?x8xf32>
  %v = "onnx.Reshape"(%a, %shape) : (tensor<?x?x8xf32>, tensor<2xi64>) -> tensor<?x8xf32>
  %y = tandem.rms_norm %v, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y, %a : tensor<?x8xf32>, tensor<?x?x8xf32>
}

// In all places of the sandwich.
// CHECK-LABEL: func.func @reshapes_in_sandwich(
// CHECK-SAME: %[[X:[^:]*]]: tensor<?x8xf32>
// CHECK: %[[V1:.*]] = "onnx.Unsqueeze"(%[[X]], %{{.*}}) : {{.*}} -> tensor<1x?x8xf32>
// CHECK: %[[V2:.*]] = "onnx.Reshape"(%[[V1]], %{{.*}}) : {{.*}} -> tensor<?x1x8xf32>
// CHECK: %[[F:.*]] = tandem.fused_all_reduce_norm %[[V2]] residual({{.*}}) pre_gamma({{.*}}) gamma(
// CHECK: "onnx.Squeeze"(%[[F]], %{{.*}}) : {{.*}} -> tensor<?x8xf32>
func.func @reshapes_in_sandwich(%x: tensor<?x8xf32>, %zero: tensor<1xi64>, %one: tensor<1xi64>, %shape: tensor<3xi64>, %r: tensor<?x1x8xf32>, %g1: tensor<8xf32>, %g2: tensor<8xf32>) -> tensor<?x8xf32> {
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %u = "onnx.Unsqueeze"(%s, %zero) : (tensor<?x8xf32>, tensor<1xi64>) -> tensor<1x?x8xf32>
  %p = tandem.rms_norm %u, %g1 {epsilon = 1.0e-5 : f64} : tensor<1x?x8xf32>, tensor<8xf32>
  %v = "onnx.Reshape"(%p, %shape) : (tensor<1x?x8xf32>, tensor<3xi64>) -> tensor<?x1x8xf32>
  %a = tandem.add %r, %v : tensor<?x1x8xf32>
  %w = "onnx.Squeeze"(%a, %one) : (tensor<?x1x8xf32>, tensor<1xi64>) -> tensor<?x8xf32>
  %y = tandem.rms_norm %w, %g2 {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y : tensor<?x8xf32>
}

// CHECK-LABEL: func.func @flatten(
// CHECK: %[[V:.*]] = "onnx.Flatten"(%{{.*}}) {axis = -1 : si64} : {{.*}} -> tensor<?x8xf32>
// CHECK: tandem.fused_all_reduce_norm %[[V]]
func.func @flatten(%x: tensor<?x?x8xf32>, %r: tensor<?x8xf32>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  %s = tandem.all_reduce %x : tensor<?x?x8xf32>
  %v = "onnx.Flatten"(%s) {axis = -1 : si64} : (tensor<?x?x8xf32>) -> tensor<?x8xf32>
  %a = tandem.add %v, %r : tensor<?x8xf32>
  %y = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y : tensor<?x8xf32>
}

// CHECK-LABEL: func.func @tensor_dialect(
// CHECK: %[[V:.*]] = tensor.collapse_shape %{{.*}} {{\[\[}}0, 1], [2]] : tensor<?x?x8xf32> into tensor<?x8xf32>
// CHECK: %[[F:.*]] = tandem.fused_all_reduce_norm %[[V]]
// CHECK: tensor.expand_shape %[[F]] {{\[\[}}0, 1], [2]] output_shape [%{{.*}}, 1, 8]
func.func @tensor_dialect(%x: tensor<?x?x8xf32>, %r: tensor<?x8xf32>, %n: index, %g: tensor<8xf32>) -> tensor<?x1x8xf32> {
  %s = tandem.all_reduce %x : tensor<?x?x8xf32>
  %v = tensor.collapse_shape %s [[0, 1], [2]] : tensor<?x?x8xf32> into tensor<?x8xf32>
  %a = tandem.add %v, %r : tensor<?x8xf32>
  %w = tensor.expand_shape %a [[0, 1], [2]] output_shape [%n, 1, 8] : tensor<?x8xf32> into tensor<?x1x8xf32>
  %y = tandem.rms_norm %w, %g {epsilon = 1.0e-5 : f64} : tensor<?x1x8xf32>, tensor<8xf32>
  return %y : tensor<?x1x8xf32>
}

// A view whose shape is computed behind the all-reduce: the fused op goes
// behind that. A name belongs to the original alone.
// CHECK-LABEL: func.func @shape_computed_late(
// CHECK: %[[SHAPE:.*]] = "onnx.Concat"
// CHECK: %[[V:.*]] = "onnx.Reshape"(%{{.*}}, %[[SHAPE]]) : {{.*}} -> tensor<?x?x8xf32>
// CHECK: tandem.fused_all_reduce_norm %[[V]]
// CHECK: onnx_node_name = "view"
func.func @shape_computed_late(%x: tensor<?x8xf32>, %b: tensor<2xi64>, %h: tensor<1xi64>, %g: tensor<8xf32>) -> tensor<?x?x8xf32> {
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %shape = "onnx.Concat"(%b, %h) {axis = 0 : si64} : (tensor<2xi64>, tensor<1xi64>) -> tensor<3xi64>
  %v = "onnx.Reshape"(%s, %shape) {onnx_node_name = "view"} : (tensor<?x8xf32>, tensor<3xi64>) -> tensor<?x?x8xf32>
  %y = tandem.rms_norm %v, %g {epsilon = 1.0e-5 : f64} : tensor<?x?x8xf32>, tensor<8xf32>
  return %y : tensor<?x?x8xf32>
}

// Identities and casts to the same type are not kept in the fused branch. The
// sum that is used before one of them is the same sum.
// CHECK-LABEL: func.func @identities(
// CHECK-SAME: %[[X:[^:]*]]: tensor<?x8xbf16>
// CHECK: %[[IF:.*]]:2 = scf.if
// CHECK-NOT: onnx
// CHECK: tandem.fused_all_reduce_norm %[[X]] residual({{.*}} returns_sum
// CHECK: } else {
// CHECK: "onnx.Identity"
// CHECK: "onnx.Cast"
// CHECK: }
// CHECK: return %[[IF]]#0, %[[IF]]#1
func.func @identities(%x: tensor<?x8xbf16>, %r: tensor<?x8xbf16>, %g: tensor<8xbf16>) -> (tensor<?x8xbf16>, tensor<?x8xbf16>) {
  %s = tandem.all_reduce %x : tensor<?x8xbf16>
  %i = "onnx.Identity"(%s) : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %c = "onnx.Cast"(%i) {to = bf16} : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %a = tandem.add %c, %r : tensor<?x8xbf16>
  %y = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xbf16>, tensor<8xbf16>
  return %y, %s : tensor<?x8xbf16>, tensor<?x8xbf16>
}

// The reshaped sum is used elsewhere: it is the fused op's own sum.
// CHECK-LABEL: func.func @reshaped_sum_used(
// CHECK: %[[IF:.*]]:2 = scf.if %{{.*}} -> (tensor<?x1x8xf32>, tensor<?x1x8xf32>)
// CHECK: tandem.fused_all_reduce_norm {{.*}} returns_sum
// CHECK: return %[[IF]]#0, %[[IF]]#1
func.func @reshaped_sum_used(%x: tensor<?x8xf32>, %shape: tensor<3xi64>, %r: tensor<?x1x8xf32>, %g: tensor<8xf32>) -> (tensor<?x1x8xf32>, tensor<?x1x8xf32>) {
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %v = "onnx.Reshape"(%s, %shape) : (tensor<?x8xf32>, tensor<3xi64>) -> tensor<?x1x8xf32>
  %a = tandem.add %v, %r : tensor<?x1x8xf32>
  %y = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64} : tensor<?x1x8xf32>, tensor<8xf32>
  return %y, %v : tensor<?x1x8xf32>, tensor<?x1x8xf32>
}

// The view between add and norm has another user: it reads the new residual.
// CHECK-LABEL: func.func @view_after_add_used(
// CHECK: %[[IF:.*]]:2 = scf.if
// CHECK: tandem.fused_all_reduce_norm {{.*}} returns_residual
// CHECK: %[[V:.*]] = "onnx.Reshape"(%[[IF]]#1,
// CHECK: return %[[IF]]#0, %[[V]]
func.func @view_after_add_used(%x: tensor<?x1x8xf32>, %shape: tensor<2xi64>, %r: tensor<?x1x8xf32>, %g: tensor<8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  %s = tandem.all_reduce %x : tensor<?x1x8xf32>
  %a = tandem.add %s, %r : tensor<?x1x8xf32>
  %v = "onnx.Reshape"(%a, %shape) : (tensor<?x1x8xf32>, tensor<2xi64>) -> tensor<?x8xf32>
  %y = tandem.rms_norm %v, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y, %v : tensor<?x8xf32>, tensor<?x8xf32>
}

// A type that says less of one tensor than of another is no obstacle.
// CHECK-LABEL: func.func @tensor_cast(
// CHECK-SAME: %[[X:[^:]*]]: tensor<4x8xf32>
// CHECK: %[[V:.*]] = tensor.cast %[[X]] : tensor<4x8xf32> to tensor<?x8xf32>
// CHECK: tandem.fused_all_reduce_norm %[[V]]
func.func @tensor_cast(%x: tensor<4x8xf32>, %r: tensor<?x8xf32>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  %s = tandem.all_reduce %x : tensor<4x8xf32>
  %v = tensor.cast %s : tensor<4x8xf32> to tensor<?x8xf32>
  %a = tandem.add %v, %r : tensor<?x8xf32>
  %y = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y : tensor<?x8xf32>
}
