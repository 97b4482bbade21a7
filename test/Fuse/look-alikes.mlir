// Ops that are named like all-reduces, in spellings that are not known: a
// warning says so, once a module, and the report lists them; they are no sites.
// RUN: fusion-opt %s --split-input-file --verify-diagnostics --allow-unregistered-dialect \
// RUN:   --tandem-fuse-pipeline -o /dev/null
// RUN: fusion-opt %s --split-input-file --allow-unregistered-dialect \
// RUN:   --tandem-fuse-pipeline=report=- -o /dev/null 2>/dev/null | FileCheck %s

// A domain that is not known. The second one is named in the same warning.
// CHECK: "all_reduces": 0
// CHECK: "sites": []
// CHECK-NEXT: "look_alikes": [
// CHECK-NEXT: {
// CHECK-NEXT: "function": "unknown_domain",
// CHECK-NEXT: "location": "{{.*}}:[[# @LINE + 10]]:8",
// CHECK-NEXT: "op": "AllReduce of domain my.ops"
// CHECK-NEXT: },
// CHECK-NEXT: {
// CHECK-NEXT: "function": "unknown_domain",
// CHECK-NEXT: "location": "{{.*}}:[[# @LINE + 6]]:8",
// CHECK-NEXT: "op": "all_reduce_sum of domain my.ops"
// CHECK-NEXT: }
func.func @unknown_domain(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  // expected-warning-re @below {{tandem-fuse: 2 op(s) named like an all-reduce are in no spelling that is known, and are left as they are; {{[^;]+}}: AllReduce of domain my.ops; {{[^;]+}}: all_reduce_sum of domain my.ops; known are AllReduce and NcclAllReduce of com.microsoft, DistCollective of ai.onnx with collective_operation all_reduce, AllReducePlugin of trt_edgellm, all_reduce of _c10d_functional, shard.all_reduce and tandem.all_reduce}}
  %s = "onnx.Custom"(%x) {function_name = "AllReduce", domain_name = "my.ops"} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %t = "onnx.Custom"(%s) {function_name = "all_reduce_sum", domain_name = "my.ops"} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  return %t : tensor<?x8xf32>
}

// -----

// The domain is part of the name: ai.onnx has no such op.
func.func @wrong_domain(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  // expected-warning @below {{: AllReduce of domain ai.onnx; known are}}
  %s = "onnx.AllReduce"(%x) : (tensor<?x8xf32>) -> tensor<?x8xf32>
  return %s : tensor<?x8xf32>
}

// -----

// A kind of DistCollective that is none.
func.func @collective(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  // expected-warning @below {{: DistCollective with collective_operation AllReduce; known are}}
  %s = "onnx.DistCollective"(%x) {collective_operation = "AllReduce", reduce_op = "sum"} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  return %s : tensor<?x8xf32>
}

// -----

// Ops of other dialects, registered or not.
func.func @other_dialects(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  // expected-warning-re @below {{: stablehlo.all_reduce; {{[^;]+}}: c10d.allreduce_; known are}}
  %s = "stablehlo.all_reduce"(%x) : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %t = "torch.operator"(%s) {name = "torch.c10d.allreduce_"} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  return %t : tensor<?x8xf32>
}

// -----

// No warning: a reduction of other kinds, one within a work group, one over no
// axes, one that is known but not well-formed, which is a site, and a word that
// only ends in "all".
shard.grid @grid(shape = 2)
func.func @no_look_alikes(%x: tensor<?x8xf32>, %y: f32) -> (tensor<?x1xf32>, f32, tensor<?x8xf32>, tensor<?x8xf32>) {
  %a = "onnx.ReduceMean"(%x) {axes = [1], keepdims = 1 : si64} : (tensor<?x8xf32>) -> tensor<?x1xf32>
  %b = gpu.all_reduce add %y {} : (f32) -> f32
  %c = shard.all_reduce %x on @grid : tensor<?x8xf32> -> tensor<?x8xf32>
  %d:2 = "onnx.Custom"(%x, %x) {function_name = "NcclAllReduce", domain_name = "com.microsoft"} : (tensor<?x8xf32>, tensor<?x8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>)
  %e = "onnx.Custom"(%x) {function_name = "SmallReducer", domain_name = "my"} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  return %a, %b, %c, %d#0 : tensor<?x1xf32>, f32, tensor<?x8xf32>, tensor<?x8xf32>
}
