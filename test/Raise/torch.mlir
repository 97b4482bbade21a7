// The same ops as torch.operator, where the torch dialect is not loaded. Casts
// bridge the types; between raised ops there are none.
//
// RUN: fusion-opt %s --allow-unregistered-dialect --tandem-raise | FileCheck %s
// RUN: fusion-opt %s --allow-unregistered-dialect -o %t.before
// RUN: fusion-opt %s --allow-unregistered-dialect --tandem-raise --tandem-restore -o %t.after
// RUN: cmp %t.before %t.after

// CHECK-LABEL: func.func @chain(
// CHECK-SAME: %[[X:.*]]: !torch.vtensor<[4,8],f16>, %[[H:.*]]: !torch.vtensor<[4,8],f16>, %[[G:.*]]: !torch.vtensor<[8],f16>)
// CHECK: %[[CX:.*]] = builtin.unrealized_conversion_cast %[[X]] : !torch.vtensor<[4,8],f16> to tensor<4x8xf16>
// CHECK: %[[S:.*]] = tandem.all_reduce %[[CX]]
// CHECK: %[[CH:.*]] = builtin.unrealized_conversion_cast %[[H]]
// CHECK: %[[R:.*]] = tandem.add %[[CH]], %[[S]]
// CHECK: %[[TR:.*]] = builtin.unrealized_conversion_cast %[[R]] : tensor<4x8xf16> to !torch.vtensor<[4,8],f16>
// CHECK: %[[CG:.*]] = builtin.unrealized_conversion_cast %[[G]]
// CHECK: %[[Y:.*]] = tandem.rms_norm %[[R]], %[[CG]] {epsilon = 1.562500e-02 : f64
// CHECK: %[[TY:.*]] = builtin.unrealized_conversion_cast %[[Y]]
// CHECK: return %[[TY]], %[[TR]]
func.func @chain(%x: !torch.vtensor<[4,8],f16>, %h: !torch.vtensor<[4,8],f16>, %g: !torch.vtensor<[8],f16>) -> (!torch.vtensor<[4,8],f16>, !torch.vtensor<[4,8],f16>) {
  %0 = "torch.operator"(%x) {name = "onnx.AllReduce"} : (!torch.vtensor<[4,8],f16>) -> !torch.vtensor<[4,8],f16>
  %1 = "torch.operator"(%h, %0) {name = "onnx.Add"} : (!torch.vtensor<[4,8],f16>, !torch.vtensor<[4,8],f16>) -> !torch.vtensor<[4,8],f16>
  %2 = "torch.operator"(%1, %g) {name = "onnx.RMSNormalization", torch.onnx.epsilon = 1.562500e-02 : f32, torch.onnx.axis = -1 : si64} : (!torch.vtensor<[4,8],f16>, !torch.vtensor<[8],f16>) -> !torch.vtensor<[4,8],f16>
  return %2, %1 : !torch.vtensor<[4,8],f16>, !torch.vtensor<[4,8],f16>
}

// Constants as literals, inputs that are left out.
// CHECK-LABEL: func.func @literals(
// CHECK: tandem.rms_norm %{{.*}} {epsilon = 1.562500e-02 : f64, source_positions
// CHECK: tandem.rms_norm %{{.*}} rounding = #tandem<rounding after_gamma>
func.func @literals(%x: !torch.vtensor<[4,8],f32>, %g: !torch.vtensor<[8],f32>) -> !torch.vtensor<[4,8],f32> {
  %eps = "torch.vtensor.literal"() {value = dense<1.562500e-02> : tensor<f32>} : () -> !torch.vtensor<[],f32>
  %two = "torch.vtensor.literal"() {value = dense<2.0> : tensor<f32>} : () -> !torch.vtensor<[],f32>
  %axes = "torch.vtensor.literal"() {value = dense<-1> : tensor<1xsi64>} : () -> !torch.vtensor<[1],si64>
  %sq = "torch.operator"(%x, %two) {name = "onnx.Pow"} : (!torch.vtensor<[4,8],f32>, !torch.vtensor<[],f32>) -> !torch.vtensor<[4,8],f32>
  %m = "torch.operator"(%sq, %axes) {name = "onnx.ReduceMean", torch.onnx.keepdims = 1 : si64} : (!torch.vtensor<[4,8],f32>, !torch.vtensor<[1],si64>) -> !torch.vtensor<[4,1],f32>
  %v = "torch.operator"(%eps, %m) {name = "onnx.Add"} : (!torch.vtensor<[],f32>, !torch.vtensor<[4,1],f32>) -> !torch.vtensor<[4,1],f32>
  %s = "torch.operator"(%v) {name = "onnx.Sqrt"} : (!torch.vtensor<[4,1],f32>) -> !torch.vtensor<[4,1],f32>
  %n = "torch.operator"(%x, %s) {name = "onnx.Div"} : (!torch.vtensor<[4,8],f32>, !torch.vtensor<[4,1],f32>) -> !torch.vtensor<[4,8],f32>
  %y = "torch.operator"(%n, %g) {name = "onnx.Mul"} : (!torch.vtensor<[4,8],f32>, !torch.vtensor<[8],f32>) -> !torch.vtensor<[4,8],f32>
  %none = "torch.constant.none"() : () -> !torch.none
  %z = "torch.operator"(%y, %x, %g, %none) {name = "onnx.SkipSimplifiedLayerNormalization"} : (!torch.vtensor<[4,8],f32>, !torch.vtensor<[4,8],f32>, !torch.vtensor<[8],f32>, !torch.none) -> !torch.vtensor<[4,8],f32>
  return %z : !torch.vtensor<[4,8],f32>
}

// A skip with a bias and all outputs: the sum and the bias are put together
// in torch's types too.
// CHECK-LABEL: func.func @skip_bias(
// CHECK: %[[S:.*]] = tandem.add
// CHECK: %[[T:.*]] = builtin.unrealized_conversion_cast %[[S]]
// CHECK: %[[B:.*]] = "torch.operator"(%[[T]], %{{.*}}) {name = "onnx.Add"}
// CHECK: %[[R:.*]] = builtin.unrealized_conversion_cast %[[B]]
// CHECK: tandem.rms_norm %[[R]]
func.func @skip_bias(%x: !torch.vtensor<[4,8],f32>, %s: !torch.vtensor<[4,8],f32>, %g: !torch.vtensor<[8],f32>, %b: !torch.vtensor<[8],f32>) -> (!torch.vtensor<[4,8],f32>, !torch.vtensor<[4,8],f32>) {
  %0:4 = "torch.operator"(%x, %s, %g, %b) {name = "onnx.SkipSimplifiedLayerNormalization"} : (!torch.vtensor<[4,8],f32>, !torch.vtensor<[4,8],f32>, !torch.vtensor<[8],f32>, !torch.vtensor<[8],f32>) -> (!torch.vtensor<[4,8],f32>, !torch.vtensor<[4,1],f32>, !torch.vtensor<[4,1],f32>, !torch.vtensor<[4,8],f32>)
  return %0#0, %0#3 : !torch.vtensor<[4,8],f32>, !torch.vtensor<[4,8],f32>
}

// PyTorch's functional collectives as its importer spells them.
// CHECK-LABEL: func.func @functional(
// CHECK: tandem.all_reduce %{{.*}} {group = #tandem.group<"tp">, source_positions = array<i64: 2, 3>}
// CHECK: tandem.all_reduce %{{.*}} {group = #tandem.group<"tp">, reduction = #tandem<reduction average>
func.func @functional(%x: !torch.vtensor<[4,8],f32>) -> !torch.vtensor<[4,8],f32> {
  %op = "torch.constant.str"() {value = "sum"} : () -> !torch.str
  %group = "torch.constant.str"() {value = "tp"} : () -> !torch.str
  %0 = "torch.operator"(%x, %op, %group) {name = "torch._c10d_functional.all_reduce"} : (!torch.vtensor<[4,8],f32>, !torch.str, !torch.str) -> !torch.vtensor<[4,8],f32>
  %1 = "torch.operator"(%0) {name = "torch._c10d_functional.wait_tensor"} : (!torch.vtensor<[4,8],f32>) -> !torch.vtensor<[4,8],f32>
  %avg = "torch.constant.str"() {value = "avg"} : () -> !torch.str
  %2 = "torch.operator"(%1, %avg, %group) {name = "_c10d_functional.all_reduce"} : (!torch.vtensor<[4,8],f32>, !torch.str, !torch.str) -> !torch.vtensor<[4,8],f32>
  %3 = "torch.operator"(%2) {name = "_c10d_functional.wait_tensor"} : (!torch.vtensor<[4,8],f32>) -> !torch.vtensor<[4,8],f32>
  return %3 : !torch.vtensor<[4,8],f32>
}

// Not raised: sizes that aren't known, a group that is computed, another
// torch op.
// CHECK-LABEL: func.func @not_raised(
// CHECK-NOT: tandem.
// CHECK: return
func.func @not_raised(%x: !torch.vtensor<*,f32>, %y: !torch.vtensor<[4,8],f32>, %g: !torch.str) -> !torch.vtensor<*,f32> {
  %0 = "torch.operator"(%x) {name = "onnx.AllReduce"} : (!torch.vtensor<*,f32>) -> !torch.vtensor<*,f32>
  %op = "torch.constant.str"() {value = "sum"} : () -> !torch.str
  %1 = "torch.operator"(%y, %op, %g) {name = "torch._c10d_functional.all_reduce"} : (!torch.vtensor<[4,8],f32>, !torch.str, !torch.str) -> !torch.vtensor<[4,8],f32>
  %2 = "torch.operator"(%1) {name = "torch._c10d_functional.wait_tensor"} : (!torch.vtensor<[4,8],f32>) -> !torch.vtensor<[4,8],f32>
  %3 = "torch.operator"(%y) {name = "torch._c10d_functional.all_gather"} : (!torch.vtensor<[4,8],f32>) -> !torch.vtensor<[4,8],f32>
  return %0 : !torch.vtensor<*,f32>
}
