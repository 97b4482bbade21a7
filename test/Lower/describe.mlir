// The module's description, and the functions that compute sizes of results.
//
// MLIR's memref.store has a property that its text leaves out.
// UNSUPPORTED: roundtrip
//
// RUN: fusion-opt %s --inline --tandem-materialize-workspaces --tandem-describe -o %t.mlir
// RUN: FileCheck %s < %t.mlir
// RUN: fusion-opt %t.mlir --tandem-set-destinations | FileCheck %s --check-prefix=AFTER
// RUN: %python %S/Inputs/show_info.py %t.mlir | FileCheck %s --check-prefix=INFO

// Both branches say the same of the size, and no collective is needed for it.
// CHECK-LABEL: func.func @guarded(
// CHECK-SAME: llvm.emit_c_interface, llvm.linkage = #llvm.linkage<internal>
// CHECK-LABEL: func.func @guarded_result_shapes(
// CHECK-SAME: %[[X:[^:]*]]: tensor<?x?x8xbf16>
// CHECK-NOT: tandem.workspace
// CHECK-NOT: tandem.stream
// CHECK-SAME: %[[DIMS:[^:]*]]: memref<?xindex>)
// CHECK-SAME: llvm.emit_c_interface
// CHECK-NOT: tandem.all_reduce
// CHECK-NOT: tandem.fused_all_reduce_norm
// CHECK-NOT: tandem.token_limit
// CHECK-NOT: scf.if
// CHECK-DAG: %[[C0:.*]] = arith.constant 0 : index
// CHECK-DAG: %[[C1:.*]] = arith.constant 1 : index
// CHECK-DAG: %[[C2:.*]] = arith.constant 2 : index
// CHECK-DAG: %[[C8:.*]] = arith.constant 8 : index
// CHECK-DAG: %[[D0:.*]] = tensor.dim %[[X]], %[[C0]]
// CHECK-DAG: %[[D1:.*]] = tensor.dim %[[X]], %[[C1]]
// CHECK-DAG: memref.store %[[D0]], %[[DIMS]][%[[C0]]]
// CHECK-DAG: memref.store %[[D1]], %[[DIMS]][%[[C1]]]
// CHECK-DAG: memref.store %[[C8]], %[[DIMS]][%[[C2]]]
// CHECK: return
func.func @guarded(
    %x: tensor<?x?x8xbf16> {onnx.name = "x", onnx.dim_params = "0:batch,1:seq"},
    %g: tensor<8xf32> {bufferization.writable = true}, %n: i64)
    -> (tensor<?x?x8xbf16> {onnx.name = "y", onnx.dim_params = "1:seq"}) {
  %c0 = arith.constant 0 : i64
  %l = tandem.token_limit {hidden = 8 : i64, element_type = bf16}
  %fuse = arith.cmpi sle, %n, %l : i64
  %y = scf.if %fuse -> tensor<?x?x8xbf16> {
    %i0 = arith.constant 0 : index
    %i1 = arith.constant 1 : index
    %d0 = tensor.dim %x, %i0 : tensor<?x?x8xbf16>
    %d1 = tensor.dim %x, %i1 : tensor<?x?x8xbf16>
    %d = tensor.empty(%d0, %d1) : tensor<?x?x8xbf16>
    %f = tandem.fused_all_reduce_norm %x gamma(%g : tensor<8xf32>)
      outs(%d : tensor<?x?x8xbf16>) {epsilon = 1.0e-5 : f64, batch_invariant}
      : tensor<?x?x8xbf16> -> tensor<?x?x8xbf16>
    scf.yield %f : tensor<?x?x8xbf16>
  } else {
    %s = tandem.all_reduce %x {fallback, batch_invariant} : tensor<?x?x8xbf16>
    %m = tandem.rms_norm %s, %g {epsilon = 1.0e-5 : f64} : tensor<?x?x8xbf16>, tensor<8xf32>
    scf.yield %m : tensor<?x?x8xbf16>
  }
  return %y : tensor<?x?x8xbf16>
}

// Guards behind guards don't multiply: each size is looked at once. The second
// group is not asked for anything here.
// CHECK-LABEL: func.func @many_guards_result_shapes(
// CHECK-NOT: scf.if
// CHECK: %[[D0:.*]] = tensor.dim %{{.*}}, %c0
// CHECK-NEXT: memref.store %[[D0]]
// CHECK-NOT: tensor.dim
// CHECK: return
func.func @many_guards(%x: tensor<?x8xf32>, %g: tensor<8xf32>, %c: i1) -> tensor<?x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c30 = arith.constant 30 : index
  %y1 = func.call @guard(%x, %g, %c) : (tensor<?x8xf32>, tensor<8xf32>, i1) -> tensor<?x8xf32>
  %y2 = func.call @guard(%y1, %g, %c) : (tensor<?x8xf32>, tensor<8xf32>, i1) -> tensor<?x8xf32>
  %y3 = func.call @guard(%y2, %g, %c) : (tensor<?x8xf32>, tensor<8xf32>, i1) -> tensor<?x8xf32>
  %y4 = func.call @guard(%y3, %g, %c) : (tensor<?x8xf32>, tensor<8xf32>, i1) -> tensor<?x8xf32>
  %y5 = func.call @guard(%y4, %g, %c) : (tensor<?x8xf32>, tensor<8xf32>, i1) -> tensor<?x8xf32>
  %y6 = func.call @guard(%y5, %g, %c) : (tensor<?x8xf32>, tensor<8xf32>, i1) -> tensor<?x8xf32>
  return %y6 : tensor<?x8xf32>
}
func.func private @guard(%x: tensor<?x8xf32>, %g: tensor<8xf32>, %c: i1) -> tensor<?x8xf32> {
  %y = scf.if %c -> tensor<?x8xf32> {
    %c0 = arith.constant 0 : index
    %n = tensor.dim %x, %c0 : tensor<?x8xf32>
    %d = tensor.empty(%n) : tensor<?x8xf32>
    %f = tandem.fused_all_reduce_norm %x gamma(%g : tensor<8xf32>)
      outs(%d : tensor<?x8xf32>) {epsilon = 1.0e-5 : f64} : tensor<?x8xf32> -> tensor<?x8xf32>
    scf.yield %f : tensor<?x8xf32>
  } else {
    %s = tandem.all_reduce %x {fallback} : tensor<?x8xf32>
    scf.yield %s : tensor<?x8xf32>
  }
  return %y : tensor<?x8xf32>
}

// Branches that don't agree: the condition decides.
// CHECK-LABEL: func.func @two_sizes_result_shapes(
// CHECK-DAG: %[[X:.*]] = tensor.dim %arg0
// CHECK-DAG: %[[Z:.*]] = tensor.dim %arg1
// CHECK: %[[ZZ:.*]] = affine.apply {{.*}}[%[[Z]]]
// CHECK: %[[N:.*]] = arith.select %arg2, %[[X]], %[[ZZ]]
// CHECK: memref.store %[[N]]
func.func @two_sizes(%x: tensor<?x8xf32>, %z: tensor<?x8xf32>, %c: i1) -> tensor<?x8xf32> {
  %y = scf.if %c -> tensor<?x8xf32> {
    %s = tandem.all_reduce %x : tensor<?x8xf32>
    scf.yield %s : tensor<?x8xf32>
  } else {
    %t = tensor.concat dim(0) %z, %z : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
    scf.yield %t : tensor<?x8xf32>
  }
  return %y : tensor<?x8xf32>
}

// What a loop carries keeps its size, as far as that can be seen.
// CHECK-LABEL: func.func @loop_result_shapes(
// CHECK-NOT: scf.for
// CHECK: tensor.dim %arg0
// CHECK-NOT: scf.for
// CHECK: return
// CHECK-LABEL: func.func @growing(
// One that changes it counts along.
// CHECK-LABEL: func.func @growing_result_shapes(
// CHECK: %[[D:.*]] = tensor.dim %arg0
// CHECK: %[[R:.*]] = scf.for {{.*}} iter_args(%[[N:.*]] = %[[D]]) -> (index)
// CHECK-NEXT: %[[NN:.*]] = affine.apply #{{.*}}(%[[N]])
// CHECK-NEXT: scf.yield %[[NN]] : index
// CHECK: memref.store %[[R]]
func.func @loop(%x: tensor<?x8xf32>, %n: index) -> tensor<?x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%a = %x) -> tensor<?x8xf32> {
    %s = tandem.all_reduce %a : tensor<?x8xf32>
    scf.yield %s : tensor<?x8xf32>
  }
  return %r : tensor<?x8xf32>
}
func.func @growing(%x: tensor<?x8xf32>, %n: index) -> tensor<?x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%a = %x) -> tensor<?x8xf32> {
    %t = tensor.concat dim(0) %a, %a : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
    scf.yield %t : tensor<?x8xf32>
  }
  return %r : tensor<?x8xf32>
}

// Two values change places, and collectives lie in between. Both have the size of
// one of the arguments in the end.
// CHECK-LABEL: func.func @swap_result_shapes(
// CHECK-DAG: %[[X:.*]] = tensor.dim %arg0
// CHECK-DAG: %[[Y:.*]] = tensor.dim %arg1
// CHECK: %[[R:.*]]:2 = scf.for {{.*}} iter_args(%[[A:.*]] = %[[X]], %[[B:.*]] = %[[Y]]) -> (index, index)
// CHECK-NEXT: scf.yield %[[B]], %[[A]]
// CHECK-NOT: tandem.all_reduce
// CHECK: memref.store %[[R]]#0
func.func @swap(%x: tensor<?x8xf32>, %y: tensor<?x8xf32>, %n: index) -> tensor<?x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%a = %x, %b = %y) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
    %s = tandem.all_reduce %a : tensor<?x8xf32>
    %t = tandem.all_reduce %b : tensor<?x8xf32>
    scf.yield %t, %s : tensor<?x8xf32>, tensor<?x8xf32>
  }
  return %r#0 : tensor<?x8xf32>
}

// Of two tensors one is chosen, and its size with it.
// CHECK-LABEL: func.func @chosen_result_shapes(
// CHECK-DAG: %[[X:.*]] = tensor.dim %arg0
// CHECK-DAG: %[[Y:.*]] = tensor.dim %arg1
// CHECK-NOT: tandem.all_reduce
// CHECK: %[[R:.*]] = arith.select %arg2, %[[X]], %[[Y]] : index
// CHECK: memref.store %[[R]]
func.func @chosen(%x: tensor<?x8xf32>, %y: tensor<?x8xf32>, %c: i1) -> tensor<?x8xf32> {
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %t = tandem.all_reduce %y : tensor<?x8xf32>
  %r = arith.select %c, %s, %t : tensor<?x8xf32>
  return %r : tensor<?x8xf32>
}

// A check of what the sizes are made of is made where they are asked for, too;
// one of what a collective brings is not.
// CHECK-LABEL: func.func @checked(
// CHECK-LABEL: func.func @checked_result_shapes(
// CHECK: cf.assert %{{.*}}, "rows differ"
// CHECK-NOT: cf.assert
// CHECK: return
func.func @checked(%x: tensor<?x8xf32>, %y: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x8xf32>
  %m = tensor.dim %y, %c0 : tensor<?x8xf32>
  %same = arith.cmpi eq, %n, %m : index
  cf.assert %same, "rows differ"
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %f = tensor.extract %s[%c0, %c0] : tensor<?x8xf32>
  %zero = arith.constant 0.0 : f32
  %few = arith.cmpf ole, %f, %zero : f32
  cf.assert %few, "too much"
  return %s : tensor<?x8xf32>
}

// A size that only a collective tells.
// CHECK-LABEL: func.func @unknown(
// CHECK-NOT: @unknown_result_shapes
func.func @unknown(%x: tensor<4x16xf32>, %sizes: tensor<1xf32>) -> tensor<?x16xf32> {
  %s = tandem.all_reduce %sizes {group = #tandem.group<"tp", size = 2, ranks = [0, 1]>, reduction = #tandem<reduction max>} : tensor<1xf32>
  %c0 = arith.constant 0 : index
  %n = tensor.extract %s[%c0] : tensor<1xf32>
  %i = arith.fptosi %n : f32 to i64
  %d = arith.index_cast %i : i64 to index
  %r = tensor.extract_slice %x[0, 0] [%d, 16] [1, 1] : tensor<4x16xf32> to tensor<?x16xf32>
  return %r : tensor<?x16xf32>
}

// A size that is computed from an argument's values.
// CHECK-LABEL: func.func @from_values_result_shapes(
// CHECK-SAME: %{{[^:]*}}: tensor<4x16xf32> {bufferization.writable = false}, %[[SIZES:[^:]*]]: tensor<1xindex>
// CHECK: %[[N:.*]] = tensor.extract %[[SIZES]]
// CHECK: memref.store %[[N]]
func.func @from_values(%x: tensor<4x16xf32>, %sizes: tensor<1xindex>) -> tensor<?x16xf32> {
  %c0 = arith.constant 0 : index
  %d = tensor.extract %sizes[%c0] : tensor<1xindex>
  %s = tandem.all_reduce %x : tensor<4x16xf32>
  %r = tensor.extract_slice %s[0, 0] [%d, 16] [1, 1] : tensor<4x16xf32> to tensor<?x16xf32>
  return %r : tensor<?x16xf32>
}

// No results, no sizes; private functions are nobody else's.
// CHECK-LABEL: func.func @nothing(
// CHECK-NOT: _result_shapes
// AFTER-LABEL: func.func @guarded(
// AFTER-SAME: %{{[^:]*}}: tensor<?x?x8xbf16> {bufferization.writable = false
// AFTER-SAME: %{{[^:]*}}: tensor<8xf32> {bufferization.writable = true}
// AFTER-SAME: %{{[^:]*}}: i64, %{{[^:]*}}: memref<?x?x8xbf16> {onnx.dim_params = "1:seq", onnx.name = "y", tandem.result = 0 : i64},
// AFTER-SAME: %{{[^:]*}}: !tandem.workspace
// AFTER-SAME: %{{[^:]*}}: !tandem.stream)
func.func @nothing() {
  return
}
func.func private @private(%x: tensor<?xf32>) -> tensor<?xf32> {
  return %x : tensor<?xf32>
}

// INFO: version 1 abi 65537
// INFO-NEXT: function guarded symbol=_mlir_ciface_guarded shapes=_mlir_ciface_guarded_result_shapes stream=True
// INFO-NEXT:   argument x bf16 [None, None, 8] ['batch', 'seq', None] writable=False
// INFO-NEXT:   argument arg1 f32 [8] [None] writable=True
// INFO-NEXT:   argument arg2 i64 None None writable=False
// INFO-NEXT:   result y bf16 [None, None, 8] [None, 'seq', None]
// INFO-NEXT:   group world size=0 ranks=[] hidden=8 dtypes=['bf16'] reductions=['sum'] fused=True batch_invariant=True
// INFO-NEXT: function many_guards
// INFO: function two_sizes
// INFO: function loop symbol=_mlir_ciface_loop shapes=_mlir_ciface_loop_result_shapes
// INFO: function growing symbol=_mlir_ciface_growing shapes=_mlir_ciface_growing_result_shapes
// INFO: function unknown symbol=_mlir_ciface_unknown shapes=None stream=True
// INFO-NEXT:   argument arg0 f32 [4, 16] [None, None] writable=False
// INFO-NEXT:   argument arg1 f32 [1] [None] writable=False
// INFO-NEXT:   result result0 f32 [None, 16] [None, None]
// INFO-NEXT:   group tp size=2 ranks=[0, 1] hidden=1 dtypes=['f32'] reductions=['max'] fused=False batch_invariant=False
// INFO-NEXT: function from_values
// INFO: function nothing symbol=_mlir_ciface_nothing shapes=None stream=False
// INFO-NOT: function
