// RUN: fusion-opt %s --tandem-materialize-workspaces -split-input-file -verify-diagnostics

// An address can't carry the workspace along.
// expected-note@below {{the function}}
func.func private @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  %s = tandem.all_reduce %x : tensor<8xf32>
  return %s : tensor<8xf32>
}
func.func @address(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error@below {{@f reaches a collective, so it gets workspaces as arguments, which this use of it can't pass; only func.call can}}
  %f = func.constant @f : (tensor<8xf32>) -> tensor<8xf32>
  %s = func.call_indirect %f(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return %s : tensor<8xf32>
}

// -----

// The address of a function that only calls one is no better.
func.func private @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  %s = tandem.all_reduce %x : tensor<8xf32>
  return %s : tensor<8xf32>
}
// expected-note@below {{the function}}
func.func private @g(%x: tensor<8xf32>) -> tensor<8xf32> {
  %s = func.call @f(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return %s : tensor<8xf32>
}
// expected-error@below {{@g reaches a collective}}
func.func private @user() attributes {test.entry = @g}

// -----

// Outside of any function there are no arguments.
%x = tensor.empty() : tensor<8xf32>
// expected-error@below {{'tandem.all_reduce' op is not in a func.func, so it can't get a workspace}}
%s = tandem.all_reduce %x : tensor<8xf32>
