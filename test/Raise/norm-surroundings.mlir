// What may stand around a norm: casts, gammas in other forms, other users.
//
// RUN: fusion-opt %s --tandem-raise | FileCheck %s
// RUN: fusion-opt %s -o %t.before
// RUN: fusion-opt %s --tandem-raise --tandem-restore -o %t.after
// RUN: cmp %t.before %t.after

// A cast of gamma to the type of the statistics is exact, so gamma is what is
// cast.
// CHECK-LABEL: func.func @gamma_upcast(
// CHECK-SAME: %[[X:.*]]: tensor<4x8xbf16>, %[[G:.*]]: tensor<8xbf16>)
// CHECK: tandem.rms_norm %[[X]], %[[G]] {{.*}}rounding = #tandem<rounding after_gamma>{{.*}} : tensor<4x8xbf16>, tensor<8xbf16> source {
// CHECK: "onnx.Cast"(%[[G]])
// CHECK: tandem.yield
func.func @gamma_upcast(%x: tensor<4x8xbf16>, %g: tensor<8xbf16>) -> tensor<4x8xbf16> {
  %u = "onnx.Cast"(%x) {to = f32} : (tensor<4x8xbf16>) -> tensor<4x8xf32>
  %sq = "onnx.Mul"(%u, %u) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %m = "onnx.ReduceMean"(%sq) {axes = [-1]} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %eps = "onnx.Constant"() {value_float = 1.0e-5 : f32} : () -> tensor<f32>
  %v = "onnx.Add"(%m, %eps) : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %s = "onnx.Sqrt"(%v) : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %n = "onnx.Div"(%u, %s) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %gu = "onnx.Cast"(%g) {to = f32} : (tensor<8xbf16>) -> tensor<8xf32>
  %y = "onnx.Mul"(%n, %gu) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %d = "onnx.Cast"(%y) {to = bf16} : (tensor<4x8xf32>) -> tensor<4x8xbf16>
  return %d : tensor<4x8xbf16>
}

// A cast of gamma to a narrower type rounds: it stays, and its result is gamma.
// CHECK-LABEL: func.func @gamma_downcast(
// CHECK-SAME: %[[X:.*]]: tensor<4x8xbf16>, %[[G:.*]]: tensor<8xf32>)
// CHECK: %[[C:.*]] = "onnx.Cast"(%[[G]]) {to = bf16}
// CHECK: tandem.rms_norm %[[X]], %[[C]] {epsilon = 9.9999997473787516E-6 : f64, source_positions
func.func @gamma_downcast(%x: tensor<4x8xbf16>, %g: tensor<8xf32>) -> tensor<4x8xbf16> {
  %gd = "onnx.Cast"(%g) {to = bf16} : (tensor<8xf32>) -> tensor<8xbf16>
  %u = "onnx.Cast"(%x) {to = f32} : (tensor<4x8xbf16>) -> tensor<4x8xf32>
  %sq = "onnx.Mul"(%u, %u) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %m = "onnx.ReduceMean"(%sq) {axes = [-1]} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %eps = "onnx.Constant"() {value_float = 1.0e-5 : f32} : () -> tensor<f32>
  %v = "onnx.Add"(%m, %eps) : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %s = "onnx.Sqrt"(%v) : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %n = "onnx.Div"(%u, %s) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %d = "onnx.Cast"(%n) {to = bf16} : (tensor<4x8xf32>) -> tensor<4x8xbf16>
  %y = "onnx.Mul"(%gd, %d) : (tensor<8xbf16>, tensor<4x8xbf16>) -> tensor<4x8xbf16>
  return %y : tensor<4x8xbf16>
}

// Gemma: gamma is 1 + w in f32, and the product is rounded once.
// CHECK-LABEL: func.func @gemma(
// CHECK-SAME: %[[X:.*]]: tensor<4x8xbf16>, %[[W:.*]]: tensor<8xbf16>)
// CHECK: %[[G:.*]] = "onnx.Add"
// CHECK: tandem.rms_norm %[[X]], %[[G]] {{.*}}rounding = #tandem<rounding after_gamma>{{.*}} : tensor<4x8xbf16>, tensor<8xf32> source {
func.func @gemma(%x: tensor<4x8xbf16>, %w: tensor<8xbf16>) -> tensor<4x8xbf16> {
  %u = "onnx.Cast"(%x) {to = f32} : (tensor<4x8xbf16>) -> tensor<4x8xf32>
  %two = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %sq = "onnx.Pow"(%u, %two) : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %m = "onnx.ReduceMean"(%sq) {axes = [-1]} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %eps = "onnx.Constant"() {value_float = 1.0e-6 : f32} : () -> tensor<f32>
  %v = "onnx.Add"(%m, %eps) : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %s = "onnx.Sqrt"(%v) : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %i = "onnx.Reciprocal"(%s) : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %n = "onnx.Mul"(%u, %i) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %wu = "onnx.Cast"(%w) {to = f32} : (tensor<8xbf16>) -> tensor<8xf32>
  %one = "onnx.Constant"() {value_float = 1.0 : f32} : () -> tensor<f32>
  %g = "onnx.Add"(%one, %wu) : (tensor<f32>, tensor<8xf32>) -> tensor<8xf32>
  %y = "onnx.Mul"(%n, %g) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %d = "onnx.Cast"(%y) {to = bf16} : (tensor<4x8xf32>) -> tensor<4x8xbf16>
  return %d : tensor<4x8xbf16>
}

// Leading ones of gamma are dropped. What does that is erased on restore.
// CHECK-LABEL: func.func @gamma_leading_ones(
// CHECK-SAME: %[[X:.*]]: tensor<4x8xf32>, %[[G:.*]]: tensor<1x8xf32>)
// CHECK: %[[V:.*]] = tensor.collapse_shape %[[G]] {{\[}}[0, 1]] : tensor<1x8xf32> into tensor<8xf32>
// CHECK: tandem.rms_norm %[[X]], %[[V]]
func.func @gamma_leading_ones(%x: tensor<4x8xf32>, %g: tensor<1x8xf32>) -> tensor<4x8xf32> {
  %0 = "onnx.RMSNormalization"(%x, %g) : (tensor<4x8xf32>, tensor<1x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// H = 1: gamma and the mean have the shape of the input's rows.
// CHECK-LABEL: func.func @hidden_one(
// CHECK: tandem.rms_norm %{{.*}}, %{{.*}} {epsilon = 5.000000e-01 : f64
func.func @hidden_one(%x: tensor<4x1xf32>, %g: tensor<1xf32>) -> tensor<4x1xf32> {
  %sq = "onnx.Mul"(%x, %x) : (tensor<4x1xf32>, tensor<4x1xf32>) -> tensor<4x1xf32>
  %m = "onnx.ReduceMean"(%sq) {axes = [-1]} : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %eps = "onnx.Constant"() {value = dense<0.5> : tensor<1xf32>} : () -> tensor<1xf32>
  %v = "onnx.Add"(%m, %eps) : (tensor<4x1xf32>, tensor<1xf32>) -> tensor<4x1xf32>
  %s = "onnx.Sqrt"(%v) : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %n = "onnx.Div"(%x, %s) : (tensor<4x1xf32>, tensor<4x1xf32>) -> tensor<4x1xf32>
  %y = "onnx.Mul"(%n, %g) : (tensor<4x1xf32>, tensor<1xf32>) -> tensor<4x1xf32>
  return %y : tensor<4x1xf32>
}

// Rank 1: all dimensions are the last.
// CHECK-LABEL: func.func @rank_one(
// CHECK: tandem.rms_norm %{{.*}} : tensor<8xf32>, tensor<8xf32>
func.func @rank_one(%x: tensor<8xf32>, %g: tensor<8xf32>) -> tensor<8xf32> {
  %sq = "onnx.Mul"(%x, %x) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %m = "onnx.ReduceMean"(%sq) {keepdims = 1 : si64} : (tensor<8xf32>) -> tensor<1xf32>
  %eps = "onnx.Constant"() {value_float = 0.5 : f32} : () -> tensor<f32>
  %v = "onnx.Add"(%m, %eps) : (tensor<1xf32>, tensor<f32>) -> tensor<1xf32>
  %s = "onnx.Sqrt"(%v) : (tensor<1xf32>) -> tensor<1xf32>
  %n = "onnx.Div"(%x, %s) : (tensor<8xf32>, tensor<1xf32>) -> tensor<8xf32>
  %y = "onnx.Mul"(%n, %g) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// The upcast has another user, so it stays outside and is captured; the
// norm's input is what was cast. With a no-op cast on the residual path, as in
// f32 models, the sum's users go past it.
// CHECK-LABEL: func.func @upcast_shared(
// CHECK-SAME: %[[X:.*]]: tensor<4x8xbf16>, %[[G:.*]]: tensor<8xbf16>)
// CHECK: %[[U:.*]] = "onnx.Cast"(%[[X]]) {to = f32}
// CHECK: %[[Y:.*]] = tandem.rms_norm %[[X]], %[[G]]
// CHECK-NEXT: "onnx.Mul"(%[[U]], %[[U]])
// CHECK: return %[[Y]], %[[U]]
func.func @upcast_shared(%x: tensor<4x8xbf16>, %g: tensor<8xbf16>) -> (tensor<4x8xbf16>, tensor<4x8xf32>) {
  %u = "onnx.Cast"(%x) {to = f32} : (tensor<4x8xbf16>) -> tensor<4x8xf32>
  %sq = "onnx.Mul"(%u, %u) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %m = "onnx.ReduceMean"(%sq) {axes = [-1]} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %eps = "onnx.Constant"() {value_float = 1.0e-5 : f32} : () -> tensor<f32>
  %v = "onnx.Add"(%m, %eps) : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %s = "onnx.Sqrt"(%v) : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %n = "onnx.Div"(%u, %s) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %d = "onnx.Cast"(%n) {to = bf16} : (tensor<4x8xf32>) -> tensor<4x8xbf16>
  %y = "onnx.Mul"(%g, %d) : (tensor<8xbf16>, tensor<4x8xbf16>) -> tensor<4x8xbf16>
  return %y, %u : tensor<4x8xbf16>, tensor<4x8xf32>
}

// CHECK-LABEL: func.func @noop_cast_on_the_residual(
// CHECK-SAME: %[[A:.*]]: tensor<4x8xf32>, %[[B:.*]]: tensor<4x8xf32>, %[[C:.*]]: tensor<4x8xf32>, %[[G:.*]]: tensor<8xf32>)
// CHECK: %[[R:.*]] = tandem.add %[[A]], %[[B]]
// CHECK: %[[K:.*]] = "onnx.Cast"(%[[R]])
// CHECK: %[[Y:.*]] = tandem.rms_norm %[[R]], %[[G]]
// CHECK: "onnx.RMSNormalization"(%[[K]], %[[G]])
// CHECK: %[[N:.*]] = tandem.add %[[R]], %[[C]]
// CHECK: "onnx.Add"(%[[K]], %[[C]])
// CHECK: return %[[Y]], %[[N]], %[[K]]
func.func @noop_cast_on_the_residual(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>, %c: tensor<4x8xf32>, %g: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) {
  %r = "onnx.Add"(%a, %b) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %k = "onnx.Cast"(%r) {to = f32} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = "onnx.RMSNormalization"(%k, %g) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %n = "onnx.Add"(%k, %c) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %y, %n, %k : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
}

// Squares and scaling each have a cast of their own from the same value.
// CHECK-LABEL: func.func @two_upcasts(
// CHECK-SAME: %[[X:.*]]: tensor<4x8xf16>, %[[G:.*]]: tensor<8xf16>)
// CHECK: %[[Y:.*]] = tandem.rms_norm %[[X]], %[[G]]
// CHECK: return %[[Y]]
func.func @two_upcasts(%x: tensor<4x8xf16>, %g: tensor<8xf16>) -> tensor<4x8xf16> {
  %u = "onnx.Cast"(%x) {to = f32} : (tensor<4x8xf16>) -> tensor<4x8xf32>
  %sq = "onnx.Mul"(%u, %u) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %m = "onnx.ReduceMean"(%sq) {axes = [-1]} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %eps = "onnx.Constant"() {value_float = 1.0e-5 : f32} : () -> tensor<f32>
  %v = "onnx.Add"(%m, %eps) : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %s = "onnx.Sqrt"(%v) : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %u2 = "onnx.Cast"(%x) {to = f32} : (tensor<4x8xf16>) -> tensor<4x8xf32>
  %n = "onnx.Div"(%u2, %s) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %d = "onnx.CastLike"(%n, %x) : (tensor<4x8xf32>, tensor<4x8xf16>) -> tensor<4x8xf16>
  %y = "onnx.Mul"(%g, %d) : (tensor<8xf16>, tensor<4x8xf16>) -> tensor<4x8xf16>
  return %y : tensor<4x8xf16>
}

// A bf16 value that is normalised and used in f32: the norm is an f32 one, of
// the upcast value.
// CHECK-LABEL: func.func @stays_f32(
// CHECK: %[[U:.*]] = "onnx.Cast"
// CHECK: tandem.rms_norm %[[U]], %{{.*}} : tensor<4x8xf32>, tensor<8xf32>
func.func @stays_f32(%x: tensor<4x8xbf16>, %g: tensor<8xf32>) -> tensor<4x8xf32> {
  %u = "onnx.Cast"(%x) {to = f32} : (tensor<4x8xbf16>) -> tensor<4x8xf32>
  %sq = "onnx.Mul"(%u, %u) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %m = "onnx.ReduceMean"(%sq) {axes = [-1]} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %eps = "onnx.Constant"() {value_float = 1.0e-5 : f32} : () -> tensor<f32>
  %v = "onnx.Add"(%m, %eps) : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %s = "onnx.Sqrt"(%v) : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %n = "onnx.Div"(%u, %s) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %y = "onnx.Mul"(%g, %n) : (tensor<8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// Two norms of one sum, one of them with shared casts.
// CHECK-LABEL: func.func @two_norms(
// CHECK: %[[R:.*]] = tandem.add
// CHECK: tandem.rms_norm %[[R]]
// CHECK: tandem.rms_norm %[[R]]
func.func @two_norms(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>, %g: tensor<8xf32>, %h: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %r = "onnx.Add"(%a, %b) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %k = "onnx.Identity"(%r) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = "onnx.RMSNormalization"(%k, %g) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %z = "onnx.RMSNormalization"(%k, %h) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  return %y, %z : tensor<4x8xf32>, tensor<4x8xf32>
}

// GLM's epsilon is subnormal in f16; it is kept in f64.
// CHECK-LABEL: func.func @glm_epsilon(
// CHECK: epsilon = 1.562{{4|5}}{{[0-9]*}}E-7 : f64
func.func @glm_epsilon(%x: tensor<4x8xf16>, %g: tensor<8xf16>) -> tensor<4x8xf16> {
  %0 = "onnx.RMSNormalization"(%x, %g) {epsilon = 1.562500e-07 : f32} : (tensor<4x8xf16>, tensor<8xf16>) -> tensor<4x8xf16>
  return %0 : tensor<4x8xf16>
}
