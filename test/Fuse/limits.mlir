// Limits from a tuning profile: the entry that says most of a case, of several
// the smallest, and never more than max-tokens. docs/limits.md describes it.
//
// RUN: fusion-opt %s --tandem-fuse='limits=%S/Inputs/limits.json' -o %t.once
// RUN: FileCheck %s --check-prefixes=CHECK,ALONE < %t.once
// RUN: fusion-opt %t.once --tandem-fuse='limits=%S/Inputs/limits.json' -o %t.twice
// RUN: cmp %t.once %t.twice
// RUN: fusion-opt %s --tandem-fuse='limits=%S/Inputs/limits.json max-tokens=24' | FileCheck %s --check-prefixes=CHECK,BOTH
// RUN: fusion-opt %s --tandem-fuse='limits=%S/Inputs/limits.json world-size=2' | FileCheck %s --check-prefixes=CHECK,TWO

// CHECK-LABEL: func.func @any_world_size(
// CHECK: %[[LIMIT:.*]] = tandem.token_limit
// ALONE: %[[GIVEN:.*]] = arith.constant 32 : i64
// BOTH: %[[GIVEN:.*]] = arith.constant 24 : i64
// TWO: %[[GIVEN:.*]] = arith.constant 32 : i64
// CHECK: arith.minsi %[[GIVEN]], %[[LIMIT]]
// ALONE: tandem.guard = "tokens <= 32"
// BOTH: tandem.guard = "tokens <= 24"
func.func @any_world_size(%x: tensor<?x8xf32>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %y = tandem.rms_norm %s, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y : tensor<?x8xf32>
}

// Not knowing the world size, any entry may be meant: the smallest counts.
// CHECK-LABEL: func.func @world_size_not_known(
// ALONE: tandem.guard = "tokens <= 16"
// BOTH: tandem.guard = "tokens <= 16"
// TWO: tandem.guard = "tokens <= 64"
func.func @world_size_not_known(%x: tensor<?x8xbf16>, %g: tensor<8xbf16>) -> tensor<?x8xbf16> {
  %s = tandem.all_reduce %x : tensor<?x8xbf16>
  %y = tandem.rms_norm %s, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xbf16>, tensor<8xbf16>
  return %y : tensor<?x8xbf16>
}

// CHECK-LABEL: func.func @world_size_of_group(
// ALONE: tandem.guard = "tokens <= 64"
// BOTH: tandem.guard = "tokens <= 24"
// TWO: tandem.guard = "tokens <= 64"
func.func @world_size_of_group(%x: tensor<?x8xbf16>, %g: tensor<8xbf16>) -> tensor<?x8xbf16> {
  %s = tandem.all_reduce %x {group = #tandem.group<"tp", size = 2>} : tensor<?x8xbf16>
  %y = tandem.rms_norm %s, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xbf16>, tensor<8xbf16>
  return %y : tensor<?x8xbf16>
}

// A static count under the profile's limit needs no check, as with max-tokens.
// CHECK-LABEL: func.func @static(
// ALONE-NOT: scf.if
// ALONE: tandem.fused_all_reduce_norm
// BOTH-NOT: tandem.fused_all_reduce_norm
// BOTH: return
func.func @static(%x: tensor<32x8xf32>, %g: tensor<8xf32>) -> tensor<32x8xf32> {
  %s = tandem.all_reduce %x : tensor<32x8xf32>
  %y = tandem.rms_norm %s, %g {epsilon = 1.0e-5 : f64} : tensor<32x8xf32>, tensor<8xf32>
  return %y : tensor<32x8xf32>
}
