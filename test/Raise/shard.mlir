// shard.all_reduce. It is Pure upstream; raised it is not, so no later pass
// sinks or deletes it.
//
// RUN: fusion-opt %s --tandem-raise | FileCheck %s
// RUN: fusion-opt %s -o %t.before
// RUN: fusion-opt %s --tandem-raise --tandem-restore -o %t.after
// RUN: cmp %t.before %t.after

shard.grid @tp(shape = 4)
shard.grid @grid(shape = 2x4x?)

// CHECK-LABEL: func.func @raised(
// CHECK-SAME: %[[X:.*]]: tensor<2x8xbf16>)
// CHECK: %[[Y:.*]] = tandem.all_reduce %[[X]] {group = #tandem.group<"tp", size = 4>, source_positions = array<i64: 0>} : tensor<2x8xbf16> source {
// CHECK: tandem.all_reduce %[[Y]] {group = #tandem.group<"grid[1]", size = 4>, source
// CHECK: tandem.all_reduce %{{.*}} {group = #tandem.group<"grid[0, 1]", size = 8>, reduction = #tandem<reduction max>
// CHECK: tandem.all_reduce %{{.*}} {group = #tandem.group<"grid[2]">, reduction = #tandem<reduction average>
// CHECK: tandem.all_reduce %{{.*}} {group = #tandem.group<"grid">, reduction = #tandem<reduction product>
func.func @raised(%x: tensor<2x8xbf16>) -> tensor<2x8xbf16> {
  %0 = shard.all_reduce %x on @tp grid_axes = [0] : tensor<2x8xbf16> -> tensor<2x8xbf16>
  %1 = shard.all_reduce %0 on @grid grid_axes = [1] : tensor<2x8xbf16> -> tensor<2x8xbf16>
  %2 = shard.all_reduce %1 on @grid grid_axes = [1, 0] reduction = max : tensor<2x8xbf16> -> tensor<2x8xbf16>
  %3 = shard.all_reduce %2 on @grid grid_axes = [2] reduction = average : tensor<2x8xbf16> -> tensor<2x8xbf16>
  %4 = shard.all_reduce %3 on @grid grid_axes = [0, 1, 2] reduction = product : tensor<2x8xbf16> -> tensor<2x8xbf16>
  return %4 : tensor<2x8xbf16>
}

// Not raised: no axes are the identity, not all axes; a sum in a wider type;
// reductions that tandem.all_reduce has not; memrefs.
// CHECK-LABEL: func.func @not_raised(
// CHECK-NOT: tandem.
// CHECK: return
func.func @not_raised(%x: tensor<2x8xbf16>, %i: tensor<4xi32>, %m: memref<4xf32>) -> (tensor<2x8xbf16>, tensor<2x8xf32>, tensor<4xi32>, memref<4xf32>) {
  %0 = shard.all_reduce %x on @tp : tensor<2x8xbf16> -> tensor<2x8xbf16>
  %1 = shard.all_reduce %x on @tp grid_axes = [0] : tensor<2x8xbf16> -> tensor<2x8xf32>
  %2 = shard.all_reduce %i on @tp grid_axes = [0] reduction = bitwise_or : tensor<4xi32> -> tensor<4xi32>
  %3 = shard.all_reduce %m on @tp grid_axes = [0] : memref<4xf32> -> memref<4xf32>
  return %0, %1, %2, %3 : tensor<2x8xbf16>, tensor<2x8xf32>, tensor<4xi32>, memref<4xf32>
}
