func.func @main(%x: tensor<?x8xf32>, %c: tensor<1xf32>) -> tensor<?x8xf32> {
  %c0 = arith.constant 0 : index
  %s = tandem.all_reduce %c : tensor<1xf32>
  %n = tensor.extract %s[%c0] : tensor<1xf32>
  %i = arith.fptosi %n : f32 to i64
  %d = arith.index_cast %i : i64 to index
  %r = tensor.extract_slice %x[0, 0] [%d, 8] [1, 1] : tensor<?x8xf32> to tensor<?x8xf32>
  return %r : tensor<?x8xf32>
}
