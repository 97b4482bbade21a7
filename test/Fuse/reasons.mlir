// Why an all-reduce did not fuse: one function for each reason, named after it,
// and more for reasons that have several causes. Each checks the entry of the
// report and the remark. Reasons that need options are in reasons-*.mlir;
// check-reasons.test sees to it that none is missing.
//
// RUN: fusion-opt %s --allow-unregistered-dialect --tandem-fuse='report=%t.json' \
// RUN:   --remarks-filter=tandem-fuse --remark-policy=all --verify-diagnostics -o /dev/null
// RUN: FileCheck %s --implicit-check-not='"status"' < %t.json

#a = #tandem.group<"a">
#b = #tandem.group<"b">

// An op that is neither add nor norm reads the sum.
// CHECK: "function": "NoNormConsumer"
// CHECK-NEXT: "location": "{{.*}}:[[# @LINE + 8]]:8"
// CHECK-NEXT: "status": "missed"
// CHECK-NEXT: "reason": "NoNormConsumer"
// CHECK-NEXT: "message": "no RMSNorm follows the all-reduce"
// CHECK-NEXT: "blocked_by": "onnx.Relu at {{.*}}:[[# @LINE + 5]]:8"
// CHECK-NEXT: "suggestion": "nothing, unless an RMSNorm is meant to follow: then compare its form with docs/raise.md"
func.func @NoNormConsumer(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  // expected-remark-re@below {{[Missed] NoNormConsumer | Category:tandem-fuse | Function=NoNormConsumer | Reason="no RMSNorm follows the all-reduce", Suggestion="nothing, unless an RMSNorm is meant to follow: then compare its form with docs/raise.md", blocked_by="onnx.Relu at {{[^"]+}}"}}
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %y = "onnx.Relu"(%s) : (tensor<?x8xf32>) -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

// Nothing reads the sum. The all-reduce stays all the same: other ranks wait.
// CHECK: "function": "NoNormConsumer_unused"
// CHECK-NEXT: "location": "{{.*}}:[[# @LINE + 8]]:8"
// CHECK-NEXT: "status": "missed"
// CHECK-NEXT: "reason": "NoNormConsumer"
// CHECK-NEXT: "message": "no RMSNorm follows the all-reduce: its result is not used"
// CHECK-NEXT: "blocked_by": null
// CHECK-NEXT: "suggestion": "nothing, unless an RMSNorm is meant to follow: then compare its form with docs/raise.md"
func.func @NoNormConsumer_unused(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  // expected-remark-re@below {{[Missed] NoNormConsumer | Category:tandem-fuse | Function=NoNormConsumer_unused | Reason="no RMSNorm follows the all-reduce: its result is not used", Suggestion="nothing, unless an RMSNorm is meant to follow: then compare its form with docs/raise.md", blocked_by=none}}
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  return %x : tensor<?x8xf32>
}

// A scalar has no rows to normalise.
// CHECK: "function": "NoNormConsumer_scalar"
// CHECK-NEXT: "location": "{{.*}}:[[# @LINE + 8]]:8"
// CHECK-NEXT: "status": "missed"
// CHECK-NEXT: "reason": "NoNormConsumer"
// CHECK-NEXT: "message": "no RMSNorm follows the all-reduce"
// CHECK-NEXT: "blocked_by": "func.return at {{.*}}:[[# @LINE + 5]]:3"
// CHECK-NEXT: "suggestion": "nothing, unless an RMSNorm is meant to follow: then compare its form with docs/raise.md"
func.func @NoNormConsumer_scalar(%x: tensor<f32>) -> tensor<f32> {
  // expected-remark-re@below {{[Missed] NoNormConsumer | Category:tandem-fuse | Function=NoNormConsumer_scalar | Reason="no RMSNorm follows the all-reduce", Suggestion="nothing, unless an RMSNorm is meant to follow: then compare its form with docs/raise.md", blocked_by="func.return at {{[^"]+}}"}}
  %s = tandem.all_reduce %x : tensor<f32>
  return %s : tensor<f32>
}

// A LayerNorm subtracts the mean first.
// CHECK: "function": "NormNotRecognized"
// CHECK-NEXT: "location": "{{.*}}:[[# @LINE + 8]]:8"
// CHECK-NEXT: "status": "missed"
// CHECK-NEXT: "reason": "NormNotRecognized"
// CHECK-NEXT: "message": "what follows resembles an RMSNorm but is not one: the mean is subtracted first, so it is a LayerNorm"
// CHECK-NEXT: "blocked_by": "onnx.LayerNormalization at {{.*}}:[[# @LINE + 5]]:8"
// CHECK-NEXT: "suggestion": "nothing: a LayerNorm is not fused, only RMSNorm is"
func.func @NormNotRecognized(%x: tensor<?x8xf32>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  // expected-remark-re@below {{[Missed] NormNotRecognized | Category:tandem-fuse | Function=NormNotRecognized | Reason="what follows resembles an RMSNorm but is not one: the mean is subtracted first, so it is a LayerNorm", Suggestion="nothing: a LayerNorm is not fused, only RMSNorm is", blocked_by="onnx.LayerNormalization at {{[^"]+}}"}}
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %y = "onnx.LayerNormalization"(%s, %g) {axis = -1 : si64} : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

// The next layer's all-reduce is added too, but it is not what is in the way.
// CHECK: "function": "NormNotRecognized_in_a_stream"
// CHECK-NEXT: "location": "{{.*}}:[[# @LINE + 10]]:8"
// CHECK-NEXT: "status": "missed"
// CHECK-NEXT: "reason": "NormNotRecognized"
// CHECK-NEXT: "message": "what follows resembles an RMSNorm but is not one: the mean is subtracted first, so it is a LayerNorm"
// CHECK-NEXT: "blocked_by": "onnx.LayerNormalization at {{.*}}:[[# @LINE + 8]]:8"
// CHECK: "function": "NormNotRecognized_in_a_stream"
// CHECK-NEXT: "location": "{{.*}}:[[# @LINE + 8]]:8"
// CHECK-NEXT: "status": "fused"
func.func @NormNotRecognized_in_a_stream(%x: tensor<?x8xf32>, %z: tensor<?x8xf32>, %r: tensor<?x8xf32>, %g: tensor<8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  // expected-remark-re@below {{[Missed] NormNotRecognized | Category:tandem-fuse | Function=NormNotRecognized_in_a_stream | Reason="what follows resembles an RMSNorm but is not one: the mean is subtracted first, so it is a LayerNorm", Suggestion="nothing: a LayerNorm is not fused, only RMSNorm is", blocked_by="onnx.LayerNormalization at {{[^"]+}}"}}
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %h = tandem.add %s, %r : tensor<?x8xf32>
  %n = "onnx.LayerNormalization"(%h, %g) {axis = -1 : si64} : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  // expected-remark@below {{[Passed] Fused | Category:tandem-fuse | Function=NormNotRecognized_in_a_stream | dtype=f32}}
  %t = tandem.all_reduce %z : tensor<?x8xf32>
  %i = tandem.add %t, %h : tensor<?x8xf32>
  %y = tandem.rms_norm %i, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %n, %y : tensor<?x8xf32>, tensor<?x8xf32>
}

// The routed and the shared part of a mixture of experts, reduced apart.
// CHECK: "function": "SumOfAllReduces"
// CHECK-NEXT: "location": "{{.*}}:[[# @LINE + 15]]:8"
// CHECK-NEXT: "status": "missed"
// CHECK-NEXT: "reason": "SumOfAllReduces"
// CHECK-NEXT: "message": "the sum of two all-reduces is needed before the norm"
// CHECK-NEXT: "blocked_by": "tandem.all_reduce at {{.*}}:[[# @LINE + 13]]:8"
// CHECK-NEXT: "suggestion": "use merge-all-reduces, if the change of rounding is acceptable, or reduce once in the model"
// CHECK: "function": "SumOfAllReduces"
// CHECK-NEXT: "location": "{{.*}}:[[# @LINE + 10]]:8"
// CHECK-NEXT: "status": "missed"
// CHECK-NEXT: "reason": "SumOfAllReduces"
// CHECK-NEXT: "message": "the sum of two all-reduces is needed before the norm"
// CHECK-NEXT: "blocked_by": "tandem.all_reduce at {{.*}}:[[# @LINE + 4]]:8"
// CHECK-NEXT: "suggestion": "use merge-all-reduces, if the change of rounding is acceptable, or reduce once in the model"
func.func @SumOfAllReduces(%x: tensor<?x8xf32>, %z: tensor<?x8xf32>, %r: tensor<?x8xf32>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  // expected-remark-re@below {{[Missed] SumOfAllReduces | Category:tandem-fuse | Function=SumOfAllReduces | Reason="the sum of two all-reduces is needed before the norm", Suggestion="use merge-all-reduces, if the change of rounding is acceptable, or reduce once in the model", blocked_by="tandem.all_reduce at {{[^"]+}}"}}
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  // expected-remark-re@below {{[Missed] SumOfAllReduces | Category:tandem-fuse | Function=SumOfAllReduces | Reason="the sum of two all-reduces is needed before the norm", Suggestion="use merge-all-reduces, if the change of rounding is acceptable, or reduce once in the model", blocked_by="tandem.all_reduce at {{[^"]+}}"}}
  %t = tandem.all_reduce %z : tensor<?x8xf32>
  %u = tandem.add %s, %t : tensor<?x8xf32>
  %v = tandem.add %r, %u : tensor<?x8xf32>
  %y = tandem.rms_norm %v, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y : tensor<?x8xf32>
}

// Without a residual, the second takes the first as its own.
// CHECK: "function": "SumOfAllReduces_is_normed"
// CHECK-NEXT: "location": "{{.*}}:[[# @LINE + 11]]:8"
// CHECK-NEXT: "status": "missed"
// CHECK-NEXT: "reason": "SumOfAllReduces"
// CHECK-NEXT: "message": "the sum of two all-reduces is needed before the norm"
// CHECK-NEXT: "blocked_by": "tandem.all_reduce at {{.*}}:[[# @LINE + 9]]:8"
// CHECK-NEXT: "suggestion": "use merge-all-reduces, if the change of rounding is acceptable, or reduce once in the model"
// CHECK: "function": "SumOfAllReduces_is_normed"
// CHECK-NEXT: "location": "{{.*}}:[[# @LINE + 6]]:8"
// CHECK-NEXT: "status": "fused"
func.func @SumOfAllReduces_is_normed(%x: tensor<?x8xf32>, %z: tensor<?x8xf32>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  // expected-remark-re@below {{[Missed] SumOfAllReduces | Category:tandem-fuse | Function=SumOfAllReduces_is_normed | Reason="the sum of two all-reduces is needed before the norm", Suggestion="use merge-all-reduces, if the change of rounding is acceptable, or reduce once in the model", blocked_by="tandem.all_reduce at {{[^"]+}}"}}
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  // expected-remark@below {{[Passed] Fused | Category:tandem-fuse | Function=SumOfAllReduces_is_normed | dtype=f32}}
  %t = tandem.all_reduce %z : tensor<?x8xf32>
  %u = tandem.add %s, %t : tensor<?x8xf32>
  %y = tandem.rms_norm %u, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y : tensor<?x8xf32>
}

// The residual is added between the two.
// CHECK: "function": "SumOfAllReduces_one_by_one"
// CHECK-NEXT: "location": "{{.*}}:[[# @LINE + 11]]:8"
// CHECK-NEXT: "status": "missed"
// CHECK-NEXT: "reason": "SumOfAllReduces"
// CHECK-NEXT: "message": "the sum of two all-reduces is needed before the norm"
// CHECK-NEXT: "blocked_by": "tandem.all_reduce at {{.*}}:[[# @LINE + 9]]:8"
// CHECK-NEXT: "suggestion": "use merge-all-reduces, if the change of rounding is acceptable, or reduce once in the model"
// CHECK: "function": "SumOfAllReduces_one_by_one"
// CHECK-NEXT: "location": "{{.*}}:[[# @LINE + 6]]:8"
// CHECK-NEXT: "status": "fused"
func.func @SumOfAllReduces_one_by_one(%x: tensor<?x8xf32>, %z: tensor<?x8xf32>, %r: tensor<?x8xf32>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  // expected-remark-re@below {{[Missed] SumOfAllReduces | Category:tandem-fuse | Function=SumOfAllReduces_one_by_one | Reason="the sum of two all-reduces is needed before the norm", Suggestion="use merge-all-reduces, if the change of rounding is acceptable, or reduce once in the model", blocked_by="tandem.all_reduce at {{[^"]+}}"}}
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  // expected-remark@below {{[Passed] Fused | Category:tandem-fuse | Function=SumOfAllReduces_one_by_one | dtype=f32}}
  %t = tandem.all_reduce %z : tensor<?x8xf32>
  %u = tandem.add %s, %r : tensor<?x8xf32>
  %v = tandem.add %u, %t : tensor<?x8xf32>
  %y = tandem.rms_norm %v, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y : tensor<?x8xf32>
}

// As above, but the two reduce over different ranks.
// CHECK: "function": "GroupsDiffer"
// CHECK-NEXT: "location": "{{.*}}:[[# @LINE + 15]]:8"
// CHECK-NEXT: "status": "missed"
// CHECK-NEXT: "reason": "GroupsDiffer"
// CHECK-NEXT: "message": "two all-reduces of different groups are added"
// CHECK-NEXT: "blocked_by": "tandem.all_reduce at {{.*}}:[[# @LINE + 13]]:8"
// CHECK-NEXT: "suggestion": "let both reduce over one group"
// CHECK: "function": "GroupsDiffer"
// CHECK-NEXT: "location": "{{.*}}:[[# @LINE + 10]]:8"
// CHECK-NEXT: "status": "missed"
// CHECK-NEXT: "reason": "GroupsDiffer"
// CHECK-NEXT: "message": "two all-reduces of different groups are added"
// CHECK-NEXT: "blocked_by": "tandem.all_reduce at {{.*}}:[[# @LINE + 4]]:8"
// CHECK-NEXT: "suggestion": "let both reduce over one group"
func.func @GroupsDiffer(%x: tensor<?x8xf32>, %z: tensor<?x8xf32>, %r: tensor<?x8xf32>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  // expected-remark-re@below {{[Missed] GroupsDiffer | Category:tandem-fuse | Function=GroupsDiffer | Reason="two all-reduces of different groups are added", Suggestion="let both reduce over one group", blocked_by="tandem.all_reduce at {{[^"]+}}"}}
  %s = tandem.all_reduce %x {group = #a} : tensor<?x8xf32>
  // expected-remark-re@below {{[Missed] GroupsDiffer | Category:tandem-fuse | Function=GroupsDiffer | Reason="two all-reduces of different groups are added", Suggestion="let both reduce over one group", blocked_by="tandem.all_reduce at {{[^"]+}}"}}
  %t = tandem.all_reduce %z {group = #b} : tensor<?x8xf32>
  %u = tandem.add %s, %t : tensor<?x8xf32>
  %v = tandem.add %u, %r : tensor<?x8xf32>
  %y = tandem.rms_norm %v, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y : tensor<?x8xf32>
}

// CHECK: "function": "GroupsDiffer_is_normed"
// CHECK-NEXT: "location": "{{.*}}:[[# @LINE + 11]]:8"
// CHECK-NEXT: "status": "missed"
// CHECK-NEXT: "reason": "GroupsDiffer"
// CHECK-NEXT: "message": "two all-reduces of different groups are added"
// CHECK-NEXT: "blocked_by": "tandem.all_reduce at {{.*}}:[[# @LINE + 9]]:8"
// CHECK-NEXT: "suggestion": "let both reduce over one group"
// CHECK: "function": "GroupsDiffer_is_normed"
// CHECK-NEXT: "location": "{{.*}}:[[# @LINE + 6]]:8"
// CHECK-NEXT: "status": "fused"
func.func @GroupsDiffer_is_normed(%x: tensor<?x8xf32>, %z: tensor<?x8xf32>, %r: tensor<?x8xf32>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  // expected-remark-re@below {{[Missed] GroupsDiffer | Category:tandem-fuse | Function=GroupsDiffer_is_normed | Reason="two all-reduces of different groups are added", Suggestion="let both reduce over one group", blocked_by="tandem.all_reduce at {{[^"]+}}"}}
  %s = tandem.all_reduce %x {group = #a} : tensor<?x8xf32>
  // expected-remark@below {{[Passed] Fused | Category:tandem-fuse | Function=GroupsDiffer_is_normed | dtype=f32}}
  %t = tandem.all_reduce %z {group = #b} : tensor<?x8xf32>
  %u = tandem.add %s, %t : tensor<?x8xf32>
  %y = tandem.rms_norm %u, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y : tensor<?x8xf32>
}

// Only some calls reach the norm, perhaps not on all ranks alike.
// CHECK: "function": "CrossBlock"
// CHECK-NEXT: "location": "{{.*}}:[[# @LINE + 8]]:8"
// CHECK-NEXT: "status": "missed"
// CHECK-NEXT: "reason": "CrossBlock"
// CHECK-NEXT: "message": "the add or the norm stands in another block"
// CHECK-NEXT: "blocked_by": "tandem.rms_norm at {{.*}}:[[# @LINE + 6]]:10"
// CHECK-NEXT: "suggestion": "move the add and the norm into the all-reduce's block"
func.func @CrossBlock(%x: tensor<?x8xf32>, %g: tensor<8xf32>, %c: i1) -> tensor<?x8xf32> {
  // expected-remark-re@below {{[Missed] CrossBlock | Category:tandem-fuse | Function=CrossBlock | Reason="the add or the norm stands in another block", Suggestion="move the add and the norm into the all-reduce's block", blocked_by="tandem.rms_norm at {{[^"]+}}"}}
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %y = scf.if %c -> tensor<?x8xf32> {
    %n = tandem.rms_norm %s, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
    scf.yield %n : tensor<?x8xf32>
  } else {
    scf.yield %x : tensor<?x8xf32>
  }
  return %y : tensor<?x8xf32>
}

// The norm stands in a later block of the same region.
// CHECK: "function": "CrossBlock_successor"
// CHECK-NEXT: "location": "{{.*}}:[[# @LINE + 8]]:8"
// CHECK-NEXT: "status": "missed"
// CHECK-NEXT: "reason": "CrossBlock"
// CHECK-NEXT: "message": "the add or the norm stands in another block"
// CHECK-NEXT: "blocked_by": "tandem.rms_norm at {{.*}}:[[# @LINE + 8]]:10"
// CHECK-NEXT: "suggestion": "move the add and the norm into the all-reduce's block"
func.func @CrossBlock_successor(%x: tensor<?x8xf32>, %g: tensor<8xf32>, %c: i1) -> tensor<?x8xf32> {
  // expected-remark-re@below {{[Missed] CrossBlock | Category:tandem-fuse | Function=CrossBlock_successor | Reason="the add or the norm stands in another block", Suggestion="move the add and the norm into the all-reduce's block", blocked_by="tandem.rms_norm at {{[^"]+}}"}}
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %q = tandem.add %s, %x : tensor<?x8xf32>
  cf.br ^bb1
  ^bb1:
    %n = tandem.rms_norm %q, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %n : tensor<?x8xf32>
}

// A cast that is no part of the norm.
// CHECK: "function": "TypeChanges"
// CHECK-NEXT: "location": "{{.*}}:[[# @LINE + 8]]:8"
// CHECK-NEXT: "status": "missed"
// CHECK-NEXT: "reason": "TypeChanges"
// CHECK-NEXT: "message": "the element type changes within the chain: tensor<?x8xbf16> to tensor<?x8xf32>"
// CHECK-NEXT: "blocked_by": "onnx.Cast at {{.*}}:[[# @LINE + 5]]:8"
// CHECK-NEXT: "suggestion": "keep all-reduce, add and norm in one element type"
func.func @TypeChanges(%x: tensor<?x8xbf16>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  // expected-remark-re@below {{[Missed] TypeChanges | Category:tandem-fuse | Function=TypeChanges | Reason="the element type changes within the chain: tensor<?x8xbf16> to tensor<?x8xf32>", Suggestion="keep all-reduce, add and norm in one element type", blocked_by="onnx.Cast at {{[^"]+}}"}}
  %s = tandem.all_reduce %x : tensor<?x8xbf16>
  %c = "onnx.Cast"(%s) {to = f32} : (tensor<?x8xbf16>) -> tensor<?x8xf32>
  %y = tandem.rms_norm %c, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y : tensor<?x8xf32>
}

// CHECK: "function": "TypeChanges_after_add"
// CHECK-NEXT: "location": "{{.*}}:[[# @LINE + 8]]:8"
// CHECK-NEXT: "status": "missed"
// CHECK-NEXT: "reason": "TypeChanges"
// CHECK-NEXT: "message": "the element type changes within the chain: tensor<?x8xbf16> to tensor<?x8xf32>"
// CHECK-NEXT: "blocked_by": "onnx.Cast at {{.*}}:[[# @LINE + 6]]:8"
// CHECK-NEXT: "suggestion": "keep all-reduce, add and norm in one element type"
func.func @TypeChanges_after_add(%x: tensor<?x8xbf16>, %r: tensor<?x8xbf16>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  // expected-remark-re@below {{[Missed] TypeChanges | Category:tandem-fuse | Function=TypeChanges_after_add | Reason="the element type changes within the chain: tensor<?x8xbf16> to tensor<?x8xf32>", Suggestion="keep all-reduce, add and norm in one element type", blocked_by="onnx.Cast at {{[^"]+}}"}}
  %s = tandem.all_reduce %x : tensor<?x8xbf16>
  %a = tandem.add %s, %r : tensor<?x8xbf16>
  %c = "onnx.Cast"(%a) {to = f32} : (tensor<?x8xbf16>) -> tensor<?x8xf32>
  %y = tandem.rms_norm %c, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y : tensor<?x8xf32>
}

// No valid ONNX, but valid MLIR: the add changes the type by itself.
// CHECK: "function": "TypeChanges_residual"
// CHECK-NEXT: "location": "{{.*}}:[[# @LINE + 8]]:8"
// CHECK-NEXT: "status": "missed"
// CHECK-NEXT: "reason": "TypeChanges"
// CHECK-NEXT: "message": "the element type changes within the chain: f32 and bf16"
// CHECK-NEXT: "blocked_by": "onnx.Add at {{.*}}:[[# @LINE + 5]]:8"
// CHECK-NEXT: "suggestion": "keep all-reduce, add and norm in one element type"
func.func @TypeChanges_residual(%x: tensor<?x8xf32>, %r: tensor<?x8xbf16>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  // expected-remark-re@below {{[Missed] TypeChanges | Category:tandem-fuse | Function=TypeChanges_residual | Reason="the element type changes within the chain: f32 and bf16", Suggestion="keep all-reduce, add and norm in one element type", blocked_by="onnx.Add at {{[^"]+}}"}}
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %a = "onnx.Add"(%s, %r) : (tensor<?x8xf32>, tensor<?x8xbf16>) -> tensor<?x8xf32>
  %y = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y : tensor<?x8xf32>
}

// Rows are cut in halves, so the norm is over other rows.
// CHECK: "function": "ReshapeChangesHidden"
// CHECK-NEXT: "location": "{{.*}}:[[# @LINE + 8]]:8"
// CHECK-NEXT: "status": "missed"
// CHECK-NEXT: "reason": "ReshapeChangesHidden"
// CHECK-NEXT: "message": "a reshape in the chain changes the last dimension"
// CHECK-NEXT: "blocked_by": "onnx.Reshape at {{.*}}:[[# @LINE + 5]]:8"
// CHECK-NEXT: "suggestion": "reshape only the leading dimensions"
func.func @ReshapeChangesHidden(%x: tensor<?x8xf32>, %shape: tensor<2xi64>, %g: tensor<4xf32>) -> tensor<?x4xf32> {
  // expected-remark-re@below {{[Missed] ReshapeChangesHidden | Category:tandem-fuse | Function=ReshapeChangesHidden | Reason="a reshape in the chain changes the last dimension", Suggestion="reshape only the leading dimensions", blocked_by="onnx.Reshape at {{[^"]+}}"}}
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %v = "onnx.Reshape"(%s, %shape) : (tensor<?x8xf32>, tensor<2xi64>) -> tensor<?x4xf32>
  %y = tandem.rms_norm %v, %g {epsilon = 1.0e-5 : f64} : tensor<?x4xf32>, tensor<4xf32>
  return %y : tensor<?x4xf32>
}

// The fused op could return the sum in the shape that the norm has it only.
// CHECK: "function": "ReshapedSumUsed"
// CHECK-NEXT: "location": "{{.*}}:[[# @LINE + 8]]:8"
// CHECK-NEXT: "status": "missed"
// CHECK-NEXT: "reason": "ReshapedSumUsed"
// CHECK-NEXT: "message": "the all-reduce's sum is used in a shape other than the chain's"
// CHECK-NEXT: "blocked_by": "func.return at {{.*}}:[[# @LINE + 7]]:3"
// CHECK-NEXT: "suggestion": "let all users of the sum read it after the reshape"
func.func @ReshapedSumUsed(%x: tensor<?x8xf32>, %shape: tensor<3xi64>, %g: tensor<8xf32>) -> (tensor<?x1x8xf32>, tensor<?x8xf32>) {
  // expected-remark-re@below {{[Missed] ReshapedSumUsed | Category:tandem-fuse | Function=ReshapedSumUsed | Reason="the all-reduce's sum is used in a shape other than the chain's", Suggestion="let all users of the sum read it after the reshape", blocked_by="func.return at {{[^"]+}}"}}
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %v = "onnx.Reshape"(%s, %shape) : (tensor<?x8xf32>, tensor<3xi64>) -> tensor<?x1x8xf32>
  %y = tandem.rms_norm %v, %g {epsilon = 1.0e-5 : f64} : tensor<?x1x8xf32>, tensor<8xf32>
  return %y, %s : tensor<?x1x8xf32>, tensor<?x8xf32>
}

// A reshape may swap two dimensions of unknown size: the types are equal, the
// values are not.
// CHECK: "function": "ReshapedSumUsed_same_type"
// CHECK-NEXT: "location": "{{.*}}:[[# @LINE + 8]]:8"
// CHECK-NEXT: "status": "missed"
// CHECK-NEXT: "reason": "ReshapedSumUsed"
// CHECK-NEXT: "message": "the all-reduce's sum is used in a shape other than the chain's"
// CHECK-NEXT: "blocked_by": "func.return at {{.*}}:[[# @LINE + 7]]:3"
// CHECK-NEXT: "suggestion": "let all users of the sum read it after the reshape"
func.func @ReshapedSumUsed_same_type(%x: tensor<?x?x8xf32>, %shape: tensor<3xi64>, %g: tensor<8xf32>) -> (tensor<?x?x8xf32>, tensor<?x?x8xf32>) {
  // expected-remark-re@below {{[Missed] ReshapedSumUsed | Category:tandem-fuse | Function=ReshapedSumUsed_same_type | Reason="the all-reduce's sum is used in a shape other than the chain's", Suggestion="let all users of the sum read it after the reshape", blocked_by="func.return at {{[^"]+}}"}}
  %s = tandem.all_reduce %x : tensor<?x?x8xf32>
  %v = "onnx.Reshape"(%s, %shape) : (tensor<?x?x8xf32>, tensor<3xi64>) -> tensor<?x?x8xf32>
  %y = tandem.rms_norm %v, %g {epsilon = 1.0e-5 : f64} : tensor<?x?x8xf32>, tensor<8xf32>
  return %y, %s : tensor<?x?x8xf32>, tensor<?x?x8xf32>
}

// The bias comes after the residual: (sum + residual) + bias rounds otherwise
// than (sum + bias) + residual.
// CHECK: "function": "RoundingNotKept"
// CHECK-NEXT: "location": "{{.*}}:[[# @LINE + 8]]:8"
// CHECK-NEXT: "status": "missed"
// CHECK-NEXT: "reason": "RoundingNotKept"
// CHECK-NEXT: "message": "the fused op would round at other places: a bias is added after the residual"
// CHECK-NEXT: "blocked_by": "onnx.Add at {{.*}}:[[# @LINE + 6]]:8"
// CHECK-NEXT: "suggestion": "add the bias to the sum before the residual"
func.func @RoundingNotKept(%x: tensor<?x8xf32>, %r: tensor<?x8xf32>, %b: tensor<8xf32>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  // expected-remark-re@below {{[Missed] RoundingNotKept | Category:tandem-fuse | Function=RoundingNotKept | Reason="the fused op would round at other places: a bias is added after the residual", Suggestion="add the bias to the sum before the residual", blocked_by="onnx.Add at {{[^"]+}}"}}
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %a = tandem.add %s, %r : tensor<?x8xf32>
  %c = "onnx.Add"(%a, %b) : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  %y = tandem.rms_norm %c, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y : tensor<?x8xf32>
}

// Here tandem-fuse runs without tandem-raise.
// CHECK: "function": "AllReduceNotRaised"
// CHECK-NEXT: "location": "{{.*}}:[[# @LINE + 8]]:8"
// CHECK-NEXT: "status": "missed"
// CHECK-NEXT: "reason": "AllReduceNotRaised"
// CHECK-NEXT: "message": "the all-reduce is still in its source's form"
// CHECK-NEXT: "blocked_by": null
// CHECK-NEXT: "suggestion": "run tandem-raise first; docs/raise.md lists the forms that it takes"
func.func @AllReduceNotRaised(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  // expected-remark-re@below {{[Missed] AllReduceNotRaised | Category:tandem-fuse | Function=AllReduceNotRaised | Reason="the all-reduce is still in its source's form", Suggestion="run tandem-raise first; docs/raise.md lists the forms that it takes", blocked_by=none}}
  %s = "onnx.Custom"(%x) {function_name = "AllReduce", domain_name = "com.microsoft"} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  return %s : tensor<?x8xf32>
}

// One node that reduces several tensors; what is wrong with it is said too.
// CHECK: "function": "AllReduceNotRaised_several_inputs"
// CHECK-NEXT: "location": "{{.*}}:[[# @LINE + 8]]:10"
// CHECK-NEXT: "status": "missed"
// CHECK-NEXT: "reason": "AllReduceNotRaised"
// CHECK-NEXT: "message": "the all-reduce is still in its source's form: it reduces several tensors at once"
// CHECK-NEXT: "blocked_by": "onnx.Custom at {{.*}}:[[# @LINE + 4]]:10"
// CHECK-NEXT: "suggestion": "give each tensor an all-reduce of its own"
func.func @AllReduceNotRaised_several_inputs(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  // expected-remark-re@below {{[Missed] AllReduceNotRaised | Category:tandem-fuse | Function=AllReduceNotRaised_several_inputs | Reason="the all-reduce is still in its source's form: it reduces several tensors at once", Suggestion="give each tensor an all-reduce of its own", blocked_by="onnx.Custom at {{[^"]+}}"}}
  %s:2 = "onnx.Custom"(%x, %x) {function_name = "NcclAllReduce", domain_name = "com.microsoft"} : (tensor<?x8xf32>, tensor<?x8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>)
  return %s#0 : tensor<?x8xf32>
}

// A loop of blocks that nothing enters; there an op may read what stands after
// it.
// CHECK: "function": "Unreachable"
// CHECK-NEXT: "location": "{{.*}}:[[# @LINE + 10]]:8"
// CHECK-NEXT: "status": "missed"
// CHECK-NEXT: "reason": "Unreachable"
// CHECK-NEXT: "message": "the all-reduce stands in a block that nothing branches to"
// CHECK-NEXT: "blocked_by": null
// CHECK-NEXT: "suggestion": "remove that block, as canonicalize does"
func.func @Unreachable(%x: tensor<?x8xf32>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  return %x : tensor<?x8xf32>
^bb1:
  // expected-remark-re@below {{[Missed] Unreachable | Category:tandem-fuse | Function=Unreachable | Reason="the all-reduce stands in a block that nothing branches to", Suggestion="remove that block, as canonicalize does", blocked_by=none}}
  %s = tandem.all_reduce %y : tensor<?x8xf32>
  %y = tandem.rms_norm %s, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  cf.br ^bb1
}

// The sum is broadcast along the second dimension.
// CHECK: "function": "ResidualShape"
// CHECK-NEXT: "location": "{{.*}}:[[# @LINE + 8]]:8"
// CHECK-NEXT: "status": "missed"
// CHECK-NEXT: "reason": "ResidualShape"
// CHECK-NEXT: "message": "the add broadcasts: tensor<2x3x8xf32> is added to tensor<2x1x8xf32>"
// CHECK-NEXT: "blocked_by": "onnx.Add at {{.*}}:[[# @LINE + 5]]:8"
// CHECK-NEXT: "suggestion": "give the residual the sum's shape"
func.func @ResidualShape(%x: tensor<2x1x8xf32>, %r: tensor<2x3x8xf32>, %g: tensor<8xf32>) -> tensor<2x3x8xf32> {
  // expected-remark-re@below {{[Missed] ResidualShape | Category:tandem-fuse | Function=ResidualShape | Reason="the add broadcasts: tensor<2x3x8xf32> is added to tensor<2x1x8xf32>", Suggestion="give the residual the sum's shape", blocked_by="onnx.Add at {{[^"]+}}"}}
  %s = tandem.all_reduce %x : tensor<2x1x8xf32>
  %a = "onnx.Add"(%s, %r) : (tensor<2x1x8xf32>, tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  %y = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64} : tensor<2x3x8xf32>, tensor<8xf32>
  return %y : tensor<2x3x8xf32>
}

// The residual has one dimension more.
// CHECK: "function": "ResidualShape_rank"
// CHECK-NEXT: "location": "{{.*}}:[[# @LINE + 8]]:8"
// CHECK-NEXT: "status": "missed"
// CHECK-NEXT: "reason": "ResidualShape"
// CHECK-NEXT: "message": "the add broadcasts: tensor<3x2x8xf32> is added to tensor<2x8xf32>"
// CHECK-NEXT: "blocked_by": "onnx.Add at {{.*}}:[[# @LINE + 5]]:8"
// CHECK-NEXT: "suggestion": "give the residual the sum's shape"
func.func @ResidualShape_rank(%x: tensor<2x8xf32>, %r: tensor<3x2x8xf32>, %g: tensor<8xf32>) -> tensor<3x2x8xf32> {
  // expected-remark-re@below {{[Missed] ResidualShape | Category:tandem-fuse | Function=ResidualShape_rank | Reason="the add broadcasts: tensor<3x2x8xf32> is added to tensor<2x8xf32>", Suggestion="give the residual the sum's shape", blocked_by="onnx.Add at {{[^"]+}}"}}
  %s = tandem.all_reduce %x : tensor<2x8xf32>
  %a = "onnx.Add"(%s, %r) : (tensor<2x8xf32>, tensor<3x2x8xf32>) -> tensor<3x2x8xf32>
  %y = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64} : tensor<3x2x8xf32>, tensor<8xf32>
  return %y : tensor<3x2x8xf32>
}

// The residual is computed from the sum.
// CHECK: "function": "ResidualDependsOnSum"
// CHECK-NEXT: "location": "{{.*}}:[[# @LINE + 8]]:8"
// CHECK-NEXT: "status": "missed"
// CHECK-NEXT: "reason": "ResidualDependsOnSum"
// CHECK-NEXT: "message": "the residual is computed from the all-reduce's result"
// CHECK-NEXT: "blocked_by": "onnx.Tanh at {{.*}}:[[# @LINE + 5]]:8"
// CHECK-NEXT: "suggestion": "nothing: the two can't be one op"
func.func @ResidualDependsOnSum(%x: tensor<?x8xf32>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  // expected-remark-re@below {{[Missed] ResidualDependsOnSum | Category:tandem-fuse | Function=ResidualDependsOnSum | Reason="the residual is computed from the all-reduce's result", Suggestion="nothing: the two can't be one op", blocked_by="onnx.Tanh at {{[^"]+}}"}}
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %t = "onnx.Tanh"(%s) : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %a = tandem.add %s, %t : tensor<?x8xf32>
  %y = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y : tensor<?x8xf32>
}

// CHECK: "function": "ResidualDependsOnSum_twice_the_sum"
// CHECK-NEXT: "location": "{{.*}}:[[# @LINE + 8]]:8"
// CHECK-NEXT: "status": "missed"
// CHECK-NEXT: "reason": "ResidualDependsOnSum"
// CHECK-NEXT: "message": "the residual is computed from the all-reduce's result"
// CHECK-NEXT: "blocked_by": "tandem.add at {{.*}}:[[# @LINE + 5]]:8"
// CHECK-NEXT: "suggestion": "nothing: the two can't be one op"
func.func @ResidualDependsOnSum_twice_the_sum(%x: tensor<?x8xf32>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  // expected-remark-re@below {{[Missed] ResidualDependsOnSum | Category:tandem-fuse | Function=ResidualDependsOnSum_twice_the_sum | Reason="the residual is computed from the all-reduce's result", Suggestion="nothing: the two can't be one op", blocked_by="tandem.add at {{[^"]+}}"}}
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %a = tandem.add %s, %s : tensor<?x8xf32>
  %y = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y : tensor<?x8xf32>
}

// Random numbers are drawn in order. order.mlir has more.
// CHECK: "function": "InterveningSideEffect"
// CHECK-NEXT: "location": "{{.*}}:[[# @LINE + 8]]:8"
// CHECK-NEXT: "status": "missed"
// CHECK-NEXT: "reason": "InterveningSideEffect"
// CHECK-NEXT: "message": "an op with effects stands between the all-reduce and the chain's last operand"
// CHECK-NEXT: "blocked_by": "onnx.RandomUniformLike at {{.*}}:[[# @LINE + 5]]:8"
// CHECK-NEXT: "suggestion": "move that op before the all-reduce or after the norm"
func.func @InterveningSideEffect(%x: tensor<?x8xf32>, %r0: tensor<?x8xf32>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  // expected-remark-re@below {{[Missed] InterveningSideEffect | Category:tandem-fuse | Function=InterveningSideEffect | Reason="an op with effects stands between the all-reduce and the chain's last operand", Suggestion="move that op before the all-reduce or after the norm", blocked_by="onnx.RandomUniformLike at {{[^"]+}}"}}
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %r = "onnx.RandomUniformLike"(%r0) : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %a = tandem.add %s, %r : tensor<?x8xf32>
  %y = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y : tensor<?x8xf32>
}

// A maximum.
// CHECK: "function": "ReductionNotSum"
// CHECK-NEXT: "location": "{{.*}}:[[# @LINE + 8]]:8"
// CHECK-NEXT: "status": "missed"
// CHECK-NEXT: "reason": "ReductionNotSum"
// CHECK-NEXT: "message": "only sums are fused: max"
// CHECK-NEXT: "blocked_by": null
// CHECK-NEXT: "suggestion": "nothing"
func.func @ReductionNotSum(%x: tensor<?x8xf32>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  // expected-remark-re@below {{[Missed] ReductionNotSum | Category:tandem-fuse | Function=ReductionNotSum | Reason="only sums are fused: max", Suggestion=nothing, blocked_by=none}}
  %s = tandem.all_reduce %x {reduction = #tandem<reduction max>} : tensor<?x8xf32>
  %y = tandem.rms_norm %s, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y : tensor<?x8xf32>
}

// A group of one rank; its size is part of the group.
// CHECK: "function": "WorldSizeOne"
// CHECK-NEXT: "location": "{{.*}}:[[# @LINE + 8]]:8"
// CHECK-NEXT: "status": "missed"
// CHECK-NEXT: "reason": "WorldSizeOne"
// CHECK-NEXT: "message": "a group of one rank has nothing to reduce"
// CHECK-NEXT: "blocked_by": null
// CHECK-NEXT: "suggestion": "remove the all-reduce"
func.func @WorldSizeOne(%x: tensor<?x8xf32>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  // expected-remark-re@below {{[Missed] WorldSizeOne | Category:tandem-fuse | Function=WorldSizeOne | Reason="a group of one rank has nothing to reduce", Suggestion="remove the all-reduce", blocked_by=none}}
  %s = tandem.all_reduce %x {group = #tandem.group<"tp", size = 1>} : tensor<?x8xf32>
  %y = tandem.rms_norm %s, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y : tensor<?x8xf32>
}

// The sum.
// CHECK: "function": "RankUnknown"
// CHECK-NEXT: "location": "{{.*}}:[[# @LINE + 8]]:8"
// CHECK-NEXT: "status": "missed"
// CHECK-NEXT: "reason": "RankUnknown"
// CHECK-NEXT: "message": "the number of dimensions is not known"
// CHECK-NEXT: "blocked_by": null
// CHECK-NEXT: "suggestion": "run shape inference, or give value_info"
func.func @RankUnknown(%x: tensor<*xf32>, %r: tensor<?x8xf32>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  // expected-remark-re@below {{[Missed] RankUnknown | Category:tandem-fuse | Function=RankUnknown | Reason="the number of dimensions is not known", Suggestion="run shape inference, or give value_info", blocked_by=none}}
  %s = tandem.all_reduce %x : tensor<*xf32>
  %a = "onnx.Add"(%s, %r) : (tensor<*xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %y = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y : tensor<?x8xf32>
}

// The residual.
// CHECK: "function": "RankUnknown_residual"
// CHECK-NEXT: "location": "{{.*}}:[[# @LINE + 8]]:8"
// CHECK-NEXT: "status": "missed"
// CHECK-NEXT: "reason": "RankUnknown"
// CHECK-NEXT: "message": "the number of dimensions is not known: of the residual"
// CHECK-NEXT: "blocked_by": "onnx.Add at {{.*}}:[[# @LINE + 5]]:8"
// CHECK-NEXT: "suggestion": "run shape inference, or give value_info"
func.func @RankUnknown_residual(%r: tensor<*xf32>, %x: tensor<?x8xf32>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  // expected-remark-re@below {{[Missed] RankUnknown | Category:tandem-fuse | Function=RankUnknown_residual | Reason="the number of dimensions is not known: of the residual", Suggestion="run shape inference, or give value_info", blocked_by="onnx.Add at {{[^"]+}}"}}
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %a = "onnx.Add"(%s, %r) : (tensor<?x8xf32>, tensor<*xf32>) -> tensor<?x8xf32>
  %y = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y : tensor<?x8xf32>
}

// What an importer knows nothing of is of type none.
// CHECK: "function": "RankUnknown_type"
// CHECK-NEXT: "location": "{{.*}}:[[# @LINE + 8]]:8"
// CHECK-NEXT: "status": "missed"
// CHECK-NEXT: "reason": "RankUnknown"
// CHECK-NEXT: "message": "the number of dimensions is not known: the type of what is added is not known"
// CHECK-NEXT: "blocked_by": "onnx.Add at {{.*}}:[[# @LINE + 6]]:8"
// CHECK-NEXT: "suggestion": "run shape inference, or give value_info"
func.func @RankUnknown_type(%x: tensor<?x8xf32>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  // expected-remark-re@below {{[Missed] RankUnknown | Category:tandem-fuse | Function=RankUnknown_type | Reason="the number of dimensions is not known: the type of what is added is not known", Suggestion="run shape inference, or give value_info", blocked_by="onnx.Add at {{[^"]+}}"}}
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %r = "onnx.Custom"(%x) {domain_name = "acme", function_name = "Foo"} : (tensor<?x8xf32>) -> none
  %a = "onnx.Add"(%s, %r) : (tensor<?x8xf32>, none) -> tensor<*xf32>
  %y = "onnx.RMSNormalization"(%a, %g) : (tensor<*xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

// The next layer's add, which is not the chain's.
// CHECK: "function": "NormNotRecognized_type"
// CHECK-NEXT: "location": "{{.*}}:[[# @LINE + 8]]:8"
// CHECK-NEXT: "status": "missed"
// CHECK-NEXT: "reason": "NormNotRecognized"
// CHECK-NEXT: "message": "what follows resembles an RMSNorm but is not one: the mean is subtracted first, so it is a LayerNorm"
// CHECK-NEXT: "blocked_by": "onnx.LayerNormalization at {{.*}}:[[# @LINE + 6]]:8"
// CHECK-NEXT: "suggestion": "nothing: a LayerNorm is not fused, only RMSNorm is"
func.func @NormNotRecognized_type(%x: tensor<?x8xf32>, %r: tensor<?x8xf32>, %n: none, %g: tensor<8xf32>) -> (tensor<?x8xf32>, tensor<*xf32>) {
  // expected-remark-re@below {{[Missed] NormNotRecognized | Category:tandem-fuse | Function=NormNotRecognized_type | {{.*}}}}
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %a = tandem.add %s, %r : tensor<?x8xf32>
  %y = "onnx.LayerNormalization"(%a, %g) {axis = -1 : si64} : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  %b = "onnx.Add"(%a, %n) : (tensor<?x8xf32>, none) -> tensor<*xf32>
  return %y, %b : tensor<?x8xf32>, tensor<*xf32>
}

// A p-norm, to which an epsilon is added all the same.
// CHECK: "function": "NormNotRecognized_p_norm"
// CHECK-NEXT: "location": "{{.*}}:[[# @LINE + 8]]:8"
// CHECK-NEXT: "status": "missed"
// CHECK-NEXT: "reason": "NormNotRecognized"
// CHECK-NEXT: "message": "what follows resembles an RMSNorm but is not one: it is a p-norm, which has no epsilon under the root"
// CHECK-NEXT: "blocked_by": "onnx.ReduceL2 at {{.*}}:[[# @LINE + 5]]:8"
// CHECK-NEXT: "suggestion": "nothing: a p-norm is not fused, only RMSNorm is"
func.func @NormNotRecognized_p_norm(%x: tensor<?x8xf32>, %g: tensor<8xf32>, %axes: tensor<1xi64>, %e: tensor<f32>) -> tensor<?x8xf32> {
  // expected-remark-re@below {{[Missed] NormNotRecognized | Category:tandem-fuse | Function=NormNotRecognized_p_norm | {{.*}}}}
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %l = "onnx.ReduceL2"(%s, %axes) {keepdims = 1 : si64} : (tensor<?x8xf32>, tensor<1xi64>) -> tensor<?x1xf32>
  %d = "onnx.Add"(%l, %e) : (tensor<?x1xf32>, tensor<f32>) -> tensor<?x1xf32>
  %n = "onnx.Div"(%s, %d) : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  %y = "onnx.Mul"(%n, %g) : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

// CHECK: "function": "HiddenDynamic"
// CHECK-NEXT: "location": "{{.*}}:[[# @LINE + 8]]:8"
// CHECK-NEXT: "status": "missed"
// CHECK-NEXT: "reason": "HiddenDynamic"
// CHECK-NEXT: "message": "the last dimension is not static"
// CHECK-NEXT: "blocked_by": null
// CHECK-NEXT: "suggestion": "give the hidden size as a number in value_info"
func.func @HiddenDynamic(%x: tensor<?x?xf32>, %g: tensor<8xf32>) -> tensor<?x?xf32> {
  // expected-remark-re@below {{[Missed] HiddenDynamic | Category:tandem-fuse | Function=HiddenDynamic | Reason="the last dimension is not static", Suggestion="give the hidden size as a number in value_info", blocked_by=none}}
  %s = tandem.all_reduce %x : tensor<?x?xf32>
  %y = tandem.rms_norm %s, %g {epsilon = 1.0e-5 : f64} : tensor<?x?xf32>, tensor<8xf32>
  return %y : tensor<?x?xf32>
}

// A norm that was not raised because of it.
// CHECK: "function": "HiddenDynamic_source"
// CHECK-NEXT: "location": "{{.*}}:[[# @LINE + 8]]:8"
// CHECK-NEXT: "status": "missed"
// CHECK-NEXT: "reason": "HiddenDynamic"
// CHECK-NEXT: "message": "the last dimension is not static"
// CHECK-NEXT: "blocked_by": "onnx.RMSNormalization at {{.*}}:[[# @LINE + 6]]:8"
// CHECK-NEXT: "suggestion": "give the hidden size as a number in value_info"
func.func @HiddenDynamic_source(%x: tensor<?x?xf32>, %r: tensor<?x?xf32>, %g: tensor<8xf32>) -> tensor<?x?xf32> {
  // expected-remark-re@below {{[Missed] HiddenDynamic | Category:tandem-fuse | Function=HiddenDynamic_source | {{.*}}}}
  %s = tandem.all_reduce %x : tensor<?x?xf32>
  %a = tandem.add %s, %r : tensor<?x?xf32>
  %y = "onnx.RMSNormalization"(%a, %g) : (tensor<?x?xf32>, tensor<8xf32>) -> tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}

// No elements in a row. No guard may ask for the limit of such rows.
// CHECK: "function": "HiddenZero"
// CHECK-NEXT: "location": "{{.*}}:[[# @LINE + 8]]:8"
// CHECK-NEXT: "status": "missed"
// CHECK-NEXT: "reason": "HiddenZero"
// CHECK-NEXT: "message": "the last dimension is 0"
// CHECK-NEXT: "blocked_by": null
// CHECK-NEXT: "suggestion": "nothing: there is nothing to compute"
func.func @HiddenZero(%x: tensor<?x0xf32>, %g: tensor<0xf32>) -> tensor<?x0xf32> {
  // expected-remark-re@below {{[Missed] HiddenZero | Category:tandem-fuse | Function=HiddenZero | Reason="the last dimension is 0", Suggestion="nothing: there is nothing to compute", blocked_by=none}}
  %s = tandem.all_reduce %x : tensor<?x0xf32>
  %y = tandem.rms_norm %s, %g {epsilon = 1.0e-5 : f64} : tensor<?x0xf32>, tensor<0xf32>
  return %y : tensor<?x0xf32>
}

// f64.
// CHECK: "function": "TypeUnsupported"
// CHECK-NEXT: "location": "{{.*}}:[[# @LINE + 8]]:8"
// CHECK-NEXT: "status": "missed"
// CHECK-NEXT: "reason": "TypeUnsupported"
// CHECK-NEXT: "message": "the element type is not f32, f16 or bf16: f64"
// CHECK-NEXT: "blocked_by": null
// CHECK-NEXT: "suggestion": "cast before the all-reduce"
func.func @TypeUnsupported(%x: tensor<?x8xf64>, %g: tensor<8xf64>) -> tensor<?x8xf64> {
  // expected-remark-re@below {{[Missed] TypeUnsupported | Category:tandem-fuse | Function=TypeUnsupported | Reason="the element type is not f32, f16 or bf16: f64", Suggestion="cast before the all-reduce", blocked_by=none}}
  %s = tandem.all_reduce %x : tensor<?x8xf64>
  %y = tandem.rms_norm %s, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf64>, tensor<8xf64>
  return %y : tensor<?x8xf64>
}

// A norm that was not raised because of it.
// CHECK: "function": "TypeUnsupported_source"
// CHECK-NEXT: "location": "{{.*}}:[[# @LINE + 8]]:8"
// CHECK-NEXT: "status": "missed"
// CHECK-NEXT: "reason": "TypeUnsupported"
// CHECK-NEXT: "message": "the element type is not f32, f16 or bf16: f64"
// CHECK-NEXT: "blocked_by": "onnx.RMSNormalization at {{.*}}:[[# @LINE + 5]]:8"
// CHECK-NEXT: "suggestion": "cast before the all-reduce"
func.func @TypeUnsupported_source(%x: tensor<?x8xf64>, %g: tensor<8xf64>) -> tensor<?x8xf64> {
  // expected-remark-re@below {{[Missed] TypeUnsupported | Category:tandem-fuse | Function=TypeUnsupported_source | {{.*}}}}
  %s = tandem.all_reduce %x : tensor<?x8xf64>
  %y = "onnx.RMSNormalization"(%s, %g) : (tensor<?x8xf64>, tensor<8xf64>) -> tensor<?x8xf64>
  return %y : tensor<?x8xf64>
}

// CHECK: "function": "GammaTypeUnsupported"
// CHECK-NEXT: "location": "{{.*}}:[[# @LINE + 8]]:8"
// CHECK-NEXT: "status": "missed"
// CHECK-NEXT: "reason": "GammaTypeUnsupported"
// CHECK-NEXT: "message": "gamma's element type is not f32, f16 or bf16: f64"
// CHECK-NEXT: "blocked_by": "tandem.rms_norm at {{.*}}:[[# @LINE + 5]]:8"
// CHECK-NEXT: "suggestion": "cast gamma"
func.func @GammaTypeUnsupported(%x: tensor<?x8xf32>, %g: tensor<8xf64>) -> tensor<?x8xf32> {
  // expected-remark-re@below {{[Missed] GammaTypeUnsupported | Category:tandem-fuse | Function=GammaTypeUnsupported | Reason="gamma's element type is not f32, f16 or bf16: f64", Suggestion="cast gamma", blocked_by="tandem.rms_norm at {{[^"]+}}"}}
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %y = tandem.rms_norm %s, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf64>
  return %y : tensor<?x8xf32>
}

// A batch of no rows.
// CHECK: "function": "ZeroTokens"
// CHECK-NEXT: "location": "{{.*}}:[[# @LINE + 8]]:8"
// CHECK-NEXT: "status": "missed"
// CHECK-NEXT: "reason": "ZeroTokens"
// CHECK-NEXT: "message": "the token count is 0"
// CHECK-NEXT: "blocked_by": null
// CHECK-NEXT: "suggestion": "nothing: there is nothing to compute"
func.func @ZeroTokens(%x: tensor<0x8xf32>, %g: tensor<8xf32>) -> tensor<0x8xf32> {
  // expected-remark-re@below {{[Missed] ZeroTokens | Category:tandem-fuse | Function=ZeroTokens | Reason="the token count is 0", Suggestion="nothing: there is nothing to compute", blocked_by=none}}
  %s = tandem.all_reduce %x : tensor<0x8xf32>
  %y = tandem.rms_norm %s, %g {epsilon = 1.0e-5 : f64} : tensor<0x8xf32>, tensor<8xf32>
  return %y : tensor<0x8xf32>
}
