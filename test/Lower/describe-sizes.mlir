// Why the sizes of results can't be known.
//
// MLIR's memref.store has a property that its text leaves out.
// UNSUPPORTED: roundtrip
//
// RUN: fusion-opt %s --tandem-materialize-workspaces --tandem-describe -split-input-file -verify-diagnostics

func.func @data(%x: tensor<?x4xf32>, %n: index) -> tensor<?x4xf32> {
  %c0 = arith.constant 0 : index
  %r = scf.while (%a = %x) : (tensor<?x4xf32>) -> tensor<?x4xf32> {
    %d = tensor.dim %a, %c0 : tensor<?x4xf32>
    %c = arith.cmpi slt, %d, %n : index
    scf.condition(%c) %a : tensor<?x4xf32>
  } do {
  ^bb0(%a: tensor<?x4xf32>):
    // expected-warning@below {{the sizes of the results of 'data' can't be known before it runs: they depend on what a collective brings ('tandem.all_reduce'); its callers have to know them}}
    %s = tandem.all_reduce %a : tensor<?x4xf32>
    %e = tensor.extract %s[%c0, %c0] : tensor<?x4xf32>
    %i = arith.fptosi %e : f32 to i64
    %j = arith.index_cast %i : i64 to index
    %t = tensor.empty(%j) : tensor<?x4xf32>
    scf.yield %t : tensor<?x4xf32>
  }
  return %r : tensor<?x4xf32>
}

// -----

// The lowering makes branches of switches, but of very large ones.
func.func @switch(%x: tensor<?x4xf32>, %n: index) -> tensor<?x4xf32> {
  // expected-warning@below {{'switch' can't be known before it runs: they come out of a 'scf.index_switch', through which sizes are not followed}}
  %r = scf.index_switch %n -> tensor<?x4xf32>
  case 1 {
    %a = tandem.all_reduce %x : tensor<?x4xf32>
    scf.yield %a : tensor<?x4xf32>
  }
  default {
    scf.yield %x : tensor<?x4xf32>
  }
  return %r : tensor<?x4xf32>
}

// -----

// expected-warning@below {{'blocks' can't be known before it runs: there are branches between blocks, along which sizes are not followed}}
func.func @blocks(%x: tensor<?x4xf32>, %c: i1) -> tensor<?x4xf32> {
  cf.cond_br %c, ^reduce, ^end(%x : tensor<?x4xf32>)
^reduce:
  %a = tandem.all_reduce %x : tensor<?x4xf32>
  cf.br ^end(%a : tensor<?x4xf32>)
^end(%r: tensor<?x4xf32>):
  return %r : tensor<?x4xf32>
}

// -----

// Static sizes are known whatever comes before.
func.func @static(%x: tensor<3x4xf32>, %c: i1) -> tensor<3x4xf32> {
  cf.cond_br %c, ^reduce, ^end(%x : tensor<3x4xf32>)
^reduce:
  %a = tandem.all_reduce %x : tensor<3x4xf32>
  cf.br ^end(%a : tensor<3x4xf32>)
^end(%r: tensor<3x4xf32>):
  return %r : tensor<3x4xf32>
}
