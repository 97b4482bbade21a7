// Two shapes that look equal and need not be: the guard compares them, and the
// other branch keeps the broadcasting Add.
// RUN: fusion-opt %s --tandem-fuse-pipeline --split-input-file | FileCheck %s

// What holds in a branch holds only if it is taken.
// CHECK-LABEL: func.func @branch_refines(
// CHECK: arith.cmpi eq,
// CHECK: scf.if
// CHECK: tandem.guard = "tokens <= token_limit and the residual has the sum's shape"
// CHECK: else
// CHECK: "onnx.Add"
func.func @branch_refines(%c: tensor<i1>, %x: tensor<?x4096xf32>, %r: tensor<1x4096xf32>, %q: tensor<1x4096xf32>, %g: tensor<4096xf32>) -> (tensor<?x4096xf32>, tensor<?x4096xf32>) {
  %rr = "onnx.Relu"(%r) : (tensor<1x4096xf32>) -> tensor<?x4096xf32>
  %z = "onnx.If"(%c) ({
    %one = "onnx.Identity"(%x) : (tensor<?x4096xf32>) -> tensor<1x4096xf32>
    %t = "onnx.Add"(%one, %q) : (tensor<1x4096xf32>, tensor<1x4096xf32>) -> tensor<1x4096xf32>
    %tt = "onnx.Relu"(%t) : (tensor<1x4096xf32>) -> tensor<?x4096xf32>
    %d = "onnx.Add"(%tt, %x) : (tensor<?x4096xf32>, tensor<?x4096xf32>) -> tensor<?x4096xf32>
    "onnx.Yield"(%d) : (tensor<?x4096xf32>) -> ()
  }, {
    "onnx.Yield"(%x) : (tensor<?x4096xf32>) -> ()
  }) : (tensor<i1>) -> tensor<?x4096xf32>
  %s = "onnx.Custom"(%x) {function_name = "AllReduce", domain_name = "com.microsoft"} : (tensor<?x4096xf32>) -> tensor<?x4096xf32>
  %a = "onnx.Add"(%s, %rr) : (tensor<?x4096xf32>, tensor<?x4096xf32>) -> tensor<?x4096xf32>
  %y = "onnx.RMSNormalization"(%a, %g) : (tensor<?x4096xf32>, tensor<4096xf32>) -> tensor<?x4096xf32>
  return %y, %z : tensor<?x4096xf32>, tensor<?x4096xf32>
}

// -----

// A name is one size within its function only.
// CHECK-LABEL: func.func @names_across_functions(
// CHECK: arith.cmpi eq,
// CHECK: scf.if
// CHECK: tandem.guard = "tokens <= token_limit and the residual has the sum's shape"
// CHECK: else
// CHECK: "onnx.Add"
func.func @a(%x: tensor<?x4096xf32> {onnx.dim_params = "0:n"}, %q: tensor<?x4096xf32> {onnx.dim_params = "0:m"}) -> tensor<?x4096xf32> {
  %i = "onnx.Relu"(%x) {tandem.dim_params = ["0:m"]} : (tensor<?x4096xf32>) -> tensor<?x4096xf32>
  %d = "onnx.Add"(%i, %x) : (tensor<?x4096xf32>, tensor<?x4096xf32>) -> tensor<?x4096xf32>
  return %d : tensor<?x4096xf32>
}
func.func @names_across_functions(%x: tensor<?x4096xf32> {onnx.dim_params = "0:n"}, %r: tensor<?x4096xf32> {onnx.dim_params = "0:m"}, %g: tensor<4096xf32>) -> tensor<?x4096xf32> {
  %s = "onnx.Custom"(%x) {function_name = "AllReduce", domain_name = "com.microsoft"} : (tensor<?x4096xf32>) -> tensor<?x4096xf32>
  %a = "onnx.Add"(%s, %r) : (tensor<?x4096xf32>, tensor<?x4096xf32>) -> tensor<?x4096xf32>
  %y = "onnx.RMSNormalization"(%a, %g) : (tensor<?x4096xf32>, tensor<4096xf32>) -> tensor<?x4096xf32>
  return %y : tensor<?x4096xf32>
}

// -----

// A name of another dim says nothing of this one.
// CHECK-LABEL: func.func @names_dim_mismatch(
// CHECK: arith.cmpi eq,
// CHECK: scf.if
// CHECK: tandem.guard = "tokens <= token_limit and the residual has the sum's shape"
// CHECK: else
// CHECK: "onnx.Add"
func.func @names_dim_mismatch(%x: tensor<?x4096xf32>, %r: tensor<?x4096xf32>, %g: tensor<4096xf32>) -> tensor<?x4096xf32> {
  %s = "onnx.Custom"(%x) {function_name = "AllReduce", domain_name = "com.microsoft", tandem.dim_params = ["1:h"]} : (tensor<?x4096xf32>) -> tensor<?x4096xf32>
  %rr = "onnx.Relu"(%r) {tandem.dim_params = ["1:h"]} : (tensor<?x4096xf32>) -> tensor<?x4096xf32>
  %a = "onnx.Add"(%s, %rr) : (tensor<?x4096xf32>, tensor<?x4096xf32>) -> tensor<?x4096xf32>
  %y = "onnx.RMSNormalization"(%a, %g) : (tensor<?x4096xf32>, tensor<4096xf32>) -> tensor<?x4096xf32>
  return %y : tensor<?x4096xf32>
}

// -----

// -1 in a shape is not a size.
// CHECK-LABEL: func.func @expand_minus1(
// CHECK: arith.cmpi eq,
// CHECK: scf.if
// CHECK: tandem.guard = "tokens <= token_limit and the residual has the sum's shape"
// CHECK: else
// CHECK: "onnx.Add"
func.func @expand_minus1(%x0: tensor<?x4096xf32>, %z: tensor<?x4096xf32>, %g: tensor<4096xf32>) -> tensor<?x4096xf32> {
  %c1 = "onnx.Constant"() {value = dense<[-1, 4096]> : tensor<2xi64>} : () -> tensor<2xi64>
  %x = "onnx.Expand"(%x0, %c1) : (tensor<?x4096xf32>, tensor<2xi64>) -> tensor<?x4096xf32>
  %s = "onnx.Custom"(%x) {function_name = "AllReduce", domain_name = "com.microsoft"} : (tensor<?x4096xf32>) -> tensor<?x4096xf32>
  %rr = "onnx.Expand"(%z, %c1) : (tensor<?x4096xf32>, tensor<2xi64>) -> tensor<?x4096xf32>
  %a = "onnx.Add"(%s, %rr) : (tensor<?x4096xf32>, tensor<?x4096xf32>) -> tensor<?x4096xf32>
  %y = "onnx.RMSNormalization"(%a, %g) : (tensor<?x4096xf32>, tensor<4096xf32>) -> tensor<?x4096xf32>
  return %y : tensor<?x4096xf32>
}

// -----

// A size that went through i8 may have changed.
// CHECK-LABEL: func.func @cast_narrow(
// CHECK: arith.cmpi eq,
// CHECK: scf.if
// CHECK: tandem.guard = "tokens <= token_limit and the residual has the sum's shape"
// CHECK: else
// CHECK: "onnx.Add"
func.func @cast_narrow(%x: tensor<?x4096xf32>, %r: tensor<?xf32>, %g: tensor<4096xf32>) -> tensor<?x4096xf32> {
  %h = "onnx.Constant"() {value = dense<4096> : tensor<1xi64>} : () -> tensor<1xi64>
  %n0 = "onnx.Shape"(%x) {start = 0 : si64, end = 1 : si64} : (tensor<?x4096xf32>) -> tensor<1xi64>
  %n8 = "onnx.Cast"(%n0) {to = i8} : (tensor<1xi64>) -> tensor<1xi8>
  %n64 = "onnx.Cast"(%n8) {to = i64} : (tensor<1xi8>) -> tensor<1xi64>
  %c1 = "onnx.Concat"(%n64, %h) {axis = 0 : si64} : (tensor<1xi64>, tensor<1xi64>) -> tensor<2xi64>
  %rr = "onnx.Reshape"(%r, %c1) : (tensor<?xf32>, tensor<2xi64>) -> tensor<?x4096xf32>
  %s = "onnx.Custom"(%x) {function_name = "AllReduce", domain_name = "com.microsoft"} : (tensor<?x4096xf32>) -> tensor<?x4096xf32>
  %a = "onnx.Add"(%s, %rr) : (tensor<?x4096xf32>, tensor<?x4096xf32>) -> tensor<?x4096xf32>
  %y = "onnx.RMSNormalization"(%a, %g) : (tensor<?x4096xf32>, tensor<4096xf32>) -> tensor<?x4096xf32>
  return %y : tensor<?x4096xf32>
}

// -----

// Nothing is divided by what may not be a size.
// CHECK-LABEL: func.func @reshape_sigfpe(
// CHECK: arith.cmpi eq,
// CHECK: scf.if
// CHECK: tandem.guard = "tokens <= token_limit and the residual has the sum's shape"
// CHECK: else
// CHECK: "onnx.Add"
func.func @reshape_sigfpe(%x: tensor<?x4096xf32>, %n: tensor<?x4096xf32>, %g: tensor<4096xf32>) -> tensor<?x4096xf32> {
  %min = "onnx.Constant"() {value = dense<-9223372036854775808> : tensor<1xi64>} : () -> tensor<1xi64>
  %neg = "onnx.Constant"() {value = dense<-1> : tensor<1xi64>} : () -> tensor<1xi64>
  %n0 = "onnx.Shape"(%n) {start = 0 : si64, end = 1 : si64} : (tensor<?x4096xf32>) -> tensor<1xi64>
  %c0 = "onnx.Concat"(%min, %n0) {axis = 0 : si64} : (tensor<1xi64>, tensor<1xi64>) -> tensor<2xi64>
  %big = "onnx.ConstantOfShape"(%c0) : (tensor<2xi64>) -> tensor<?x?xf32>
  %nn = "onnx.Mul"(%n0, %neg) : (tensor<1xi64>, tensor<1xi64>) -> tensor<1xi64>
  %c1 = "onnx.Concat"(%neg, %nn) {axis = 0 : si64} : (tensor<1xi64>, tensor<1xi64>) -> tensor<2xi64>
  %rr = "onnx.Reshape"(%big, %c1) : (tensor<?x?xf32>, tensor<2xi64>) -> tensor<?x4096xf32>
  %s = "onnx.Custom"(%x) {function_name = "AllReduce", domain_name = "com.microsoft"} : (tensor<?x4096xf32>) -> tensor<?x4096xf32>
  %a = "onnx.Add"(%s, %rr) : (tensor<?x4096xf32>, tensor<?x4096xf32>) -> tensor<?x4096xf32>
  %y = "onnx.RMSNormalization"(%a, %g) : (tensor<?x4096xf32>, tensor<4096xf32>) -> tensor<?x4096xf32>
  return %y : tensor<?x4096xf32>
}
