// RUN: fusion-opt %s --tandem-strict-rounding --canonicalize | FileCheck %s
// RUN: fusion-opt %s --canonicalize | FileCheck %s --check-prefix=LOST

// The product is rounded before something is added to it. Without the pass
// folding takes `contract` at its word.
// CHECK: arith.truncf
// CHECK: arith.extf
// LOST-NOT: arith.truncf %{{.*}} : f32 to bf16{{[[:space:]]}}{{.*}}arith.extf
// CHECK: arith.addf
// LOST: arith.addf %{{.*}}, %{{.*}} : f32
func.func @f(%a: f32, %b: f32) -> f32 {
  %m = arith.mulf %a, %b : f32
  %t = arith.truncf %m fastmath<contract> : f32 to bf16
  %e = arith.extf %t fastmath<contract> : bf16 to f32
  %s = arith.addf %e, %b : f32
  return %s : f32
}
