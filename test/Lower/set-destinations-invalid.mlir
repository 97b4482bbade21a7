// RUN: fusion-opt %s --tandem-set-destinations -split-input-file -verify-diagnostics

func.func @no_workspace(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error@below {{'tandem.all_reduce' op has no workspace: run tandem-materialize-workspaces first}}
  %s = tandem.all_reduce %x : tensor<8xf32>
  return %s : tensor<8xf32>
}

// -----

func.func @f64(%x: tensor<8xf64>, %w: !tandem.workspace) -> tensor<8xf64> {
  // expected-error@below {{has element type 'f64'; the runtime knows f32, f16 and bf16 only}}
  %s = tandem.all_reduce %x workspace %w : tensor<8xf64>
  return %s : tensor<8xf64>
}

// -----

func.func @integers(%x: tensor<8xi32>, %w: !tandem.workspace) -> tensor<8xi32> {
  // expected-error@below {{has element type 'i32'; the runtime knows f32, f16 and bf16 only}}
  %s = tandem.all_reduce %x workspace %w : tensor<8xi32>
  return %s : tensor<8xi32>
}

// -----

func.func @gamma(%x: tensor<4x8xf32>, %g: tensor<8xf64>) -> tensor<4x8xf32> {
  // expected-error@below {{has element type 'f64'; the runtime knows f32, f16 and bf16 only}}
  %y = tandem.rms_norm %x, %g {epsilon = 1.0e-5 : f64} : tensor<4x8xf32>, tensor<8xf64>
  return %y : tensor<4x8xf32>
}

// -----

func.func @average(%x: tensor<8xf32>, %w: !tandem.workspace) -> tensor<8xf32> {
  // expected-error@below {{the runtime has no reduction average}}
  %s = tandem.all_reduce %x workspace %w {reduction = #tandem<reduction average>} : tensor<8xf32>
  return %s : tensor<8xf32>
}

// -----

func.func @unranked(%x: tensor<*xf32>, %w: !tandem.workspace) {
  // expected-error@below {{tensors without a rank can't be lowered}}
  %s = tandem.all_reduce %x workspace %w : tensor<*xf32>
  return
}

// -----

// expected-error@below {{result #0 has type 'index'; only tensors can be results of a public function}}
func.func @scalar(%i: index) -> index {
  return %i : index
}

// -----

// A size that changes from call to call is only known by what the callee does.
func.func @caller(%x: tensor<?xf32>, %n: i1) -> tensor<?xf32> {
  // expected-error@below {{to a function that can't be inlined: result #0 has type 'tensor<?xf32>', and only static sizes are known here}}
  %y = func.call @recursive(%x, %n) : (tensor<?xf32>, i1) -> tensor<?xf32>
  return %y : tensor<?xf32>
}
func.func private @recursive(%x: tensor<?xf32>, %n: i1) -> tensor<?xf32> {
  return %x : tensor<?xf32>
}
