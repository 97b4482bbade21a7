// Names with control characters, and of a dim with what begins and ends comments.
func.func @main(
    %x: tensor<?x4xf32> {onnx.name = "x\0A\1B[31m\C2\9By",
                         onnx.dim_params = "0:n\0A/*/"})
    -> (tensor<?x4xf32> {onnx.name = "z\0A\1B"}) {
  return %x : tensor<?x4xf32>
}
