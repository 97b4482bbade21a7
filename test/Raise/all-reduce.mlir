// All-reduces of every producer.
//
// RUN: fusion-opt %s --tandem-raise | FileCheck %s
// RUN: fusion-opt %s -o %t.before
// RUN: fusion-opt %s --tandem-raise --tandem-restore -o %t.after
// RUN: cmp %t.before %t.after

// ONNX Runtime's sums over all ranks, of any type and shape.
// CHECK-LABEL: func.func @microsoft(
// CHECK-SAME: %[[X:[^:]*]]: tensor<?x8xf16>
// CHECK: %[[Y:.*]] = tandem.all_reduce %[[X]] {source_positions = array<i64: 0>} : tensor<?x8xf16> source {
// CHECK-NEXT: %[[S:.*]] = "onnx.Custom"(%[[X]])
// CHECK-NEXT: tandem.yield %[[S]] : tensor<?x8xf16>
// CHECK-NEXT: }
// CHECK: tandem.all_reduce %{{.*}} : tensor<*xf32>
// CHECK: tandem.all_reduce %{{.*}} : tensor<4xi64>
// CHECK: return %[[Y]]
func.func @microsoft(%x: tensor<?x8xf16>, %u: tensor<*xf32>, %i: tensor<4xi64>) -> (tensor<?x8xf16>, tensor<*xf32>, tensor<4xi64>) {
  %0 = "onnx.Custom"(%x) {domain_name = "com.microsoft", function_name = "AllReduce"} : (tensor<?x8xf16>) -> tensor<?x8xf16>
  %1 = "onnx.Custom"(%u) {domain_name = "com.microsoft", function_name = "AllReduce"} : (tensor<*xf32>) -> tensor<*xf32>
  %2 = "onnx.Custom"(%i) {domain_name = "com.microsoft", function_name = "AllReduce"} : (tensor<4xi64>) -> tensor<4xi64>
  return %0, %1, %2 : tensor<?x8xf16>, tensor<*xf32>, tensor<4xi64>
}

// The trainer's groups.
// CHECK-LABEL: func.func @nccl(
// CHECK: tandem.all_reduce %{{.*}} {source_positions
// CHECK: tandem.all_reduce %{{.*}} {source_positions
// CHECK: tandem.all_reduce %{{.*}} {group = #tandem.group<"data">, source
// CHECK: tandem.all_reduce %{{.*}} {group = #tandem.group<"node_local_data">, source
// CHECK: tandem.all_reduce %{{.*}} {group = #tandem.group<"cross_node_data">, source
// CHECK: tandem.all_reduce %{{.*}} {group = #tandem.group<"horizontal">, source
// CHECK: tandem.all_reduce %{{.*}} {group = #tandem.group<"model">, source
// CHECK: tandem.all_reduce %{{.*}} {group = #tandem.group<"horizontal">, source
func.func @nccl(%x: tensor<4xf32>) {
  %0 = "onnx.Custom"(%x) {domain_name = "com.microsoft", function_name = "NcclAllReduce"} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "onnx.Custom"(%x) {domain_name = "com.microsoft", function_name = "NcclAllReduce", group_type = 0 : si64} : (tensor<4xf32>) -> tensor<4xf32>
  %2 = "onnx.Custom"(%x) {domain_name = "com.microsoft", function_name = "NcclAllReduce", group_type = 1 : si64} : (tensor<4xf32>) -> tensor<4xf32>
  %3 = "onnx.Custom"(%x) {domain_name = "com.microsoft", function_name = "NcclAllReduce", group_type = 2 : si64} : (tensor<4xf32>) -> tensor<4xf32>
  %4 = "onnx.Custom"(%x) {domain_name = "com.microsoft", function_name = "NcclAllReduce", group_type = 3 : si64} : (tensor<4xf32>) -> tensor<4xf32>
  %5 = "onnx.Custom"(%x) {domain_name = "com.microsoft", function_name = "NcclAllReduce", group_type = 4 : si64} : (tensor<4xf32>) -> tensor<4xf32>
  %6 = "onnx.Custom"(%x) {domain_name = "com.microsoft", function_name = "NcclAllReduce", group_type = 5 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  // Earlier it was an op of ai.onnx.
  %7 = "onnx.NcclAllReduce"(%x) {group_type = 4 : si64} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// TensorRT's collective, of any reduction.
// CHECK-LABEL: func.func @tensorrt(
// CHECK: tandem.all_reduce %{{.*}} {group = #tandem.group<"world", size = 2>, source
// CHECK: tandem.all_reduce %{{.*}} {group = #tandem.group<"dist", size = 2, ranks = [0, 2, 1, 3]>, source
// CHECK: tandem.all_reduce %{{.*}} {group = #tandem.group<"dist", size = 3, ranks = [0, 1, 2]>, reduction = #tandem<reduction max>
// CHECK: tandem.all_reduce %{{.*}} {reduction = #tandem<reduction product>
// CHECK: tandem.all_reduce %{{.*}} {reduction = #tandem<reduction min>
// CHECK: tandem.all_reduce %{{.*}} {reduction = #tandem<reduction average>
// CHECK-NOT: tandem.all_reduce
func.func @tensorrt(%x: tensor<4xf32>) {
  %0 = "onnx.DistCollective"(%x) {collective_operation = "all_reduce", reduce_op = "sum", nb_rank = 2 : si64, root = -1 : si64} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "onnx.DistCollective"(%x) {collective_operation = "all_reduce", reduce_op = "sum", groups = [0, 2, 1, 3], group_size = 2 : si64} : (tensor<4xf32>) -> tensor<4xf32>
  %2 = "onnx.DistCollective"(%x) {collective_operation = "ALL_REDUCE", reduce_op = "MAX", groups = [0, 1, 2]} : (tensor<4xf32>) -> tensor<4xf32>
  %3 = "onnx.DistCollective"(%x) {collective_operation = "all_reduce", reduce_op = "prod"} : (tensor<4xf32>) -> tensor<4xf32>
  %4 = "onnx.DistCollective"(%x) {collective_operation = "all_reduce", reduce_op = "min"} : (tensor<4xf32>) -> tensor<4xf32>
  %5 = "onnx.DistCollective"(%x) {collective_operation = "all_reduce", reduce_op = "avg"} : (tensor<4xf32>) -> tensor<4xf32>
  // Other collectives, and one that does not say how it reduces.
  %6 = "onnx.DistCollective"(%x) {collective_operation = "reduce_scatter", reduce_op = "sum"} : (tensor<4xf32>) -> tensor<2xf32>
  %7 = "onnx.DistCollective"(%x) {collective_operation = "broadcast"} : (tensor<4xf32>) -> tensor<4xf32>
  %8 = "onnx.DistCollective"(%x) {collective_operation = "all_reduce"} : (tensor<4xf32>) -> tensor<4xf32>
  %9 = "onnx.DistCollective"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// CHECK-LABEL: func.func @tensorrt_edge_llm(
// CHECK: tandem.all_reduce %{{.*}} {group = #tandem.group<"tp", size = 2>, source
// CHECK: tandem.all_reduce %{{.*}} {group = #tandem.group<"tp">, source
// CHECK-NOT: tandem.all_reduce
func.func @tensorrt_edge_llm(%x: tensor<4xf16>, %w: tensor<4xi8>) {
  %0 = "onnx.Custom"(%x) {domain_name = "trt_edgellm", function_name = "AllReducePlugin", tp_size = 2 : si64} : (tensor<4xf16>) -> tensor<4xf16>
  %1 = "onnx.Custom"(%x) {domain_name = "trt_edgellm", function_name = "AllReducePlugin"} : (tensor<4xf16>) -> tensor<4xf16>
  // It multiplies as well.
  %2 = "onnx.Custom"(%x, %w) {domain_name = "trt_edgellm", function_name = "FusedNvfp4GemmAllReducePlugin", tp_size = 2 : si64} : (tensor<4xf16>, tensor<4xi8>) -> tensor<4xf16>
  return
}

// PyTorch's functional collective with its wait. The raised op stands where
// the communication begins.
// CHECK-LABEL: func.func @functional(
// CHECK-SAME: %[[X:.*]]: tensor<4xf32>)
// CHECK: %[[Y:.*]] = tandem.all_reduce %[[X]] {group = #tandem.group<"tp">, source_positions = array<i64: 0, 2>}
// CHECK-NEXT: %[[A:.*]] = "onnx.Custom"(%[[X]])
// CHECK-NEXT: %[[B:.*]] = "onnx.Custom"(%[[A]])
// CHECK-NEXT: tandem.yield %[[B]]
// CHECK-NEXT: }
// CHECK-NEXT: "onnx.Neg"
// CHECK-NEXT: return %[[Y]]
func.func @functional(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "onnx.Custom"(%x) {domain_name = "_c10d_functional", function_name = "all_reduce", reduce_op = "sum", group_name = "tp"} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "onnx.Neg"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = "onnx.Custom"(%0) {domain_name = "_c10d_functional", function_name = "wait_tensor"} : (tensor<4xf32>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}

// CHECK-LABEL: func.func @functional_max(
// CHECK: tandem.all_reduce %{{.*}} {group = #tandem.group<"0">, reduction = #tandem<reduction max>
func.func @functional_max(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "onnx.Custom"(%x) {domain_name = "_c10d_functional", function_name = "all_reduce", reduce_op = "max", group_name = "0"} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "onnx.Custom"(%0) {domain_name = "_c10d_functional", function_name = "wait_tensor"} : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// Not raised: no wait, two waits, a use before the wait, several tensors at
// once, a type that changes, a domain that is not ONNX Runtime's.
// CHECK-LABEL: func.func @not_raised(
// CHECK-NOT: tandem.all_reduce
// CHECK: return
func.func @not_raised(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "onnx.Custom"(%x) {domain_name = "_c10d_functional", function_name = "all_reduce", reduce_op = "sum", group_name = "tp"} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "onnx.Custom"(%x) {domain_name = "_c10d_functional", function_name = "all_reduce", reduce_op = "sum", group_name = "tp"} : (tensor<4xf32>) -> tensor<4xf32>
  %2 = "onnx.Custom"(%1) {domain_name = "_c10d_functional", function_name = "wait_tensor"} : (tensor<4xf32>) -> tensor<4xf32>
  %3 = "onnx.Custom"(%1) {domain_name = "_c10d_functional", function_name = "wait_tensor"} : (tensor<4xf32>) -> tensor<4xf32>
  %4 = "onnx.Custom"(%x) {domain_name = "_c10d_functional", function_name = "all_reduce", reduce_op = "sum", group_name = "tp"} : (tensor<4xf32>) -> tensor<4xf32>
  %5 = "onnx.Neg"(%4) : (tensor<4xf32>) -> tensor<4xf32>
  %6 = "onnx.Custom"(%x) {domain_name = "_c10d_functional", function_name = "all_reduce", group_name = "tp"} : (tensor<4xf32>) -> tensor<4xf32>
  %7 = "onnx.Custom"(%6) {domain_name = "_c10d_functional", function_name = "wait_tensor"} : (tensor<4xf32>) -> tensor<4xf32>
  %8:2 = "onnx.Custom"(%x, %x) {domain_name = "com.microsoft", function_name = "AllReduce"} : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %9 = "onnx.Custom"(%x) {domain_name = "com.microsoft", function_name = "AllReduce"} : (tensor<4xf32>) -> tensor<4xf16>
  %10 = "onnx.Custom"(%x) {domain_name = "com.acme", function_name = "AllReduce"} : (tensor<4xf32>) -> tensor<4xf32>
  %11 = "onnx.AllReduce"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %12 = "onnx.Custom"(%x) {domain_name = "com.microsoft", function_name = "NcclAllReduce", group_type = -1 : si64} : (tensor<4xf32>) -> tensor<4xf32>
  %13 = "onnx.Custom"(%x) {domain_name = "com.microsoft", function_name = "AllGather", group_size = 2 : si64} : (tensor<4xf32>) -> tensor<8xf32>
  return %0 : tensor<4xf32>
}
