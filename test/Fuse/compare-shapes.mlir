// An ONNX Add broadcasts. Where the residual's shape is proven to be the sum's
// nothing is compared; where it may differ, the guard compares the dims, and
// the other branch keeps the Add. Where it does differ, nothing is fused.
//
// RUN: fusion-opt %s --tandem-fuse-pipeline -o %t.once
// RUN: FileCheck %s < %t.once
// RUN: fusion-opt %t.once --tandem-fuse-pipeline -o %t.twice
// RUN: cmp %t.once %t.twice

// CHECK-LABEL: func.func @proven_by_names(
// CHECK-COUNT-2: arith.cmpi
// CHECK-NOT: arith.cmpi
// CHECK: tandem.guard = "tokens <= token_limit"
// CHECK: return
func.func @proven_by_names(%x: tensor<?x?x8xf32> {onnx.dim_params = "0:batch,1:seq"}, %r: tensor<?x?x8xf32> {onnx.dim_params = "0:batch,1:seq"}, %g: tensor<8xf32>) -> tensor<?x?x8xf32> {
  %s = "onnx.Custom"(%x) {domain_name = "com.microsoft", function_name = "AllReduce"} : (tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
  %a = "onnx.Add"(%r, %s) : (tensor<?x?x8xf32>, tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
  %y = "onnx.RMSNormalization"(%a, %g) {axis = -1 : si64, epsilon = 1.0e-5 : f32} : (tensor<?x?x8xf32>, tensor<8xf32>) -> tensor<?x?x8xf32>
  return %y : tensor<?x?x8xf32>
}

// The exporters' Shape, Gather, Concat, Reshape chain takes the residual's
// shape apart and gives it to the sum.
// CHECK-LABEL: func.func @proven_by_reshape(
// CHECK-COUNT-2: arith.cmpi
// CHECK-NOT: arith.cmpi
// CHECK: tandem.guard = "tokens <= token_limit"
// CHECK: return
func.func @proven_by_reshape(%x: tensor<?x8xf32>, %r: tensor<?x?x8xf32>, %g: tensor<8xf32>) -> tensor<?x?x8xf32> {
  %i0 = "onnx.Constant"() {value = dense<[0]> : tensor<1xi64>} : () -> tensor<1xi64>
  %i1 = "onnx.Constant"() {value = dense<[1]> : tensor<1xi64>} : () -> tensor<1xi64>
  %m1 = "onnx.Constant"() {value = dense<[-1]> : tensor<1xi64>} : () -> tensor<1xi64>
  %dims = "onnx.Shape"(%r) : (tensor<?x?x8xf32>) -> tensor<3xi64>
  %b = "onnx.Gather"(%dims, %i0) {axis = 0 : si64} : (tensor<3xi64>, tensor<1xi64>) -> tensor<1xi64>
  %n = "onnx.Gather"(%dims, %i1) {axis = 0 : si64} : (tensor<3xi64>, tensor<1xi64>) -> tensor<1xi64>
  %h = "onnx.Constant"() {value = dense<[8]> : tensor<1xi64>} : () -> tensor<1xi64>
  %shape = "onnx.Concat"(%b, %n, %h) {axis = 0 : si64} : (tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<3xi64>
  %s = "onnx.Custom"(%x) {domain_name = "com.microsoft", function_name = "AllReduce"} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %v = "onnx.Reshape"(%s, %shape) {allowzero = 1 : si64} : (tensor<?x8xf32>, tensor<3xi64>) -> tensor<?x?x8xf32>
  %a = "onnx.Add"(%r, %v) : (tensor<?x?x8xf32>, tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
  %y = "onnx.RMSNormalization"(%a, %g) {axis = -1 : si64, epsilon = 1.0e-5 : f32} : (tensor<?x?x8xf32>, tensor<8xf32>) -> tensor<?x?x8xf32>
  return %y : tensor<?x?x8xf32>
}

// The same without allowzero: a 0 in the shape then means the operand's dim at
// that place, so the dims are equal only where none is 0.
// CHECK-LABEL: func.func @zero_copies_dim(
// CHECK-COUNT-2: arith.cmpi eq
// CHECK: tandem.guard = "tokens <= token_limit and the residual has the sum's shape"
// CHECK: return
func.func @zero_copies_dim(%x: tensor<?x8xf32>, %r: tensor<?x?x8xf32>, %g: tensor<8xf32>) -> tensor<?x?x8xf32> {
  %i0 = "onnx.Constant"() {value = dense<[0]> : tensor<1xi64>} : () -> tensor<1xi64>
  %i1 = "onnx.Constant"() {value = dense<[1]> : tensor<1xi64>} : () -> tensor<1xi64>
  %m1 = "onnx.Constant"() {value = dense<[-1]> : tensor<1xi64>} : () -> tensor<1xi64>
  %dims = "onnx.Shape"(%r) : (tensor<?x?x8xf32>) -> tensor<3xi64>
  %b = "onnx.Gather"(%dims, %i0) {axis = 0 : si64} : (tensor<3xi64>, tensor<1xi64>) -> tensor<1xi64>
  %n = "onnx.Gather"(%dims, %i1) {axis = 0 : si64} : (tensor<3xi64>, tensor<1xi64>) -> tensor<1xi64>
  %h = "onnx.Constant"() {value = dense<[8]> : tensor<1xi64>} : () -> tensor<1xi64>
  %shape = "onnx.Concat"(%b, %n, %h) {axis = 0 : si64} : (tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<3xi64>
  %s = "onnx.Custom"(%x) {domain_name = "com.microsoft", function_name = "AllReduce"} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %v = "onnx.Reshape"(%s, %shape) : (tensor<?x8xf32>, tensor<3xi64>) -> tensor<?x?x8xf32>
  %a = "onnx.Add"(%r, %v) : (tensor<?x?x8xf32>, tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
  %y = "onnx.RMSNormalization"(%a, %g) {axis = -1 : si64, epsilon = 1.0e-5 : f32} : (tensor<?x?x8xf32>, tensor<8xf32>) -> tensor<?x?x8xf32>
  return %y : tensor<?x?x8xf32>
}

// Each all-reduce has dim names of its own, as TorchScript's exporter leaves
// them. Only the dims that are not static are compared.
// CHECK-LABEL: func.func @compared(
// CHECK-SAME: %[[X:[^:]*]]: tensor<?x3x?x8xf32> {{.*}}, %[[R:[^:]*]]: tensor<?x3x?x8xf32>
// CHECK: %[[RANGE:.*]] = arith.andi
// CHECK: %[[X0:.*]] = tensor.dim %[[X]], %c0{{[_0-9]*}} :
// CHECK: %[[R0:.*]] = tensor.dim %[[R]], %c0{{[_0-9]*}} :
// CHECK: %[[EQ0:.*]] = arith.cmpi eq, %[[X0]], %[[R0]] : index
// CHECK: %[[A0:.*]] = arith.andi %[[RANGE]], %[[EQ0]] : i1
// CHECK: %[[X2:.*]] = tensor.dim %[[X]], %c2{{[_0-9]*}} :
// CHECK: %[[R2:.*]] = tensor.dim %[[R]], %c2{{[_0-9]*}} :
// CHECK: %[[EQ2:.*]] = arith.cmpi eq, %[[X2]], %[[R2]] : index
// CHECK: %[[A2:.*]] = arith.andi %[[A0]], %[[EQ2]] : i1
// CHECK: scf.if %[[A2]]
// CHECK: tandem.fused_all_reduce_norm %[[X]] residual(%[[R]] :
// CHECK-SAME: tandem.guard = "tokens <= token_limit and the residual has the sum's shape"
// CHECK: } else {
// CHECK: %[[S:.*]] = tandem.all_reduce %[[X]] {fallback}
// CHECK: "onnx.Add"(%[[R]], %[[S]])
// CHECK: return
func.func @compared(%x: tensor<?x3x?x8xf32> {onnx.dim_params = "0:a,2:b"}, %r: tensor<?x3x?x8xf32> {onnx.dim_params = "0:c,2:d"}, %g: tensor<8xf32>) -> tensor<?x3x?x8xf32> {
  %s = "onnx.Custom"(%x) {domain_name = "com.microsoft", function_name = "AllReduce"} : (tensor<?x3x?x8xf32>) -> tensor<?x3x?x8xf32>
  %a = "onnx.Add"(%r, %s) : (tensor<?x3x?x8xf32>, tensor<?x3x?x8xf32>) -> tensor<?x3x?x8xf32>
  %y = "onnx.RMSNormalization"(%a, %g) {axis = -1 : si64, epsilon = 1.0e-5 : f32} : (tensor<?x3x?x8xf32>, tensor<8xf32>) -> tensor<?x3x?x8xf32>
  return %y : tensor<?x3x?x8xf32>
}

// One of the two has a static dim; the chain's type takes it over where the
// Add's result has it.
// CHECK-LABEL: func.func @static_and_dynamic(
// CHECK: arith.cmpi eq
// CHECK: tensor.cast %{{.*}} : tensor<?x8xf32> to tensor<4x8xf32>
// CHECK: tandem.fused_all_reduce_norm {{.*}} : tensor<4x8xf32> -> tensor<4x8xf32>
func.func @static_and_dynamic(%x: tensor<?x8xf32>, %r: tensor<4x8xf32>, %g: tensor<8xf32>) -> tensor<4x8xf32> {
  %s = "onnx.Custom"(%x) {domain_name = "com.microsoft", function_name = "AllReduce"} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %a = "onnx.Add"(%s, %r) : (tensor<?x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = "onnx.RMSNormalization"(%a, %g) {axis = -1 : si64, epsilon = 1.0e-5 : f32} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// Both static and different, so it broadcasts. Restored as it was.
// CHECK-LABEL: func.func @negative_broadcasts(
// CHECK-NEXT: function_name = "AllReduce"
// CHECK-NEXT: "onnx.Add"
// CHECK-NEXT: "onnx.RMSNormalization"
// CHECK-NEXT: return
func.func @negative_broadcasts(%x: tensor<1x1x8xf32>, %r: tensor<2x3x8xf32>, %g: tensor<8xf32>) -> tensor<2x3x8xf32> {
  %s = "onnx.Custom"(%x) {domain_name = "com.microsoft", function_name = "AllReduce"} : (tensor<1x1x8xf32>) -> tensor<1x1x8xf32>
  %a = "onnx.Add"(%s, %r) : (tensor<1x1x8xf32>, tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  %y = "onnx.RMSNormalization"(%a, %g) {axis = -1 : si64, epsilon = 1.0e-5 : f32} : (tensor<2x3x8xf32>, tensor<8xf32>) -> tensor<2x3x8xf32>
  return %y : tensor<2x3x8xf32>
}
