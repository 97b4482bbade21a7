//===- WireScanTest.cpp - Tests of the scan of the wire format ---------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "WireScan.h"
#include "ModelFile.h"
#include "NodeReader.h"

#include "gtest/gtest.h"

using namespace mlir::tandem::onnx;
using tandem_onnx::ModelProto;
using tandem_onnx::TensorProto;

namespace {

/// A model with raw data in an initializer and in attributes of a nested graph
/// and of a function.
ModelProto makeModel(size_t size) {
  ModelProto model;
  model.set_ir_version(10);
  TensorProto *initializer = model.mutable_graph()->add_initializer();
  initializer->set_name("w");
  initializer->set_raw_data(std::string(size, 'a'));
  initializer->add_dims(3);
  auto *node = model.mutable_graph()->add_node();
  node->set_op_type("If");
  node->set_doc_string(std::string(size, 'd'));
  auto *attribute = node->add_attribute();
  attribute->set_name("then_branch");
  attribute->mutable_g()->add_initializer()->set_raw_data(
      std::string(size + 1, 'b'));
  auto *constant = model.add_functions()->add_node();
  constant->add_attribute()->mutable_t()->set_raw_data(
      std::string(size + 2, 'c'));
  constant->set_op_type("Constant");
  model.add_configuration()->set_name("two");
  model.set_producer_name("after");
  return model;
}

TEST(WireScan, ReplacesRawDataEverywhere) {
  // Around sizes where a length grows by a byte, and where the descriptor is
  // larger than the data.
  for (size_t size : {0, 1, 15, 16, 17, 100, 127, 128, 16383, 16384, 100000}) {
    ModelProto model = makeModel(size);
    std::string file = model.SerializeAsString(), skeleton, error;
    KeptRanges kept;
    ASSERT_TRUE(scanModel(file, skeleton, error, &kept)) << error;
    // Functions and what is not read are kept as they are.
    ASSERT_EQ(kept.functions.size(), 1u);
    EXPECT_EQ(file.substr(kept.functions[0].offset, kept.functions[0].size),
              model.functions(0).SerializeAsString());
    ASSERT_EQ(kept.fields.size(), 1u);
    ModelProto fields;
    ASSERT_TRUE(fields.ParseFromString(
        file.substr(kept.fields[0].offset, kept.fields[0].size)));
    EXPECT_EQ(fields.configuration(0).name(), "two");
    ModelProto scanned;
    ASSERT_TRUE(scanned.ParseFromString(skeleton)) << size;

    auto bytesOf = [&](const TensorProto &tensor) {
      std::optional<RawRange> range = decodeRawDescriptor(tensor.raw_data());
      EXPECT_TRUE(range.has_value());
      return range ? file.substr(range->offset, range->size) : std::string();
    };
    const auto &graph = scanned.graph();
    EXPECT_EQ(bytesOf(graph.initializer(0)), std::string(size, 'a'));
    // Nodes of the main graph are apart; all are in the skeleton without
    // `kept`.
    EXPECT_TRUE(graph.node().empty());
    std::string whole;
    ASSERT_TRUE(scanModel(file, whole, error)) << error;
    ModelProto wholeModel;
    ASSERT_TRUE(wholeModel.ParseFromString(whole));
    ASSERT_EQ(kept.nodes.size(), 1u);
    ASSERT_FALSE(kept.nodes[0].isInFile);
    EXPECT_EQ(llvm::StringRef(kept.nodeText)
                  .substr(kept.nodes[0].range.offset, kept.nodes[0].range.size),
              wholeModel.graph().node(0).SerializeAsString());
    const tandem_onnx::NodeProto &ifNode = wholeModel.graph().node(0);
    EXPECT_EQ(bytesOf(ifNode.attribute(0).g().initializer(0)),
              std::string(size + 1, 'b'));
    EXPECT_EQ(bytesOf(scanned.functions(0).node(0).attribute(0).t()),
              std::string(size + 2, 'c'));
    // All else is kept; documentation of nodes is where a descriptor says.
    EXPECT_EQ(graph.initializer(0).dims(0), 3);
    EXPECT_EQ(ifNode.op_type(), "If");
    if (size == 0) {
      // An empty doc_string stays where it is.
      EXPECT_TRUE(ifNode.has_doc_string() && ifNode.doc_string().empty());
      EXPECT_EQ(kept.numEmptyDocStrings, 1u);
      continue;
    }
    EXPECT_EQ(kept.numEmptyDocStrings, 0u);
    std::optional<RawRange> node = decodeRawDescriptor(ifNode.doc_string());
    ASSERT_TRUE(node.has_value());
    tandem_onnx::NodeProto extras, source;
    llvm::StringRef bytes =
        llvm::StringRef(file).substr(node->offset, node->size);
    ASSERT_TRUE(source.ParseFromString(bytes.str()));
    ASSERT_TRUE(extras.ParseFromString(readNodeExtras(bytes)));
    EXPECT_EQ(extras.doc_string(), source.doc_string());
    EXPECT_FALSE(extras.has_op_type());
    EXPECT_EQ(scanned.producer_name(), "after");
    EXPECT_LT(skeleton.size(), 300u);
  }
}

TEST(WireScan, EveryPrefixIsRefusedOrWhole) {
  std::string file = makeModel(40).SerializeAsString(), skeleton, error;
  for (size_t length = 0; length != file.size(); ++length) {
    error.clear();
    llvm::StringRef prefix = llvm::StringRef(file).take_front(length);
    // A cut between two fields of the model leaves a shorter model.
    ModelProto model;
    EXPECT_EQ(scanModel(prefix, skeleton, error),
              model.ParseFromArray(prefix.data(), static_cast<int>(length)))
        << length;
  }
}

TEST(WireScan, DamagedInput) {
  std::string skeleton, error;
  EXPECT_FALSE(scanModel(llvm::StringRef("\x00", 1), skeleton, error));
  EXPECT_NE(error.find("bad field number 0"), std::string::npos);
  EXPECT_FALSE(scanModel("\x0b", skeleton, error));
  EXPECT_NE(error.find("unknown wire type 3"), std::string::npos);
  // A varint of eleven bytes.
  EXPECT_FALSE(scanModel("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
                         skeleton, error));
  EXPECT_NE(error.find("a number is cut off"), std::string::npos);
}

TEST(WireScan, Descriptors) {
  EXPECT_FALSE(decodeRawDescriptor("too short").has_value());
  std::string bytes(16, '\0');
  bytes[0] = 5;
  bytes[8] = 7;
  std::optional<RawRange> range = decodeRawDescriptor(bytes);
  ASSERT_TRUE(range.has_value());
  EXPECT_EQ(range->offset, 5u);
  EXPECT_EQ(range->size, 7u);
}

TEST(ModelFile, RawDataIsNotCopied) {
  std::string bytes = makeModel(1000).SerializeAsString(), error;
  auto buffer = llvm::MemoryBuffer::getMemBuffer(bytes, "m.onnx", false);
  const char *begin = buffer->getBufferStart(), *end = buffer->getBufferEnd();
  std::unique_ptr<ModelFile> file = ModelFile::parse(std::move(buffer), error);
  ASSERT_TRUE(file) << error;
  auto raw = file->rawData(file->model().graph().initializer(0));
  ASSERT_TRUE(raw.has_value());
  EXPECT_EQ(raw->size(), 1000u);
  EXPECT_TRUE(raw->data() >= begin && raw->data() < end);
  EXPECT_FALSE(file->rawData(TensorProto()).has_value());
}

TEST(WireScan, NodesOfTheMainGraphAreApart) {
  ModelProto model;
  auto *plain = model.mutable_graph()->add_node();
  plain->set_op_type("Neg");
  model.mutable_graph()->set_name("g");
  auto *documented = model.mutable_graph()->add_node();
  documented->set_op_type("Abs");
  documented->set_doc_string("text");
  model.mutable_training_info()->Add()->mutable_algorithm()->add_node();
  std::string file = model.SerializeAsString(), skeleton, error;
  KeptRanges kept;
  ASSERT_TRUE(scanModel(file, skeleton, error, &kept)) << error;
  ModelProto scanned;
  ASSERT_TRUE(scanned.ParseFromString(skeleton));
  EXPECT_EQ(scanned.graph().name(), "g");
  EXPECT_TRUE(scanned.graph().node().empty());
  EXPECT_EQ(scanned.training_info(0).algorithm().node_size(), 1);
  ASSERT_EQ(kept.nodes.size(), 2u);
  ASSERT_TRUE(kept.nodes[0].isInFile);
  EXPECT_EQ(file.substr(kept.nodes[0].range.offset, kept.nodes[0].range.size),
            plain->SerializeAsString());
  EXPECT_FALSE(kept.nodes[1].isInFile);
}

TEST(NodeReader, KeepsWhatIsReferredTo) {
  ModelProto model;
  auto *graph = model.mutable_graph();
  auto *constant = graph->add_node();
  constant->set_op_type("Constant");
  auto *tensor = constant->add_attribute()->mutable_t();
  tensor->add_int64_data(42);
  for (int i = 0; i != 3; ++i) {
    auto *node = graph->add_node();
    node->set_op_type("Neg");
    node->set_name("n" + std::to_string(i));
  }
  std::string bytes = model.SerializeAsString(), error;
  std::unique_ptr<ModelFile> file = ModelFile::parse(
      llvm::MemoryBuffer::getMemBuffer(bytes, "m.onnx", false), error);
  ASSERT_TRUE(file) << error;
  NodeReader reader(*file);
  ASSERT_EQ(reader.size(), 4);
  const auto *first = reader.read(0);
  const auto *second = reader.readToStay(1);
  for (int i = 0; i != 4; ++i)
    ASSERT_NE(reader.read(i), nullptr);
  EXPECT_EQ(first->attribute(0).t().int64_data(0), 42);
  EXPECT_EQ(second->name(), "n0");
}

} // namespace
