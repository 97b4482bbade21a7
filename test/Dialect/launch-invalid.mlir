// RUN: fusion-opt %s -split-input-file -verify-diagnostics

func.func @f(%x: memref<4x8xf32>, %g: memref<8xf32>) {
  // expected-error@below {{'tandem.launch' op all_reduce does not take gamma}}
  %s = tandem.launch all_reduce %x gamma(%g : memref<8xf32>) outs(%x : memref<4x8xf32>) : memref<4x8xf32> -> i32
  return
}

// -----

func.func @f(%x: memref<4x8xf32>) {
  // expected-error@below {{all_reduce does not take residual}}
  %s = tandem.launch all_reduce %x residual(%x : memref<4x8xf32>) outs(%x : memref<4x8xf32>) : memref<4x8xf32> -> i32
  return
}

// -----

func.func @f(%x: memref<4x8xf32>, %g: memref<8xf32>) {
  // expected-error@below {{rms_norm does not take fallback}}
  %s = tandem.launch rms_norm %x gamma(%g : memref<8xf32>) outs(%x : memref<4x8xf32>) {epsilon = 1.0e-5 : f64, fallback} : memref<4x8xf32> -> i32
  return
}

// -----

func.func @f(%x: memref<4x8xf32>, %g: memref<8xf32>) {
  // expected-error@below {{add_rms_norm does not take returns_sum}}
  %s = tandem.launch add_rms_norm %x gamma(%g : memref<8xf32>) outs(%x, %x : memref<4x8xf32>, memref<4x8xf32>) {epsilon = 1.0e-5 : f64, returns_sum} : memref<4x8xf32> -> i32
  return
}

// -----

func.func @f(%x: memref<4x8xf32>, %g: memref<8xf32>) {
  // expected-error@below {{rms_norm needs gamma and epsilon}}
  %s = tandem.launch rms_norm %x gamma(%g : memref<8xf32>) outs(%x : memref<4x8xf32>) : memref<4x8xf32> -> i32
  return
}

// -----

func.func @f(%x: memref<4x8xf32>, %g: memref<9xf32>) {
  // expected-error@below {{gamma has length 9, but the last dimension is 8}}
  %s = tandem.launch rms_norm %x gamma(%g : memref<9xf32>) outs(%x : memref<4x8xf32>) {epsilon = 1.0e-5 : f64} : memref<4x8xf32> -> i32
  return
}

// -----

// Tensors and buffers don't mix.
func.func @f(%x: memref<4x8xf32>, %g: tensor<8xf32>) {
  // expected-error@below {{gamma has type 'tensor<8xf32>', which does not fit the input's type 'memref<4x8xf32>'}}
  %s = tandem.launch rms_norm %x gamma(%g : tensor<8xf32>) outs(%x : memref<4x8xf32>) {epsilon = 1.0e-5 : f64} : memref<4x8xf32> -> i32
  return
}

// -----

func.func @f(%x: memref<4x8xf32>, %y: memref<4x8xf16>, %w: !tandem.workspace) {
  // expected-error@below {{destination has type 'memref<4x8xf16>', which does not fit the input's type 'memref<4x8xf32>'}}
  %s = tandem.launch all_reduce %x workspace %w outs(%y : memref<4x8xf16>) : memref<4x8xf32> -> i32
  return
}

// -----

func.func @f(%x: memref<4x8xf32>) {
  // expected-error@below {{needs 1 destinations in outs, got 2}}
  %s = tandem.launch all_reduce %x outs(%x, %x : memref<4x8xf32>, memref<4x8xf32>) : memref<4x8xf32> -> i32
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %d: tensor<?x8xf32>) {
  // expected-error@below {{result has type 'tensor<4x8xf32>', but its destination has 'tensor<?x8xf32>'}}
  %s = tandem.launch all_reduce %x outs(%d : tensor<?x8xf32>) : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// -----

func.func @f(%x: memref<4x8xf32>, %g: memref<8xf32>) {
  // expected-error@below {{epsilon must be finite and not negative, not -1}}
  %s = tandem.launch rms_norm %x gamma(%g : memref<8xf32>) outs(%x : memref<4x8xf32>) {epsilon = -1.0 : f64} : memref<4x8xf32> -> i32
  return
}

// -----

func.func @f(%x: memref<4x8xf32>, %g: memref<8xf32>) {
  // expected-error@below {{returns_residual needs a residual}}
  %s = tandem.launch fused_all_reduce_norm %x gamma(%g : memref<8xf32>) outs(%x, %x : memref<4x8xf32>, memref<4x8xf32>) {epsilon = 1.0e-5 : f64, returns_residual} : memref<4x8xf32> -> i32
  return
}
