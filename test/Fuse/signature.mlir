// The attribute that ranks compare when they make a workspace: one line for
// each collective in the order of execution, with all that must agree. What
// may differ from rank to rank (locations, weights) and from call to call
// (dynamic sizes) is not in it.
//
// RUN: fusion-opt %s --tandem-fuse='max-tokens=64' -o %t.once
// RUN: FileCheck %s < %t.once
// RUN: fusion-opt %t.once --tandem-fuse='max-tokens=64' -o %t.twice
// RUN: cmp %t.once %t.twice
// The same graph at other lines, with another epsilon in no chain.
// RUN: sed -e 's/^module/\n\n&/' -e 's/@f/@g/' %s > %t.moved.mlir
// RUN: fusion-opt %t.moved.mlir --tandem-fuse='max-tokens=64' | grep tandem.signature > %t.a
// RUN: grep tandem.signature %t.once > %t.b
// RUN: cmp %t.a %t.b

// CHECK: module attributes {tandem.signature = [
// CHECK-SAME: "all_reduce_max group=world type=?x8xf32",
// CHECK-SAME: "all_reduce_rms_norm_add_rms_norm group=tp type=?x8xbf16 guard=tokens <= 64",
// CHECK-SAME: "all_reduce_add_rms_norm group=tp type=4x8xf16 guard=none",
// CHECK-SAME: "all_reduce_rms_norm group=world type=?x8xf32 guard=tokens <= 64",
// CHECK-SAME: "all_reduce_sum group=world type=i64"]}
module {
  func.func @f(%x: tensor<?x8xf32>, %r: tensor<?x8xbf16>, %z: tensor<4x8xf16>, %n: tensor<i64>, %g: tensor<8xbf16>, %h: tensor<8xf16>) -> (tensor<?x8xf32>, tensor<?x8xbf16>, tensor<4x8xf16>, tensor<?x8xf32>, tensor<i64>) {
    %m = tandem.all_reduce %x {reduction = #tandem<reduction max>} : tensor<?x8xf32>
    %s = tandem.all_reduce %r {group = #tandem.group<"tp", size = 2>} : tensor<?x8xbf16>
    %p = tandem.rms_norm %s, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xbf16>, tensor<8xbf16>
    %a = tandem.add %p, %r : tensor<?x8xbf16>
    %y = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xbf16>, tensor<8xbf16>
    %t = tandem.all_reduce %z {group = #tandem.group<"tp", size = 2>} : tensor<4x8xf16>
    %b = tandem.add %t, %z : tensor<4x8xf16>
    %u = tandem.rms_norm %b, %h {epsilon = 1.0e-5 : f64} : tensor<4x8xf16>, tensor<8xf16>
    %v = tandem.all_reduce %x : tensor<?x8xf32>
    %w = tandem.rms_norm %v, %h {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf16>
    %k = tandem.all_reduce %n : tensor<i64>
    return %m, %y, %u, %w, %k : tensor<?x8xf32>, tensor<?x8xbf16>, tensor<4x8xf16>, tensor<?x8xf32>, tensor<i64>
  }
}
