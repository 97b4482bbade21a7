// Workspaces and the stream become arguments, through the call graph.
//
// RUN: fusion-opt %s --tandem-materialize-workspaces -o %t.once
// RUN: FileCheck %s < %t.once
// RUN: fusion-opt %t.once --tandem-materialize-workspaces | diff %t.once -

// CHECK-LABEL: func.func @one(
// CHECK-SAME: %[[W:[^:]*]]: !tandem.workspace {tandem.group = #tandem.group<"world">}, %[[Q:[^:]*]]: !tandem.stream)
// CHECK: tandem.token_limit %[[W]]
// CHECK: tandem.all_reduce %{{.*}} workspace %[[W]] stream %[[Q]]
func.func @one(%x: tensor<?x8xf32>) -> (tensor<?x8xf32>, i64) {
  %l = tandem.token_limit {hidden = 8 : i64, element_type = f32}
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  return %s, %l : tensor<?x8xf32>, i64
}

// A group each, in order of first use; the fused op takes the second's.
// CHECK-LABEL: func.func @two_groups(
// CHECK-SAME: %[[B:[^:]*]]: !tandem.workspace {tandem.group = #tandem.group<"b", size = 2>},
// CHECK-SAME: %[[A:[^:]*]]: !tandem.workspace {tandem.group = #tandem.group<"a">},
// CHECK-SAME: %[[Q:[^:]*]]: !tandem.stream)
// CHECK: tandem.all_reduce %{{.*}} workspace %[[B]] stream %[[Q]]
// CHECK: tandem.fused_all_reduce_norm %{{.*}} workspace %[[A]] stream %[[Q]]
// CHECK: tandem.all_reduce %{{.*}} workspace %[[B]] stream %[[Q]]
func.func @two_groups(%x: tensor<4x8xf32>, %g: tensor<8xf32>) -> tensor<4x8xf32> {
  %s = tandem.all_reduce %x {group = #tandem.group<"b", size = 2>} : tensor<4x8xf32>
  %d = tensor.empty() : tensor<4x8xf32>
  %y = tandem.fused_all_reduce_norm %s gamma(%g : tensor<8xf32>)
    outs(%d : tensor<4x8xf32>) {epsilon = 1.0e-5 : f64, group = #tandem.group<"a">}
    : tensor<4x8xf32> -> tensor<4x8xf32>
  %z = tandem.all_reduce %y {group = #tandem.group<"b", size = 2>} : tensor<4x8xf32>
  return %z : tensor<4x8xf32>
}

// The caller's order is that of its calls, not that of the module.
// CHECK-LABEL: func.func @caller(
// CHECK-SAME: %[[W:[^:]*]]: !tandem.workspace {tandem.group = #tandem.group<"world">},
// CHECK-SAME: %[[B:[^:]*]]: !tandem.workspace {tandem.group = #tandem.group<"b", size = 2>},
// CHECK-SAME: %[[A:[^:]*]]: !tandem.workspace {tandem.group = #tandem.group<"a">},
// CHECK-SAME: %[[Q:[^:]*]]: !tandem.stream)
// CHECK: call @one(%{{[^,]*}}, %[[W]], %[[Q]])
// CHECK: call @two_groups(%{{[^,]*}}, %{{[^,]*}}, %[[B]], %[[A]], %[[Q]])
// CHECK: call @bystander(%{{[^,]*}}) :
func.func @caller(%x: tensor<4x8xf32>, %g: tensor<8xf32>) -> tensor<4x8xf32> {
  %c = tensor.cast %x : tensor<4x8xf32> to tensor<?x8xf32>
  %s:2 = func.call @one(%c) : (tensor<?x8xf32>) -> (tensor<?x8xf32>, i64)
  %y = func.call @two_groups(%x, %g) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %z = func.call @bystander(%y) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %z : tensor<4x8xf32>
}

// Two functions that call each other get what either needs.
// CHECK-LABEL: func.func private @even(
// CHECK-SAME: %[[W:[^:]*]]: !tandem.workspace {{.*}}, %[[Q:[^:]*]]: !tandem.stream)
// CHECK: call @odd(%{{[^,]*}}, %{{[^,]*}}, %[[W]], %[[Q]])
func.func private @even(%x: tensor<8xf32>, %n: index) -> tensor<8xf32> {
  %c0 = arith.constant 0 : index
  %done = arith.cmpi eq, %n, %c0 : index
  %r = scf.if %done -> tensor<8xf32> {
    scf.yield %x : tensor<8xf32>
  } else {
    %y = func.call @odd(%x, %n) : (tensor<8xf32>, index) -> tensor<8xf32>
    scf.yield %y : tensor<8xf32>
  }
  return %r : tensor<8xf32>
}
// CHECK-LABEL: func.func private @odd(
// CHECK-SAME: %[[W:[^:]*]]: !tandem.workspace {{.*}}, %[[Q:[^:]*]]: !tandem.stream)
// CHECK: call @even(%{{[^,]*}}, %{{[^,]*}}, %[[W]], %[[Q]])
func.func private @odd(%x: tensor<8xf32>, %n: index) -> tensor<8xf32> {
  %c1 = arith.constant 1 : index
  %m = arith.subi %n, %c1 : index
  %s = tandem.all_reduce %x : tensor<8xf32>
  %y = func.call @even(%s, %m) : (tensor<8xf32>, index) -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// A norm reaches nobody, but it is put on a stream.
// CHECK-LABEL: func.func @norm_alone(
// CHECK-NOT: workspace
// CHECK-SAME: %{{[^:]*}}: !tandem.stream)
func.func @norm_alone(%x: tensor<4x8xf32>, %g: tensor<8xf32>) -> tensor<4x8xf32> {
  %y = tandem.rms_norm %x, %g {epsilon = 1.0e-5 : f64} : tensor<4x8xf32>, tensor<8xf32>
  return %y : tensor<4x8xf32>
}

// CHECK: func.func @bystander(%{{[^,]*}}: tensor<4x8xf32>) -> tensor<4x8xf32> {
func.func @bystander(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  return %x : tensor<4x8xf32>
}

// What raised ops were made of is not kept.
// CHECK-LABEL: func.func @source(
// CHECK: tandem.all_reduce
// CHECK-NOT: source
// CHECK: return
func.func @source(%x: tensor<8xf32>) -> tensor<8xf32> {
  %s = tandem.all_reduce %x {source_positions = array<i64: 0>} : tensor<8xf32> source {
    %t = "onnx.Custom"(%x) {function_name = "AllReduce", domain_name = "com.microsoft"} : (tensor<8xf32>) -> tensor<8xf32>
    tandem.yield %t : tensor<8xf32>
  }
  return %s : tensor<8xf32>
}

// Handles that are there already are kept, and what is missing goes before the
// stream.
// CHECK-LABEL: func.func @partly(
// CHECK-SAME: %[[MINE:[^:]*]]: !tandem.workspace,
// CHECK-SAME: %[[W:[^:]*]]: !tandem.workspace {tandem.group = #tandem.group<"world">},
// CHECK-SAME: %[[Q:[^:]*]]: !tandem.stream)
// CHECK: tandem.all_reduce %{{.*}} workspace %[[MINE]] stream %[[Q]]
// CHECK: tandem.all_reduce %{{.*}} workspace %[[W]] stream %[[Q]]
func.func @partly(%x: tensor<8xf32>, %mine: !tandem.workspace, %q: !tandem.stream) -> tensor<8xf32> {
  %s = tandem.all_reduce %x workspace %mine : tensor<8xf32>
  %t = tandem.all_reduce %s : tensor<8xf32>
  return %t : tensor<8xf32>
}
