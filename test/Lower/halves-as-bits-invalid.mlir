// RUN: fusion-opt %s --tandem-halves-as-bits -verify-diagnostics

llvm.func @outside() -> !llvm.struct<(f16, f16)>
llvm.func @inside() -> f16 {
  // Who is outside wants halves, and a struct can't be cast.
  // expected-error@below {{'llvm.call' op takes or gives f16 or bf16 inside of a struct, which can't be lowered}}
  %s = llvm.call @outside() : () -> !llvm.struct<(f16, f16)>
  %e = llvm.extractvalue %s[0] : !llvm.struct<(f16, f16)>
  llvm.return %e : f16
}
