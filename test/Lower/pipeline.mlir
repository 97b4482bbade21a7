// The whole way, with both forms of the guard and low-precision arithmetic.
//
// MLIR's llvm.func reads back with a property that it did not have.
// UNSUPPORTED: roundtrip
//
// RUN: fusion-opt %s --tandem-fuse --tandem-lower-pipeline -o %t.mlir
// RUN: FileCheck %s < %t.mlir
// RUN: fusion-opt %s --tandem-fuse=guard=function --tandem-lower-pipeline | FileCheck %s

// Nothing but the LLVM dialect is left, and nothing but the runtime, the
// allocator and libm has to be linked.
// CHECK-NOT: {{= |^ *}}{{"?(func|scf|arith|math|memref|tensor|linalg|bufferization|builtin|tandem|cf)}}.
// CHECK: llvm.mlir.global external constant @tandem_module_info
// CHECK: llvm.func @tandem_token_limit(!llvm.ptr, i64, i32) -> i64
// The function itself is internal: `main` means something else to a linker.
// CHECK: llvm.func internal @main(
// CHECK: llvm.call @tandem_fused_all_reduce_norm
// CHECK: llvm.call @tandem_all_reduce
// CHECK: llvm.call @tandem_add_rms_norm
// CHECK: llvm.return %{{.*}} : i32
// CHECK: llvm.func @_mlir_ciface_main(
// CHECK: llvm.func internal @main_result_shapes(
// CHECK: llvm.func @_mlir_ciface_main_result_shapes(
func.func @main(%x: tensor<?x8xbf16>, %h: tensor<?x8xbf16>, %g: tensor<8xbf16>)
    -> (tensor<?x8xbf16>, tensor<?x8xbf16>) {
  %s = tandem.all_reduce %x : tensor<?x8xbf16>
  %r = tandem.add %s, %h : tensor<?x8xbf16>
  %y = tandem.rms_norm %r, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xbf16>, tensor<8xbf16>
  %c0 = arith.constant 0 : index
  %n = tensor.dim %y, %c0 : tensor<?x8xbf16>
  %d = tensor.empty(%n) : tensor<?x8xbf16>
  %z = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
                       iterator_types = ["parallel", "parallel"]}
      ins(%y : tensor<?x8xbf16>) outs(%d : tensor<?x8xbf16>) {
  ^bb0(%a: bf16, %o: bf16):
    %e = math.exp %a : bf16
    %f = math.erf %e : bf16
    %m = arith.mulf %a, %f : bf16
    linalg.yield %m : bf16
  } -> tensor<?x8xbf16>
  return %z, %r : tensor<?x8xbf16>, tensor<?x8xbf16>
}
