//===- ImportFuzzer.cpp - libFuzzer target for the ONNX importer ----------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Whatever the bytes are, the importer must return a valid module that prints
// and parses again, or null after at least one error.
//
// Half of the mutations change bytes; the other half change a parsed model,
// because changed bytes seldom get past the lengths of nested messages.
//
//===----------------------------------------------------------------------===//

#include "tandem/Export/OnnxExport.h"
#include "tandem/Import/OnnxImport.h"
#include "tandem_onnx/onnx.pb.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>

using namespace mlir;
using tandem_onnx::AttributeProto;
using tandem_onnx::GraphProto;
using tandem_onnx::ModelProto;
using tandem_onnx::NodeProto;
using tandem_onnx::TensorProto;

//===----------------------------------------------------------------------===//
// The target
//===----------------------------------------------------------------------===//

static void check(bool holds, const char *what, StringRef text = {}) {
  if (holds)
    return;
  llvm::errs() << "import-fuzzer: " << what << '\n' << text << '\n';
  std::abort();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  // Contexts keep all attributes, so they are renewed now and then.
  static std::unique_ptr<MLIRContext> context;
  static unsigned numRuns = 0;
  if (!context || ++numRuns % 256 == 0) {
    DialectRegistry registry;
    tandem::registerOnnxImportDialects(registry);
    context.reset();
    context = std::make_unique<MLIRContext>(registry,
                                            MLIRContext::Threading::DISABLED);
  }
  unsigned numErrors = 0;
  std::string errors;
  ScopedDiagnosticHandler handler(context.get(), [&](Diagnostic &diagnostic) {
    numErrors += diagnostic.getSeverity() == DiagnosticSeverity::Error;
    llvm::raw_string_ostream os(errors);
    tandem::printOnnxDiagnostic(diagnostic, os);
    return success();
  });
  tandem::OnnxImportOptions options;
  options.externalDataDir = "/nonexistent";
  auto buffer = llvm::MemoryBuffer::getMemBufferCopy(
      StringRef(reinterpret_cast<const char *>(data), size), "fuzz.onnx");
  OwningOpRef<ModuleOp> module =
      tandem::importOnnxBuffer(std::move(buffer), context.get(), options);
  check(static_cast<bool>(module) == (numErrors == 0),
        "null without an error, or an error without null", errors);
  check(numErrors <= options.maxErrors + 1, "too many errors", errors);
  if (!module)
    return 0;
  check(succeeded(verify(*module)), "the module is not valid", errors);
  std::string text;
  llvm::raw_string_ostream os(text);
  module->print(os, OpPrintingFlags().assumeVerified());
  if (text.size() > 65536)
    return 0;
  OwningOpRef<ModuleOp> again =
      parseSourceString<ModuleOp>(text, context.get());
  check(static_cast<bool>(again), "the module does not parse", errors + text);

  // What was imported is exported, or there is an error; and it imports again,
  // unless the model contradicts itself, which the import warned of: what is
  // left unknown then may turn out to be wrong.
  bool isConsistent = errors.empty();
  std::string model;
  llvm::raw_string_ostream modelStream(model);
  bool isExported = succeeded(tandem::exportOnnx(*again, modelStream));
  check(isExported == (numErrors == 0),
        "exported with an error, or not exported without one", errors + text);
  if (isExported && isConsistent) {
    auto second = llvm::MemoryBuffer::getMemBufferCopy(model, "again.onnx");
    OwningOpRef<ModuleOp> reimported =
        tandem::importOnnxBuffer(std::move(second), context.get(), options);
    check(static_cast<bool>(reimported), "what was exported does not import",
          errors + text);
  }
  return 0;
}

//===----------------------------------------------------------------------===//
// Mutations of models
//===----------------------------------------------------------------------===//

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);

namespace {

class Mutator {
public:
  explicit Mutator(unsigned seed) : random(seed) {}

  void mutate(ModelProto &model) {
    for (size_t i = 0, e = 1 + pick(3); i != e; ++i) {
      switch (pick(12)) {
      case 0:
        model.set_ir_version(static_cast<int64_t>(pick(16)));
        break;
      case 1:
        if (model.opset_import_size())
          model.mutable_opset_import(0)->set_version(
              static_cast<int64_t>(5 + pick(26)));
        break;
      case 2:
        if (model.functions_size())
          mutateNodes(*model.mutable_functions(index(model.functions_size()))
                           ->mutable_node());
        break;
      default:
        mutateGraph(*model.mutable_graph(), 0);
        break;
      }
    }
  }

private:
  size_t pick(size_t count) {
    return std::uniform_int_distribution<size_t>(0, count - 1)(random);
  }
  int index(int size) {
    return static_cast<int>(pick(static_cast<size_t>(size)));
  }

  int64_t number() {
    static const int64_t numbers[] = {
        0,         1,         -1,        2,
        3,         4,         7,         8,
        64,        65,        INT32_MAX, INT64_MAX,
        INT64_MIN, INT32_MIN, 1 << 30,   int64_t(1) << 62};
    return numbers[pick(std::size(numbers))];
  }

  const char *opType() {
    static const char *const ops[] = {"Add",
                                      "Mul",
                                      "Cast",
                                      "Reshape",
                                      "Shape",
                                      "Gather",
                                      "Concat",
                                      "Slice",
                                      "Squeeze",
                                      "Unsqueeze",
                                      "Transpose",
                                      "Expand",
                                      "MatMul",
                                      "Gemm",
                                      "Split",
                                      "ReduceMean",
                                      "ReduceSum",
                                      "Where",
                                      "Range",
                                      "ConstantOfShape",
                                      "Constant",
                                      "If",
                                      "Loop",
                                      "Scan",
                                      "Identity",
                                      "TopK",
                                      "OneHot",
                                      "Tile",
                                      "Pad",
                                      "Flatten",
                                      "Size",
                                      "Equal",
                                      "LayerNormalization",
                                      "RMSNormalization",
                                      "SimplifiedLayerNormalization",
                                      "SkipSimplifiedLayerNormalization",
                                      "AllReduce",
                                      "AllGather",
                                      "SequenceAt",
                                      "SplitToSequence",
                                      "SequenceConstruct",
                                      "Optional",
                                      "GatherND",
                                      "Attention",
                                      "Compress",
                                      "Unique",
                                      "RandomNormal",
                                      "EyeLike",
                                      "QuantizeLinear",
                                      "Custom",
                                      "a b",
                                      ""};
    return ops[pick(std::size(ops))];
  }

  const char *attributeName() {
    static const char *const names[] = {"axis",
                                        "axes",
                                        "to",
                                        "perm",
                                        "keepdims",
                                        "value",
                                        "value_ints",
                                        "epsilon",
                                        "stash_type",
                                        "start",
                                        "end",
                                        "starts",
                                        "ends",
                                        "body",
                                        "then_branch",
                                        "else_branch",
                                        "split",
                                        "dtype",
                                        "num_scan_inputs",
                                        "allowzero",
                                        "batch_dims",
                                        "tandem.x",
                                        "shape",
                                        "pads"};
    return names[pick(std::size(names))];
  }

  /// Any name that the graph has.
  std::string valueName(const GraphProto &graph) {
    for (int tries = 0; tries != 4; ++tries) {
      if (graph.node_size() && pick(2)) {
        const NodeProto &node = graph.node(index(graph.node_size()));
        if (node.output_size())
          return node.output(index(node.output_size()));
      }
      if (graph.initializer_size() && pick(2))
        return graph.initializer(index(graph.initializer_size())).name();
      if (graph.input_size())
        return graph.input(index(graph.input_size())).name();
    }
    return pick(2) ? "" : "nothing";
  }

  void mutateTensor(TensorProto &tensor) {
    switch (pick(6)) {
    case 0:
      tensor.set_data_type(static_cast<int32_t>(pick(31)));
      break;
    case 1:
      if (tensor.dims_size())
        tensor.set_dims(index(tensor.dims_size()), number());
      break;
    case 2:
      tensor.add_dims(number());
      break;
    case 3:
      tensor.add_int64_data(number());
      break;
    case 4:
      tensor.mutable_raw_data()->resize(pick(300));
      break;
    case 5:
      tensor.set_data_location(pick(2) ? TensorProto::EXTERNAL
                                       : TensorProto::DEFAULT);
      if (pick(2)) {
        auto *entry = tensor.add_external_data();
        entry->set_key(pick(2) ? "location" : "offset");
        entry->set_value(pick(2) ? "../x" : "12");
      }
      break;
    }
  }

  void mutateShape(tandem_onnx::TypeProto &type) {
    auto *tensor = type.mutable_tensor_type();
    if (pick(3) == 0)
      tensor->set_elem_type(static_cast<int32_t>(pick(30)));
    auto *dim = tensor->shape().dim_size() && pick(3)
                    ? tensor->mutable_shape()->mutable_dim(
                          index(tensor->shape().dim_size()))
                    : tensor->mutable_shape()->add_dim();
    if (pick(2))
      dim->set_dim_value(number());
    else
      dim->set_dim_param(pick(2) ? "n" : "m");
  }

  void mutateAttribute(AttributeProto &attribute, unsigned depth) {
    switch (pick(8)) {
    case 0:
      attribute.set_name(attributeName());
      break;
    case 1:
      attribute.set_type(static_cast<AttributeProto::AttributeType>(pick(15)));
      break;
    case 2:
      attribute.set_ref_attr_name(attributeName());
      break;
    case 3:
      attribute.set_i(number());
      break;
    default:
      if (attribute.has_t())
        mutateTensor(*attribute.mutable_t());
      else if (attribute.has_g() && depth < 4)
        mutateGraph(*attribute.mutable_g(), depth + 1);
      else if (attribute.ints_size())
        attribute.set_ints(index(attribute.ints_size()), number());
      else
        attribute.set_i(number());
      break;
    }
  }

  void mutateNodes(google::protobuf::RepeatedPtrField<NodeProto> &nodes) {
    if (nodes.empty())
      return;
    NodeProto &node = *nodes.Mutable(index(nodes.size()));
    switch (pick(4)) {
    case 0:
      node.set_op_type(opType());
      break;
    case 1:
      node.mutable_attribute()->Clear();
      break;
    case 2:
      nodes.SwapElements(index(nodes.size()), index(nodes.size()));
      break;
    case 3:
      nodes.DeleteSubrange(index(nodes.size()), 1);
      break;
    }
  }

  void mutateGraph(GraphProto &graph, unsigned depth) {
    if (graph.node_size() == 0 || pick(12) == 0) {
      NodeProto *node = graph.add_node();
      node->set_op_type(opType());
      node->add_input(valueName(graph));
      node->add_input(valueName(graph));
      node->add_output("new" + std::to_string(pick(1000)));
      return;
    }
    NodeProto &node = *graph.mutable_node(index(graph.node_size()));
    switch (pick(12)) {
    case 0:
      mutateNodes(*graph.mutable_node());
      break;
    case 1:
      if (node.input_size())
        node.set_input(index(node.input_size()), valueName(graph));
      break;
    case 2:
      node.add_input(valueName(graph));
      break;
    case 3:
      if (node.input_size())
        node.mutable_input()->RemoveLast();
      break;
    case 4:
      node.add_output("out" + std::to_string(pick(1000)));
      break;
    case 5: {
      AttributeProto *attribute = node.add_attribute();
      attribute->set_name(attributeName());
      attribute->set_type(pick(2) ? AttributeProto::INT : AttributeProto::INTS);
      attribute->add_ints(number());
      if (attribute->type() == AttributeProto::INT) {
        attribute->clear_ints();
        attribute->set_i(number());
      }
      break;
    }
    case 6:
    case 7:
      if (node.attribute_size())
        mutateAttribute(*node.mutable_attribute(index(node.attribute_size())),
                        depth);
      break;
    case 8:
      if (graph.initializer_size())
        mutateTensor(
            *graph.mutable_initializer(index(graph.initializer_size())));
      break;
    case 9:
      if (graph.input_size())
        mutateShape(
            *graph.mutable_input(index(graph.input_size()))->mutable_type());
      break;
    case 10:
      if (graph.value_info_size())
        mutateShape(*graph.mutable_value_info(index(graph.value_info_size()))
                         ->mutable_type());
      else if (graph.output_size())
        graph.mutable_output(index(graph.output_size()))->clear_type();
      break;
    case 11:
      node.set_domain(pick(3) == 0 ? "com.microsoft"
                      : pick(2)    ? ""
                                   : "my.domain");
      break;
    }
  }

  std::mt19937 random;
};

} // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                          size_t maxSize, unsigned seed) {
  ModelProto model;
  if (seed % 4 == 0 || size > INT32_MAX ||
      !model.ParseFromArray(data, static_cast<int>(size)))
    return LLVMFuzzerMutate(data, size, maxSize);
  Mutator(seed).mutate(model);
  std::string bytes = model.SerializeAsString();
  if (bytes.size() > maxSize)
    return LLVMFuzzerMutate(data, size, maxSize);
  std::copy(bytes.begin(), bytes.end(), data);
  return bytes.size();
}
