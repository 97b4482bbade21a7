// A weight that asks for 64 bytes.
module attributes {tandem.onnx = {graph_name = "g", ir_version = 10 : i64, opset_imports = {ai.onnx = 20 : i64}}} {
  func.func @main(%x: tensor<?x8xf32> {onnx.name = "x"}) -> (tensor<?x8xf32> {onnx.name = "y"}) {
    %w = "onnx.Constant"() {tandem.initializer, tandem.outputs = ["w"], value = dense_resource<w> : tensor<8xf32>} : () -> tensor<8xf32>
    %y = "onnx.Add"(%x, %w) {tandem.outputs = ["y"]} : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
    return %y : tensor<?x8xf32>
  }
}

{-#
  dialect_resources: {
    builtin: {
      w: "0x400000000000803F0000004000004040000080400000A0400000C0400000E04000000041"
    }
  }
#-}
