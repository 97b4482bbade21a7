// Where a block is not as raising left it, source ops go to the place of the
// raised op. That never changes the order of what communicates.
//
// RUN: fusion-opt %s --allow-unregistered-dialect --tandem-restore --split-input-file | FileCheck %s

// An op is gone: position 3 would be behind the return.
// CHECK-LABEL: func.func @op_gone(
// CHECK-NEXT: %[[A:.*]] = "onnx.Add"
// CHECK-NEXT: %[[B:.*]] = "onnx.Custom"(%[[A]])
// CHECK-NEXT: return %[[B]]
func.func @op_gone(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tandem.add %x, %x {source_positions = array<i64: 2>} : tensor<4xf32> source {
    %a = "onnx.Add"(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    tandem.yield %a : tensor<4xf32>
  }
  %1 = tandem.all_reduce %0 {source_positions = array<i64: 3>} : tensor<4xf32> source {
    %b = "onnx.Custom"(%0) {domain_name = "com.microsoft", function_name = "AllReduce"} : (tensor<4xf32>) -> tensor<4xf32>
    tandem.yield %b : tensor<4xf32>
  }
  return %1 : tensor<4xf32>
}

// -----

// An op has come: by their positions the all-reduces would change places with
// a fused one.
// CHECK-LABEL: func.func @op_added(
// CHECK: tandem.all_reduce %{{.*}} {fallback}
// CHECK-NEXT: "onnx.Custom"
// CHECK-NEXT: return
func.func @op_added(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = tandem.all_reduce %x {fallback} : tensor<4xf32>
  %1 = tandem.all_reduce %x {source_positions = array<i64: 0>} : tensor<4xf32> source {
    %b = "onnx.Custom"(%x) {domain_name = "com.microsoft", function_name = "AllReduce"} : (tensor<4xf32>) -> tensor<4xf32>
    tandem.yield %b : tensor<4xf32>
  }
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// -----

// The positions of the last ops fit, but an operand of an inner one has come
// to stand behind its place.
// CHECK-LABEL: func.func @operand_later(
// CHECK: %[[N:.*]] = "onnx.Neg"
// CHECK-NEXT: %[[W:.*]] = "onnx.Relu"
// CHECK-NEXT: %[[C:.*]] = "onnx.Cast"(%[[W]])
// CHECK-NEXT: %[[R:.*]] = "onnx.RMSNormalization"(%[[C]]
// CHECK-NEXT: return %[[R]], %[[N]]
func.func @operand_later(%x: tensor<4x8xf32>, %g: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %n = "onnx.Neg"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %w = "onnx.Relu"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %0 = tandem.rms_norm %w, %g {epsilon = 1.0e-5 : f64, source_positions = array<i64: 1, 3>} : tensor<4x8xf32>, tensor<8xf32> source {
    %c = "onnx.Cast"(%w) {to = f32} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %a = "onnx.RMSNormalization"(%c, %g) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    tandem.yield %a : tensor<4x8xf32>
  }
  return %0, %n : tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

// Two ops claim one place; one has a place below zero; one has none.
// CHECK-LABEL: func.func @odd_positions(
// CHECK-NEXT: "onnx.Add"
// CHECK-NEXT: "onnx.Add"
// CHECK-NEXT: return
// CHECK-LABEL: func.func @negative_position(
// CHECK-NEXT: "onnx.Add"
// CHECK-NEXT: return
// CHECK-LABEL: func.func @no_position(
// CHECK-NEXT: "onnx.Add"
// CHECK-NEXT: return
func.func @odd_positions(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tandem.add %x, %x {source_positions = array<i64: 0>} : tensor<4xf32> source {
    %a = "onnx.Add"(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    tandem.yield %a : tensor<4xf32>
  }
  %1 = tandem.add %0, %x {source_positions = array<i64: 0>} : tensor<4xf32> source {
    %a = "onnx.Add"(%0, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    tandem.yield %a : tensor<4xf32>
  }
  return %1 : tensor<4xf32>
}
func.func @negative_position(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tandem.add %x, %x {source_positions = array<i64: -9223372036854775808>} : tensor<4xf32> source {
    %a = "onnx.Add"(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    tandem.yield %a : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}
func.func @no_position(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tandem.add %x, %x : tensor<4xf32> source {
    %a = "onnx.Add"(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    tandem.yield %a : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

// -----

// What has no source region stays, and so does an all-reduce that is the
// other branch of a fused op: what it was raised from is forgotten.
// CHECK-LABEL: func.func @stays(
// CHECK: tandem.all_reduce %{{.*}} {fallback} : tensor<4x8xf32>
// CHECK-NOT: onnx
// CHECK-NEXT: tandem.add
// CHECK-NEXT: tandem.rms_norm
// CHECK-NEXT: return
func.func @stays(%x: tensor<4x8xf32>, %g: tensor<8xf32>) -> tensor<4x8xf32> {
  %0 = tandem.all_reduce %x {fallback, source_positions = array<i64: 0>} : tensor<4x8xf32> source {
    %b = "onnx.Custom"(%x) {domain_name = "com.microsoft", function_name = "AllReduce"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    tandem.yield %b : tensor<4x8xf32>
  }
  %1 = tandem.add %0, %x : tensor<4x8xf32>
  %2 = tandem.rms_norm %1, %g {epsilon = 1.0e-5 : f64} : tensor<4x8xf32>, tensor<8xf32>
  return %2 : tensor<4x8xf32>
}

// -----

// The sum of a skip norm is used by an op that stands in front of the norm, as
// after another norm of it has fused. The sum stays for it.
// CHECK-LABEL: func.func @sum_used_before(
// CHECK: %[[S:.*]] = tandem.add
// CHECK-NEXT: "onnx.Relu"(%[[S]])
// CHECK-NEXT: %[[N:.*]]:4 = "onnx.Custom"
// CHECK-NEXT: return
func.func @sum_used_before(%x: tensor<4x8xf32>, %s: tensor<4x8xf32>, %g: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %0 = tandem.add %x, %s : tensor<4x8xf32>
  %1 = "onnx.Relu"(%0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = tandem.rms_norm %0, %g {epsilon = 1.0e-5 : f64, source_positions = array<i64: 0>} : tensor<4x8xf32>, tensor<8xf32> source {
    %n:4 = "onnx.Custom"(%x, %s, %g) {domain_name = "com.microsoft", function_name = "SkipSimplifiedLayerNormalization"} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, none, none, tensor<4x8xf32>)
    tandem.yield %n#0, %n#3 : tensor<4x8xf32>, tensor<4x8xf32>
  }
  return %1, %2 : tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

// The sum has become another op's result: that op stays, and its users too.
// CHECK-LABEL: func.func @sum_elsewhere(
// CHECK: %[[S:.*]] = "onnx.Relu"
// CHECK: %[[N:.*]]:4 = "onnx.Custom"
// CHECK: return %[[N]]#0, %[[S]]
func.func @sum_elsewhere(%x: tensor<4x8xf32>, %s: tensor<4x8xf32>, %g: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %0 = "onnx.Relu"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = tandem.rms_norm %0, %g {epsilon = 1.0e-5 : f64, source_positions = array<i64: 1>} : tensor<4x8xf32>, tensor<8xf32> source {
    %n:4 = "onnx.Custom"(%x, %s, %g) {domain_name = "com.microsoft", function_name = "SkipSimplifiedLayerNormalization"} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, none, none, tensor<4x8xf32>)
    tandem.yield %n#0, %n#3 : tensor<4x8xf32>, tensor<4x8xf32>
  }
  return %2, %0 : tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

// A new op uses a raised op of torch's types as a tensor; it still can.
// CHECK-LABEL: func.func @new_user_of_torch(
// CHECK: %[[A:.*]] = "torch.operator"
// CHECK-NEXT: %[[C:.*]] = builtin.unrealized_conversion_cast %[[A]] : !torch.vtensor<[4],f32> to tensor<4xf32>
// CHECK-NEXT: "new.user"(%[[C]])
// CHECK-NEXT: return %[[A]]
func.func @new_user_of_torch(%x: !torch.vtensor<[4],f32>) -> !torch.vtensor<[4],f32> {
  %0 = builtin.unrealized_conversion_cast %x : !torch.vtensor<[4],f32> to tensor<4xf32>
  %1 = tandem.all_reduce %0 {source_positions = array<i64: 0>} : tensor<4xf32> source {
    %a = "torch.operator"(%x) {name = "onnx.AllReduce"} : (!torch.vtensor<[4],f32>) -> !torch.vtensor<[4],f32>
    tandem.yield %a : !torch.vtensor<[4],f32>
  }
  %2 = builtin.unrealized_conversion_cast %1 : tensor<4xf32> to !torch.vtensor<[4],f32>
  "new.user"(%1) : (tensor<4xf32>) -> ()
  return %2 : !torch.vtensor<[4],f32>
}

// -----

// A source region may hold nothing but what it yields.
// CHECK-LABEL: func.func @empty_source(
// CHECK-NEXT: return %{{.*}}
func.func @empty_source(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tandem.all_reduce %x : tensor<4xf32> source {
    tandem.yield %x : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

// -----

// An op has come, far from the norm: the norm's ops go to both sides of what
// stood among them, but not before what they use.
// CHECK-LABEL: func.func @spread(
// CHECK-NEXT: "onnx.Neg"
// CHECK-NEXT: %[[TWO:.*]] = "onnx.Constant"() {value = dense<2.
// CHECK-NEXT: "onnx.Pow"(%{{.*}}, %[[TWO]])
// CHECK-NEXT: %[[AXES:.*]] = "onnx.Constant"() {value = dense<-1>
// CHECK-NEXT: "onnx.ReduceMean"(%{{.*}}, %[[AXES]])
// CHECK-NEXT: %[[E:.*]] = "onnx.Constant"() {value = dense<9.9
// CHECK-NEXT: "onnx.Add"(%{{.*}}, %[[E]])
// CHECK-NEXT: "onnx.Sqrt"
// CHECK-NEXT: "onnx.Div"
// CHECK-NEXT: "onnx.Mul"
// CHECK-NEXT: return
func.func @spread(%x: tensor<4x8xf32>, %g: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %new = "onnx.Neg"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %two = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %axes = "onnx.Constant"() {value = dense<-1> : tensor<1xi64>} : () -> tensor<1xi64>
  %e = "onnx.Constant"() {value = dense<1.0e-5> : tensor<f32>} : () -> tensor<f32>
  %0 = tandem.rms_norm %x, %g {epsilon = 1.0e-5 : f64, source_positions = array<i64: 1, 3, 5, 6, 7, 8>} : tensor<4x8xf32>, tensor<8xf32> source {
    %q = "onnx.Pow"(%x, %two) : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %m = "onnx.ReduceMean"(%q, %axes) : (tensor<4x8xf32>, tensor<1xi64>) -> tensor<4x1xf32>
    %d = "onnx.Add"(%m, %e) : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
    %r = "onnx.Sqrt"(%d) : (tensor<4x1xf32>) -> tensor<4x1xf32>
    %z = "onnx.Div"(%x, %r) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
    %y = "onnx.Mul"(%z, %g) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    tandem.yield %y : tensor<4x8xf32>
  }
  return %0, %new : tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

// Positions so far apart say nothing; and two norms whose ops stood among each
// other.
// CHECK-LABEL: func.func @far(
// CHECK-NEXT: "onnx.Neg"
// CHECK-NEXT: "onnx.Cast"
// CHECK-NEXT: "onnx.RMSNormalization"
// CHECK-LABEL: func.func @crossed(
// CHECK-NEXT: "onnx.Neg"
// CHECK-NEXT: "onnx.Cast"{{.*}}first
// CHECK-NEXT: "onnx.Cast"{{.*}}second
// CHECK-NEXT: "onnx.Relu"
// CHECK-NEXT: "onnx.RMSNormalization"{{.*}}first
// CHECK-NEXT: "onnx.RMSNormalization"{{.*}}second
// CHECK-NEXT: return
func.func @far(%x: tensor<4x8xf32>, %g: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %n = "onnx.Neg"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %0 = tandem.rms_norm %x, %g {epsilon = 1.0e-5 : f64, source_positions = array<i64: 1, 3000000000000000000>} : tensor<4x8xf32>, tensor<8xf32> source {
    %c = "onnx.Cast"(%x) {to = f32} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %a = "onnx.RMSNormalization"(%c, %g) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    tandem.yield %a : tensor<4x8xf32>
  }
  return %0, %n : tensor<4x8xf32>, tensor<4x8xf32>
}
func.func @crossed(%x: tensor<4x8xf32>, %g: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) {
  %new = "onnx.Neg"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %n = "onnx.Relu"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %0 = tandem.rms_norm %x, %g {epsilon = 1.0e-5 : f64, source_positions = array<i64: 0, 3>} : tensor<4x8xf32>, tensor<8xf32> source {
    %c = "onnx.Cast"(%x) {to = f32, onnx_node_name = "first"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %a = "onnx.RMSNormalization"(%c, %g) {onnx_node_name = "first"} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    tandem.yield %a : tensor<4x8xf32>
  }
  %1 = tandem.rms_norm %x, %g {epsilon = 1.0e-5 : f64, source_positions = array<i64: 1, 4>} : tensor<4x8xf32>, tensor<8xf32> source {
    %c = "onnx.Cast"(%x) {to = f32, onnx_node_name = "second"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %a = "onnx.RMSNormalization"(%c, %g) {onnx_node_name = "second"} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    tandem.yield %a : tensor<4x8xf32>
  }
  return %0, %1, %n, %new : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
}
