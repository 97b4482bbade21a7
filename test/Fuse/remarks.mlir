// The report as MLIR's remarks, one for each all-reduce, in category
// tandem-fuse. Remarks need a filter; without one there are none.
//
// RUN: fusion-opt %s --tandem-fuse -o /dev/null --remarks-filter=tandem-fuse --remark-policy=all 2>&1 \
// RUN:   | FileCheck %s --check-prefix=ALL
// RUN: fusion-opt %s --tandem-fuse -o /dev/null 2>&1 | count 0
// RUN: fusion-opt %s --tandem-fuse -o /dev/null --remarks-filter-passed=tandem-fuse 2>&1 \
// RUN:   | FileCheck %s --check-prefix=PASSED --implicit-check-not=Missed
// RUN: fusion-opt %s --tandem-fuse -o /dev/null --remarks-filter-missed=tandem-fuse 2>&1 \
// RUN:   | FileCheck %s --check-prefix=MISSED --implicit-check-not=Passed
// RUN: fusion-opt %s --tandem-fuse -o /dev/null --remarks-filter=tandem-fuse \
// RUN:   --remark-policy=all --remark-format=yaml --remarks-output-file=%t.yaml
// RUN: FileCheck %s --check-prefix=YAML < %t.yaml

// A name is no place in a file; the remark is at the place in the name.
// ALL: remarks.mlir:[[# @LINE + 18]]:8: remark: [Passed] Fused | Category:tandem-fuse | Function=f | dtype=f32, group=world, guard="tokens <= token_limit", hidden=8, pattern=all_reduce_add_rms_norm
// ALL: model.onnx:7:1: remark: [Passed] Fused | Category:tandem-fuse | Function=f | dtype=f32, group=world, guard="tokens <= token_limit", hidden=8, pattern=all_reduce_rms_norm
// ALL: remarks.mlir:[[# @LINE + 21]]:8: remark: [Missed] NoNormConsumer | Category:tandem-fuse | Function=f | Reason="no RMSNorm follows the all-reduce", Suggestion="{{.*}}", blocked_by="func.return at {{.*}}remarks.mlir:[[# @LINE + 22]]:3"
// PASSED: remarks.mlir:{{[0-9]+}}:8: remark: [Passed] Fused
// PASSED: model.onnx:7:1: remark: [Passed] Fused
// MISSED: remarks.mlir:{{[0-9]+}}:8: remark: [Missed] NoNormConsumer

// YAML: --- !Passed
// YAML: Name: Fused
// YAML: DebugLoc: { File: '{{.*}}remarks.mlir'
// YAML: Function: f
// YAML: - pattern: all_reduce_add_rms_norm
// YAML: - guard: 'tokens <= token_limit'
// YAML: DebugLoc: { File: {{.*}}model.onnx{{.*}}, Line: 7, Column: 1 }
// YAML: --- !Missed
// YAML: Name: NoNormConsumer
// YAML: - Reason: no RMSNorm follows the all-reduce
func.func @f(%x: tensor<?x8xf32>, %g: tensor<8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>) {
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %a = tandem.add %s, %x : tensor<?x8xf32>
  %y = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  %t = tandem.all_reduce %x : tensor<?x8xf32> loc("AllReduce_7"("model.onnx":7:1))
  %u = tandem.rms_norm %t, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  %v = tandem.all_reduce %x : tensor<?x8xf32>
  return %y, %u, %v : tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>
}
