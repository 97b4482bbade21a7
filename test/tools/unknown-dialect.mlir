// Only onnx ops are taken unseen: an unknown op of another dialect is a
// mistake, unless mlir-opt's flag allows it.
// RUN: not fusion-opt %s 2>&1 | FileCheck %s --check-prefix=ERROR
// RUN: fusion-opt %s --allow-unregistered-dialect | FileCheck %s

// ERROR: :[[@LINE+2]]:{{[0-9]+}}: error: operation being parsed with an unregistered dialect
// CHECK: "mydialect.op"() : () -> ()
"mydialect.op"() : () -> ()
