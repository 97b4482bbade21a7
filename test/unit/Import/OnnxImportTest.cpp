//===- OnnxImportTest.cpp - Tests of the importer's interface ---------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Import/OnnxImport.h"

#include "tandem_onnx/onnx.pb.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::tandem;

namespace {

tandem_onnx::ModelProto makeModel() {
  tandem_onnx::ModelProto model;
  model.set_ir_version(10);
  auto *opset = model.add_opset_import();
  opset->set_version(20);
  auto *node = model.mutable_graph()->add_node();
  node->set_op_type("Neg");
  node->add_input("x");
  node->add_output("y");
  model.mutable_graph()->add_input()->set_name("x");
  model.mutable_graph()->add_output()->set_name("y");
  return model;
}

OwningOpRef<ModuleOp> import(const tandem_onnx::ModelProto &model,
                             MLIRContext &context) {
  return importOnnxBuffer(llvm::MemoryBuffer::getMemBufferCopy(
                              model.SerializeAsString(), "memory.onnx"),
                          &context);
}

/// Two importers of dialects of their own: a host's onnx dialect is used.
class HostOnnxDialect : public Dialect {
public:
  explicit HostOnnxDialect(MLIRContext *context)
      : Dialect(getDialectNamespace(), context,
                TypeID::get<HostOnnxDialect>()) {
    allowUnknownOperations();
  }
  static constexpr StringLiteral getDialectNamespace() { return "onnx"; }
};

TEST(OnnxImport, FromMemory) {
  MLIRContext context;
  OwningOpRef<ModuleOp> module = import(makeModel(), context);
  ASSERT_TRUE(module);
  EXPECT_TRUE(succeeded(verify(*module)));
}

TEST(OnnxImport, HostWithAnOnnxDialect) {
  MLIRContext context;
  context.loadDialect<HostOnnxDialect>();
  EXPECT_TRUE(import(makeModel(), context));
}

TEST(OnnxImport, TwoModelsInOneContext) {
  MLIRContext context;
  tandem_onnx::ModelProto model = makeModel();
  auto *tensor = model.mutable_graph()->add_initializer();
  tensor->set_name("w");
  tensor->set_data_type(tandem_onnx::TensorProto::INT8);
  tensor->add_dims(200);
  for (int i = 0; i != 200; ++i)
    tensor->mutable_raw_data()->push_back(static_cast<char>(i));
  OwningOpRef<ModuleOp> first = import(model, context);
  OwningOpRef<ModuleOp> second = import(model, context);
  ASSERT_TRUE(first && second);
  std::string text;
  llvm::raw_string_ostream os(text);
  second->print(os);
  EXPECT_NE(text.find("dense_resource<w_1>"), std::string::npos);
}

TEST(OnnxImport, DiagnosticsAreOneLine) {
  MLIRContext context;
  std::string text;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    llvm::raw_string_ostream os(text);
    printOnnxDiagnostic(diagnostic, os);
    return success();
  });
  tandem_onnx::ModelProto model = makeModel();
  model.mutable_graph()->mutable_node(0)->set_input(0, "a\nb\x1b");
  EXPECT_FALSE(import(model, context));
  EXPECT_EQ(text,
            "memory.onnx:1:1: error: node #0 (Neg): input 0 'a\\x0Ab\\x1B' "
            "is not defined anywhere\n");
}

TEST(OnnxImport, FileNames) {
  EXPECT_TRUE(isOnnxFileName("a/b.onnx"));
  EXPECT_FALSE(isOnnxFileName("a.onnx/b.mlir"));
  EXPECT_FALSE(isOnnxFileName("-"));
}

} // namespace
