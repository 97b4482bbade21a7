// Reasons that come from limits; see reasons.mlir.
//
// RUN: fusion-opt %s --tandem-fuse='limits=%S/Inputs/limits.json max-tokens=40 report=%t.json' \
// RUN:   --remarks-filter=tandem-fuse --remark-policy=all --verify-diagnostics -o /dev/null
// RUN: FileCheck %s --implicit-check-not='"status"' < %t.json

// One token above the profile's limit, though max-tokens would allow it.
// CHECK: "function": "StaticTokensExceedLimit"
// CHECK-NEXT: "location": "{{.*}}:[[# @LINE + 8]]:8"
// CHECK-NEXT: "status": "missed"
// CHECK-NEXT: "reason": "StaticTokensExceedLimit"
// CHECK-NEXT: "message": "the token count is static and above the limit: 33 tokens, limit 32"
// CHECK-NEXT: "blocked_by": null
// CHECK-NEXT: "suggestion": "raise max-tokens, if it is above what is measured to pay off"
func.func @StaticTokensExceedLimit(%x: tensor<3x11x8xf32>, %g: tensor<8xf32>) -> tensor<3x11x8xf32> {
  // expected-remark-re@below {{[Missed] StaticTokensExceedLimit | Category:tandem-fuse | Function=StaticTokensExceedLimit | Reason="the token count is static and above the limit: 33 tokens, limit 32", Suggestion="raise max-tokens, if it is above what is measured to pay off", blocked_by=none}}
  %s = tandem.all_reduce %x : tensor<3x11x8xf32>
  %y = tandem.rms_norm %s, %g {epsilon = 1.0e-5 : f64} : tensor<3x11x8xf32>, tensor<8xf32>
  return %y : tensor<3x11x8xf32>
}

// Here max-tokens is the smaller one.
// CHECK: "function": "StaticTokensExceedLimit_max_tokens"
// CHECK-NEXT: "location": "{{.*}}:[[# @LINE + 8]]:8"
// CHECK-NEXT: "status": "missed"
// CHECK-NEXT: "reason": "StaticTokensExceedLimit"
// CHECK-NEXT: "message": "the token count is static and above the limit: 41 tokens, limit 40"
// CHECK-NEXT: "blocked_by": null
// CHECK-NEXT: "suggestion": "raise max-tokens, if it is above what is measured to pay off"
func.func @StaticTokensExceedLimit_max_tokens(%x: tensor<41x8xbf16>, %g: tensor<8xbf16>) -> tensor<41x8xbf16> {
  // expected-remark-re@below {{[Missed] StaticTokensExceedLimit | Category:tandem-fuse | Function=StaticTokensExceedLimit_max_tokens | Reason="the token count is static and above the limit: 41 tokens, limit 40", Suggestion="raise max-tokens, if it is above what is measured to pay off", blocked_by=none}}
  %s = tandem.all_reduce %x {group = #tandem.group<"tp", size = 2>} : tensor<41x8xbf16>
  %y = tandem.rms_norm %s, %g {epsilon = 1.0e-5 : f64} : tensor<41x8xbf16>, tensor<8xbf16>
  return %y : tensor<41x8xbf16>
}

// No entry for this hidden size.
// CHECK: "function": "NoLimitInProfile"
// CHECK-NEXT: "location": "{{.*}}:[[# @LINE + 8]]:8"
// CHECK-NEXT: "status": "missed"
// CHECK-NEXT: "reason": "NoLimitInProfile"
// CHECK-NEXT: "message": "the limits file has no positive limit for this case: hidden 4, f32, world size unknown"
// CHECK-NEXT: "blocked_by": null
// CHECK-NEXT: "suggestion": "run fusion-bench --tune for this hidden size, element type and world size"
func.func @NoLimitInProfile(%x: tensor<?x4xf32>, %g: tensor<4xf32>) -> tensor<?x4xf32> {
  // expected-remark-re@below {{[Missed] NoLimitInProfile | Category:tandem-fuse | Function=NoLimitInProfile | Reason="the limits file has no positive limit for this case: hidden 4, f32, world size unknown", Suggestion="run fusion-bench --tune for this hidden size, element type and world size", blocked_by=none}}
  %s = tandem.all_reduce %x : tensor<?x4xf32>
  %y = tandem.rms_norm %s, %g {epsilon = 1.0e-5 : f64} : tensor<?x4xf32>, tensor<4xf32>
  return %y : tensor<?x4xf32>
}

// -1: measured, and fusion never paid off.
// CHECK: "function": "NoLimitInProfile_never"
// CHECK-NEXT: "location": "{{.*}}:[[# @LINE + 8]]:8"
// CHECK-NEXT: "status": "missed"
// CHECK-NEXT: "reason": "NoLimitInProfile"
// CHECK-NEXT: "message": "the limits file has no positive limit for this case: hidden 8, f16, world size unknown"
// CHECK-NEXT: "blocked_by": null
// CHECK-NEXT: "suggestion": "run fusion-bench --tune for this hidden size, element type and world size"
func.func @NoLimitInProfile_never(%x: tensor<?x8xf16>, %g: tensor<8xf16>) -> tensor<?x8xf16> {
  // expected-remark-re@below {{[Missed] NoLimitInProfile | Category:tandem-fuse | Function=NoLimitInProfile_never | Reason="the limits file has no positive limit for this case: hidden 8, f16, world size unknown", Suggestion="run fusion-bench --tune for this hidden size, element type and world size", blocked_by=none}}
  %s = tandem.all_reduce %x : tensor<?x8xf16>
  %y = tandem.rms_norm %s, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf16>, tensor<8xf16>
  return %y : tensor<?x8xf16>
}

// Entries for other world sizes only.
// CHECK: "function": "NoLimitInProfile_world_size"
// CHECK-NEXT: "location": "{{.*}}:[[# @LINE + 8]]:8"
// CHECK-NEXT: "status": "missed"
// CHECK-NEXT: "reason": "NoLimitInProfile"
// CHECK-NEXT: "message": "the limits file has no positive limit for this case: hidden 8, bf16, world size 8"
// CHECK-NEXT: "blocked_by": null
// CHECK-NEXT: "suggestion": "run fusion-bench --tune for this hidden size, element type and world size"
func.func @NoLimitInProfile_world_size(%x: tensor<?x8xbf16>, %g: tensor<8xbf16>) -> tensor<?x8xbf16> {
  // expected-remark-re@below {{[Missed] NoLimitInProfile | Category:tandem-fuse | Function=NoLimitInProfile_world_size | Reason="the limits file has no positive limit for this case: hidden 8, bf16, world size 8", Suggestion="run fusion-bench --tune for this hidden size, element type and world size", blocked_by=none}}
  %s = tandem.all_reduce %x {group = #tandem.group<"tp", size = 8>} : tensor<?x8xbf16>
  %y = tandem.rms_norm %s, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xbf16>, tensor<8xbf16>
  return %y : tensor<?x8xbf16>
}

// Measured for two world sizes, and not worth it for one of them: which it is
// decides.
// CHECK: "function": "NoLimitInProfile_unknown_world_size"
// CHECK-NEXT: "location": "{{.*}}:[[# @LINE + 8]]:8"
// CHECK-NEXT: "status": "missed"
// CHECK-NEXT: "reason": "NoLimitInProfile"
// CHECK-NEXT: "message": "the limits file has no positive limit for this case: hidden 16, bf16, world size unknown"
// CHECK-NEXT: "blocked_by": null
// CHECK-NEXT: "suggestion": "give world-size: the limits file has positive limits for some"
func.func @NoLimitInProfile_unknown_world_size(%x: tensor<?x16xbf16>, %g: tensor<16xbf16>) -> tensor<?x16xbf16> {
  // expected-remark-re@below {{[Missed] NoLimitInProfile | Category:tandem-fuse | Function=NoLimitInProfile_unknown_world_size | Reason="the limits file has no positive limit for this case: hidden 16, bf16, world size unknown", Suggestion="give world-size: the limits file has positive limits for some", blocked_by=none}}
  %s = tandem.all_reduce %x : tensor<?x16xbf16>
  %y = tandem.rms_norm %s, %g {epsilon = 1.0e-5 : f64} : tensor<?x16xbf16>, tensor<16xbf16>
  return %y : tensor<?x16xbf16>
}
