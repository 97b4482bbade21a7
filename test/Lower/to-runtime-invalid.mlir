// RUN: fusion-opt %s --tandem-to-runtime -split-input-file -verify-diagnostics

func.func @tensors(%x: tensor<8xf32>, %w: !tandem.workspace) {
  // expected-error@below {{'tandem.all_reduce' op is not on buffers: run one-shot-bufferize first}}
  %s = tandem.all_reduce %x workspace %w : tensor<8xf32>
  return
}

// -----

func.func @launch_on_tensors(%x: tensor<8xf32>, %w: !tandem.workspace) {
  // expected-error@below {{is not on buffers: run one-shot-bufferize first}}
  %s = tandem.launch all_reduce %x workspace %w outs(%x : tensor<8xf32>) : tensor<8xf32> -> tensor<8xf32>
  return
}

// -----

func.func @no_workspace(%x: memref<8xf32>) {
  // expected-error@below {{'tandem.launch' op has no workspace: run tandem-materialize-workspaces first}}
  %s = tandem.launch all_reduce %x outs(%x : memref<8xf32>) : memref<8xf32> -> i32
  return
}

// -----

func.func @limit_of_nothing() {
  // expected-error@below {{'tandem.token_limit' op has no workspace: run tandem-materialize-workspaces first}}
  %l = tandem.token_limit {hidden = 8 : i64, element_type = f32}
  return
}

// -----

func.func @f64(%x: memref<8xf64>, %w: !tandem.workspace) {
  // expected-error@below {{has element type 'f64'; the runtime knows f32, f16 and bf16 only}}
  %s = tandem.launch all_reduce %x workspace %w outs(%x : memref<8xf64>) : memref<8xf64> -> i32
  return
}

// -----

func.func @average(%x: memref<8xf32>, %w: !tandem.workspace) {
  // expected-error@below {{the runtime has no reduction average}}
  %s = tandem.launch all_reduce %x workspace %w outs(%x : memref<8xf32>) {reduction = #tandem<reduction average>} : memref<8xf32> -> i32
  return
}

// -----

// The runtime steps over whole elements only.
func.func @elements_apart(%x: memref<4x8xf32, strided<[16, 2]>>, %y: memref<4x8xf32>, %w: !tandem.workspace) {
  // expected-error@below {{input has type 'memref<4x8xf32, strided<[16, 2]>>', whose rows are not known to be contiguous and evenly spaced}}
  %s = tandem.launch all_reduce %x workspace %w outs(%y : memref<4x8xf32>) : memref<4x8xf32, strided<[16, 2]>> -> i32
  return
}

// -----

// Two strides can't be passed, and one that isn't known may be another one.
func.func @two_strides(%x: memref<3x4x8xf32>, %y: memref<3x4x8xf32, strided<[?, 8, 1]>>, %w: !tandem.workspace) {
  // expected-error@below {{destination has type 'memref<3x4x8xf32, strided<[?, 8, 1]>>'}}
  %s = tandem.launch all_reduce %x workspace %w outs(%y : memref<3x4x8xf32, strided<[?, 8, 1]>>) : memref<3x4x8xf32> -> i32
  return
}

// -----

func.func @gamma_apart(%x: memref<4x8xf32>, %g: memref<8xf32, strided<[2]>>) {
  // expected-error@below {{gamma has type 'memref<8xf32, strided<[2]>>'}}
  %s = tandem.launch rms_norm %x gamma(%g : memref<8xf32, strided<[2]>>) outs(%x : memref<4x8xf32>) {epsilon = 1.0e-5 : f64} : memref<4x8xf32> -> i32
  return
}

// -----

module attributes {tandem.module_info = "{}"} {
  // expected-error@below {{the name @tandem_module_info is needed for the module's description}}
  func.func private @tandem_module_info()
}

// -----

// Somebody else's function has the name of one of ours.
// expected-error@below {{@tandem_all_reduce is the runtime's, but this is something else}}
func.func private @tandem_all_reduce()
func.func @taken(%x: memref<8xf32>, %w: !tandem.workspace) {
  %s = tandem.launch all_reduce %x workspace %w outs(%x : memref<8xf32>) : memref<8xf32> -> i32
  return
}
