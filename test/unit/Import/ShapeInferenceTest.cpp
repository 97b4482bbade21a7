//===- ShapeInferenceTest.cpp - Tests of types and shapes of nodes
//---------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ShapeInference.h"
#include "Inference/Rules.h"

#include "tandem_onnx/onnx.pb.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include "gtest/gtest.h"

#include <deque>

using namespace mlir::tandem::onnx;
using llvm::ArrayRef;
using tandem_onnx::AttributeProto;
using tandem_onnx::TensorProto;

namespace {

/// "2,?,a" as dims; symbols are numbered by their letter.
SymInts dims(llvm::StringRef text) {
  SymInts result;
  llvm::SmallVector<llvm::StringRef> parts;
  text.split(parts, ',', -1, false);
  for (llvm::StringRef part : parts) {
    int64_t value;
    if (!part.getAsInteger(10, value))
      result.push_back(SymInt::constant(value));
    else
      result.push_back(part == "?" ? SymInt() : SymInt::symbol(part[0]));
  }
  return result;
}

std::string print(ArrayRef<SymInt> list) {
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::interleave(
      list, os,
      [&](SymInt value) {
        if (value.isConstant())
          os << value.value;
        else if (value.isSymbol())
          os << static_cast<char>(value.value);
        else
          os << '?';
      },
      ",");
  return text;
}

/// A node under test: add inputs and attributes, then ask for its outputs.
class Node {
public:
  explicit Node(llvm::StringRef opType, llvm::StringRef domain = "")
      : opType(opType), domain(domain) {}

  Node &in(llvm::StringRef shape, int32_t type = TensorProto::FLOAT) {
    inputs.push_back(ValueInfo::tensor(type, dims(shape)));
    present.push_back(true);
    return *this;
  }
  Node &unranked(int32_t type = TensorProto::FLOAT) {
    inputs.push_back(ValueInfo::tensor(type));
    present.push_back(true);
    return *this;
  }
  Node &absent() {
    inputs.emplace_back();
    present.push_back(false);
    return *this;
  }
  /// A vector of int64 with these elements.
  Node &elements(llvm::StringRef list) {
    SymInts values = dims(list);
    in(llvm::utostr(values.size()), TensorProto::INT64);
    inputs.back().elements = std::make_shared<SymInts>(values);
    return *this;
  }
  Node &scalar(llvm::StringRef value) {
    in("", TensorProto::INT64);
    inputs.back().elements = std::make_shared<SymInts>(dims(value));
    return *this;
  }
  Node &attr(const char *name, int64_t value) {
    AttributeProto &proto = attributes.emplace_back();
    proto.set_name(name);
    proto.set_type(AttributeProto::INT);
    proto.set_i(value);
    return *this;
  }
  Node &attr(const char *name, std::initializer_list<int64_t> values) {
    AttributeProto &proto = attributes.emplace_back();
    proto.set_name(name);
    proto.set_type(AttributeProto::INTS);
    for (int64_t value : values)
      proto.add_ints(value);
    return *this;
  }

  /// The dims of output `index`, "*" if it is unranked, or the error.
  std::string shape(size_t index = 0, size_t count = 1) {
    run(std::max(count, index + 1));
    if (!message.empty())
      return "error: " + message;
    if (!outputs[index].isTensor())
      return "unknown";
    return outputs[index].hasRank ? print(outputs[index].dims) : "*";
  }
  int32_t type(size_t index = 0) {
    run(index + 1);
    return outputs[index].dataType;
  }
  std::string content() {
    run(1);
    return outputs[0].elements ? print(*outputs[0].elements) : "none";
  }

private:
  void run(size_t count) {
    llvm::SmallVector<const ValueInfo *> pointers;
    for (size_t i = 0; i != inputs.size(); ++i)
      pointers.push_back(present[i] ? &inputs[i] : nullptr);
    llvm::SmallVector<const AttributeProto *> protos;
    for (const AttributeProto &proto : attributes)
      protos.push_back(&proto);
    outputs.assign(count, ValueInfo());
    auto load = [](const TensorProto &, SymInts &, std::string &) {
      return false;
    };
    InferFn function = findInference(domain, opType);
    ASSERT_TRUE(function) << opType.str();
    NodeInference inference(opType, pointers, protos, outputs, true, load);
    function(inference);
    message = inference.message();
  }

  llvm::StringRef opType, domain;
  std::deque<ValueInfo> inputs;
  llvm::SmallVector<bool> present;
  std::deque<AttributeProto> attributes;
  std::vector<ValueInfo> outputs;
  std::string message;
};

TEST(ShapeInference, Broadcast) {
  EXPECT_EQ(Node("Add").in("a,b,4").in("4").shape(), "a,b,4");
  EXPECT_EQ(Node("Add").in("a,1,4").in("1,b,1").shape(), "a,b,4");
  EXPECT_EQ(Node("Add").in("").in("2").shape(), "2");
  EXPECT_EQ(Node("Add").in("?").in("1").shape(), "?");
  EXPECT_EQ(Node("Add").in("?").in("3").shape(), "3");
  EXPECT_EQ(Node("Add").in("0").in("1").shape(), "0");
  // A symbol beside a constant other than 1 can only be that constant or 1.
  EXPECT_EQ(Node("Add").in("a").in("3").shape(), "3");
  // Two symbols may be equal, or one may be 1.
  EXPECT_EQ(Node("Add").in("a").in("b").shape(), "?");
  EXPECT_EQ(Node("Add").in("a").in("a").shape(), "a");
  EXPECT_EQ(Node("Add").in("2").unranked().shape(), "*");
  EXPECT_EQ(Node("Max").in("a").in("1").in("a").shape(), "a");
  EXPECT_EQ(Node("Add").in("2").in("3").shape(),
            "error: dimensions 2 and 3 do not broadcast");
  EXPECT_EQ(Node("Less").in("2").in("2").type(), TensorProto::BOOL);
  EXPECT_EQ(Node("Pow").in("2", TensorProto::FLOAT16).in("").type(),
            TensorProto::FLOAT16);
}

TEST(ShapeInference, Reshape) {
  auto reshape = [](llvm::StringRef from, llvm::StringRef to) {
    return Node("Reshape").in(from).elements(to).shape();
  };
  EXPECT_EQ(reshape("a,b,64", "0,0,4,16"), "a,b,4,16");
  EXPECT_EQ(reshape("a,b,64", "a,b,-1,16"), "a,b,4,16");
  EXPECT_EQ(reshape("a,b,4,16", "a,-1,64"), "a,b,64");
  EXPECT_EQ(reshape("a,b,4,16", "0,0,-1"), "a,b,64");
  EXPECT_EQ(reshape("a,b,64", "-1,64"), "?,64");
  EXPECT_EQ(reshape("1,b,64", "-1,64"), "b,64");
  EXPECT_EQ(reshape("2,3", "-1"), "6");
  EXPECT_EQ(reshape("2,3", "-1,4"), "?,4") << "6 is no multiple of 4";
  EXPECT_EQ(reshape("?,3", "-1,3"), "?,3");
  EXPECT_EQ(reshape("2,0", "0,0"), "2,0");
  EXPECT_EQ(reshape("9223372036854775807,9", "-1,9"), "?,9");
  EXPECT_EQ(reshape("2,3", "-1,-1"),
            "error: the shape has two dimensions of -1");
  EXPECT_EQ(reshape("2,3", "2,3,0"),
            "error: the shape copies dimension 2 of an operand of rank 2");
  EXPECT_EQ(reshape("2,3", "7"), "error: cannot reshape 6 elements to 7");
  EXPECT_EQ(reshape("2,3", "-6"), "error: the shape has the dimension -6");
  EXPECT_EQ(
      Node("Reshape").in("0,3").elements("3,0").attr("allowzero", 1).shape(),
      "3,0");
  // An unknown shape of known length gives the rank.
  EXPECT_EQ(Node("Reshape").in("2,3").in("3", TensorProto::INT64).shape(),
            "?,?,?");
  EXPECT_EQ(Node("Reshape").in("2,3").in("?", TensorProto::INT64).shape(), "*");
}

TEST(ShapeInference, Reduce) {
  EXPECT_EQ(Node("ReduceMean").in("a,b,4").elements("-1").shape(), "a,b,1");
  EXPECT_EQ(Node("ReduceMean")
                .in("a,b,4")
                .attr("axes", {1, 2})
                .attr("keepdims", 0)
                .shape(),
            "a");
  EXPECT_EQ(Node("ReduceMean").in("a,b").shape(), "1,1");
  EXPECT_EQ(Node("ReduceSum").in("a,b").attr("noop_with_empty_axes", 1).shape(),
            "a,b");
  EXPECT_EQ(Node("ReduceSum")
                .in("a,b")
                .in("1", TensorProto::INT64)
                .attr("keepdims", 0)
                .shape(),
            "?");
  EXPECT_EQ(Node("ReduceSum").in("a,b").in("1", TensorProto::INT64).shape(),
            "?,?");
  EXPECT_EQ(Node("ReduceSum").in("a").elements("1").shape(),
            "error: axis 1 is out of range for rank 1");
  EXPECT_EQ(Node("ArgMax").in("a,4").attr("axis", 1).shape(), "a,1");
  EXPECT_EQ(Node("ArgMax").in("a,4").type(), TensorProto::INT64);
}

TEST(ShapeInference, Norms) {
  for (const char *op : {"LayerNormalization", "RMSNormalization",
                         "SimplifiedLayerNormalization"}) {
    EXPECT_EQ(Node(op).in("a,b,4").in("4").shape(), "a,b,4");
    EXPECT_EQ(Node(op)
                  .in("a,b,4", TensorProto::FLOAT16)
                  .in("4", TensorProto::FLOAT16)
                  .type(),
              TensorProto::FLOAT16);
    EXPECT_EQ(Node(op)
                  .in("a,b,4", TensorProto::FLOAT16)
                  .in("4", TensorProto::FLOAT16)
                  .type(1),
              TensorProto::FLOAT);
    EXPECT_EQ(Node(op).in("a,b,4").in("4").shape(1), "a,b,1");
    EXPECT_EQ(Node(op).in("a,b,4").in("b,4").attr("axis", 1).shape(1), "a,1,1");
    EXPECT_EQ(Node(op).in("a").in("a").attr("axis", 1).shape(),
              "error: axis 1 is out of range for rank 1");
  }
  Node skip("SkipSimplifiedLayerNormalization", "com.microsoft");
  skip.in("a,b,4").in("a,b,4").in("4");
  EXPECT_EQ(skip.shape(0), "a,b,4");
  EXPECT_EQ(skip.shape(1), "a,b,1");
  EXPECT_EQ(skip.shape(3), "a,b,4");
}

TEST(ShapeInference, Collectives) {
  Node all("AllReduce", "com.microsoft");
  all.in("a,4", TensorProto::BFLOAT16).in("b", TensorProto::FLOAT16);
  EXPECT_EQ(all.shape(0), "a,4");
  EXPECT_EQ(all.shape(1), "b");
  EXPECT_EQ(all.type(1), TensorProto::FLOAT16);
  EXPECT_EQ(Node("AllGather", "com.microsoft")
                .in("2,a")
                .attr("group_size", 4)
                .shape(),
            "8,a");
  EXPECT_EQ(Node("AllGather", "com.microsoft")
                .in("a,4")
                .attr("group_size", 4)
                .shape(),
            "?,4");
  EXPECT_EQ(Node("AllReducePlugin", "trt_edgellm").in("a,4").shape(), "a,4");
  // The domain counts.
  EXPECT_EQ(findInference("", "AllReduce"), nullptr);
  EXPECT_EQ(findInference("com.microsoft", "Add"), nullptr);
  EXPECT_EQ(findInference("nothing", "Add"), nullptr);
}

TEST(ShapeInference, Products) {
  EXPECT_EQ(Node("MatMul").in("a,b,4").in("4,8").shape(), "a,b,8");
  EXPECT_EQ(Node("MatMul").in("a,b,4").in("4").shape(), "a,b");
  EXPECT_EQ(Node("MatMul").in("4").in("a,4,c").shape(), "a,c");
  EXPECT_EQ(Node("MatMul").in("4").in("4").shape(), "");
  EXPECT_EQ(Node("MatMul").in("a,1,2,3").in("b,3,c").shape(), "a,b,2,c");
  EXPECT_EQ(Node("MatMul").in("").in("4").shape(),
            "error: a matrix product needs operands of rank 1 or more");
  EXPECT_EQ(Node("Gemm")
                .in("4,a")
                .in("8,4")
                .attr("transA", 1)
                .attr("transB", 1)
                .shape(),
            "a,8");
  EXPECT_EQ(Node("Gemm").in("4").in("8,4").shape(),
            "error: operands must be matrices, not of rank 1");
}

TEST(ShapeInference, ShapeComputations) {
  EXPECT_EQ(Node("Shape").in("a,?,4").content(), "a,?,4");
  EXPECT_EQ(Node("Shape").in("a,?,4").attr("start", -1).content(), "4");
  EXPECT_EQ(Node("Shape").in("a,b,4").attr("start", 2).attr("end", 1).shape(),
            "0");
  EXPECT_EQ(Node("Size").in("2,3").content(), "6");
  EXPECT_EQ(Node("Gather").elements("a,b,4").scalar("-1").content(), "4");
  EXPECT_EQ(Node("Gather").elements("a,b,4").elements("1,0").content(), "b,a");
  EXPECT_EQ(Node("Gather").elements("a,b").scalar("2").shape(),
            "error: index 2 is out of range for 2 elements");
  EXPECT_EQ(Node("Concat")
                .attr("axis", 0)
                .elements("a")
                .in("2", TensorProto::INT64)
                .elements("7")
                .content(),
            "a,?,?,7");
  EXPECT_EQ(Node("Slice")
                .elements("a,b,c,d")
                .elements("-3")
                .elements("9223372036854775807")
                .content(),
            "b,c,d");
  EXPECT_EQ(Node("Slice")
                .elements("a,b,c,d")
                .elements("-1")
                .elements("-9223372036854775808")
                .elements("0")
                .elements("-2")
                .content(),
            "d,b");
  EXPECT_EQ(Node("Unsqueeze").scalar("a").elements("0").content(), "a");
  EXPECT_EQ(Node("Squeeze").elements("a").elements("0").content(), "a");
  EXPECT_EQ(Node("Mul").elements("a,2").scalar("1").content(), "a,2");
  EXPECT_EQ(
      Node("Mul").elements("a,9223372036854775807").elements("0,2").content(),
      "0,?");
  EXPECT_EQ(Node("Div").elements("8,a,5").elements("2,1,0").content(), "4,a,?");
  EXPECT_EQ(Node("Div").scalar("-9223372036854775808").scalar("-1").content(),
            "?");
  EXPECT_EQ(Node("Sub").elements("a,7").elements("0,9").content(), "a,-2");
  EXPECT_EQ(Node("Equal").elements("a,3,b").elements("-1,3,a").content(),
            "0,1,?");
  // Beyond 64 elements nothing is kept.
  std::string many = "1";
  for (int i = 0; i != 63; ++i)
    many += ",1";
  EXPECT_EQ(
      Node("Concat").attr("axis", 0).elements(many).elements("1").content(),
      "none");
}

TEST(ShapeInference, Slices) {
  auto slice = [](llvm::StringRef shape, llvm::StringRef start,
                  llvm::StringRef end, llvm::StringRef step) {
    return Node("Slice")
        .in(shape)
        .elements(start)
        .elements(end)
        .elements("0")
        .elements(step)
        .shape();
  };
  EXPECT_EQ(slice("10", "2", "8", "3"), "2");
  EXPECT_EQ(slice("10", "-3", "100", "1"), "3");
  EXPECT_EQ(slice("10", "8", "2", "1"), "0");
  EXPECT_EQ(slice("10", "9", "-11", "-1"), "10");
  EXPECT_EQ(slice("10", "9", "-100", "-4"), "3");
  EXPECT_EQ(slice("0", "0", "5", "1"), "0");
  EXPECT_EQ(slice("10", "0", "10", "9223372036854775807"), "1");
  EXPECT_EQ(slice("10", "9", "0", "-9223372036854775808"), "1");
  EXPECT_EQ(slice("a", "0", "9223372036854775807", "1"), "a");
  EXPECT_EQ(slice("a", "0", "a", "1"), "a");
  EXPECT_EQ(slice("a", "1", "9223372036854775807", "1"), "?");
  EXPECT_EQ(slice("10", "0", "a", "1"), "?");
  EXPECT_EQ(Node("Slice")
                .in("a,10")
                .attr("starts", {1})
                .attr("ends", {3})
                .attr("axes", {1})
                .shape(),
            "a,2");
  EXPECT_EQ(Node("Slice")
                .in("a,10")
                .in("1", TensorProto::INT64)
                .in("1", TensorProto::INT64)
                .in("1", TensorProto::INT64)
                .shape(),
            "?,?");
}

TEST(ShapeInference, Layout) {
  EXPECT_EQ(Node("Transpose").in("a,b,4").shape(), "4,b,a");
  EXPECT_EQ(Node("Transpose").in("a,b").attr("perm", {0}).shape(),
            "error: attribute 'perm' has 1 entries for rank 2");
  EXPECT_EQ(Node("Squeeze").in("1,a,1").elements("0").shape(), "a,1");
  EXPECT_EQ(Node("Squeeze").in("1,3,1").shape(), "3");
  EXPECT_EQ(Node("Squeeze").in("1,a").shape(), "*");
  EXPECT_EQ(Node("Squeeze").in("2").elements("0").shape(),
            "error: cannot squeeze dimension 0 of size 2");
  EXPECT_EQ(Node("Unsqueeze").in("a").elements("0,-1").shape(), "1,a,1");
  EXPECT_EQ(Node("Flatten").in("a,2,3").shape(), "a,6");
  EXPECT_EQ(Node("Flatten").in("a,2,3").attr("axis", 0).shape(), "1,?");
  EXPECT_EQ(Node("Expand").in("1,4").elements("a,1").shape(), "a,4");
  EXPECT_EQ(Node("Tile").in("a,2").elements("1,3").shape(), "a,6");
  EXPECT_EQ(Node("Concat").attr("axis", -1).in("a,2").in("?,3").shape(), "a,5");
  EXPECT_EQ(Node("Concat").attr("axis", 0).in("a,2").in("3,2").shape(), "?,2");
  EXPECT_EQ(Node("Split").in("a,7").attr("axis", 1).shape(1, 2), "a,3");
  EXPECT_EQ(Node("Split").in("a,7").elements("3,4").attr("axis", 1).shape(1, 2),
            "a,4");
  EXPECT_EQ(Node("Range").scalar("0").scalar("a").scalar("1").shape(), "a");
  EXPECT_EQ(Node("Range").scalar("10").scalar("0").scalar("-3").shape(), "4");
  EXPECT_EQ(Node("Range").scalar("0").scalar("0").scalar("0").shape(),
            "error: delta is 0");
  EXPECT_EQ(Node("TopK").in("a,8").elements("2").shape(1, 2), "a,2");
  EXPECT_EQ(Node("GatherND").in("a,b,4").in("c,2", TensorProto::INT64).shape(),
            "c,4");
}

TEST(ShapeInference, Casts) {
  EXPECT_EQ(Node("Cast").in("a").attr("to", TensorProto::BFLOAT16).type(),
            TensorProto::BFLOAT16);
  EXPECT_EQ(Node("Cast").in("a").shape(), "error: attribute 'to' is missing");
  EXPECT_EQ(Node("Cast").in("a").attr("to", {1}).shape(),
            "error: attribute 'to' must be an integer");
  EXPECT_EQ(Node("CastLike").in("a").in("", TensorProto::FLOAT16).type(),
            TensorProto::FLOAT16);
}

TEST(ShapeInference, EveryOpTakesAnything) {
  // No input, unknown inputs and no output must not confuse any op.
  for (const char *op : {"Add",
                         "Cast",
                         "Concat",
                         "Reshape",
                         "Slice",
                         "Gather",
                         "If",
                         "Where",
                         "Split",
                         "TopK",
                         "MatMul",
                         "Gemm",
                         "Range",
                         "Expand",
                         "Squeeze",
                         "Unsqueeze",
                         "LayerNormalization",
                         "ReduceMean",
                         "SequenceAt",
                         "Identity",
                         "Dropout",
                         "Pad",
                         "Tile",
                         "OneHot",
                         "NonZero",
                         "Shape",
                         "Size",
                         "Transpose",
                         "Flatten",
                         "Attention",
                         "SplitToSequence",
                         "Unique"}) {
    InferFn function = findInference("", op);
    if (!function)
      continue;
    auto load = [](const TensorProto &, SymInts &, std::string &) {
      return false;
    };
    ValueInfo unknown, unranked = ValueInfo::tensor(TensorProto::FLOAT);
    for (size_t numInputs : {0, 1, 3}) {
      for (const ValueInfo *info :
           {static_cast<const ValueInfo *>(nullptr),
            static_cast<const ValueInfo *>(&unknown),
            static_cast<const ValueInfo *>(&unranked)}) {
        for (size_t numOutputs : {0, 1, 4}) {
          llvm::SmallVector<const ValueInfo *> inputs(numInputs, info);
          std::vector<ValueInfo> outputs(numOutputs);
          NodeInference inference(op, inputs, {}, outputs, false, load);
          function(inference);
          for (const ValueInfo &output : outputs)
            EXPECT_TRUE(output.dims.size() <= 4) << op;
        }
      }
    }
  }
}

TEST(MergeDeclared, Rules) {
  auto merge = [](llvm::StringRef inferred, llvm::StringRef declared) {
    ValueInfo info = ValueInfo::tensor(TensorProto::FLOAT, dims(inferred));
    MergeResult result = mergeDeclared(
        info, ValueInfo::tensor(TensorProto::FLOAT, dims(declared)));
    return std::make_pair(result, print(info.dims));
  };
  EXPECT_EQ(merge("?,a,3", "b,b,b"),
            std::make_pair(MergeResult::Ok, std::string("b,b,3")));
  EXPECT_EQ(merge("?,a,3", "4,4,3"),
            std::make_pair(MergeResult::Ok, std::string("4,4,3")));
  EXPECT_EQ(merge("a,3", "?,?"),
            std::make_pair(MergeResult::Ok, std::string("a,3")));
  EXPECT_EQ(merge("a,3", "a,4"),
            std::make_pair(MergeResult::DimConflict, std::string("a,?")));
  EXPECT_EQ(merge("a", "a,4"),
            std::make_pair(MergeResult::Contradiction, std::string("a")));

  ValueInfo weak = ValueInfo::tensor(TensorProto::FLOAT16);
  weak.isWeak = true;
  EXPECT_EQ(mergeDeclared(weak, ValueInfo::tensor(TensorProto::FLOAT)),
            MergeResult::TypeConflict);
  EXPECT_EQ(weak.dataType, TensorProto::FLOAT);
  EXPECT_EQ(mergeDeclared(weak = ValueInfo::tensor(TensorProto::FLOAT16),
                          ValueInfo::tensor(TensorProto::FLOAT)),
            MergeResult::Contradiction);
  ValueInfo unknown;
  EXPECT_EQ(mergeDeclared(unknown, ValueInfo::tensor(TensorProto::FLOAT)),
            MergeResult::Ok);
  EXPECT_TRUE(unknown.isTensor());
}

TEST(JoinValues, Rules) {
  auto tensor = [](llvm::StringRef shape) {
    return ValueInfo::tensor(TensorProto::FLOAT, dims(shape));
  };
  EXPECT_EQ(print(joinValues(tensor("a,2,3"), tensor("a,2,4")).dims), "a,2,?");
  EXPECT_FALSE(joinValues(tensor("a"), tensor("a,b")).hasRank);
  EXPECT_EQ(
      joinValues(tensor("a"), ValueInfo::tensor(TensorProto::INT8)).dataType,
      0);
  EXPECT_EQ(joinValues(tensor("a"), ValueInfo()).kind, ValueInfo::Unknown);
}

/// Nodes come from files, so an op may have any number of operands and results
/// of any rank.
TEST(Rules, TakeAnyNumberOfOperandsAndResults) {
  size_t count = 0;
  for (ArrayRef<InferenceRule> rules :
       {elementwiseRules(), normRules(), layoutRules(), indexingRules(),
        creationRules(), productRules(), sequenceRules(), collectiveRules()})
    for (const InferenceRule &rule : rules)
      for (const char *op : rule.ops)
        for (const char *shape : {"", "0", "2", "2,3", "2,?,a,5"})
          for (size_t numInputs = 0; numInputs != 7; ++numInputs)
            for (size_t numOutputs = 0; numOutputs != 5; ++numOutputs) {
              ValueInfo info =
                  ValueInfo::tensor(TensorProto::INT64, dims(shape));
              info.elements = std::make_shared<SymInts>(dims("-1,7"));
              llvm::SmallVector<const ValueInfo *> inputs(numInputs, &info);
              std::vector<ValueInfo> outputs(numOutputs);
              NodeInference inference(op, inputs, {}, outputs, true,
                                      [](const TensorProto &, SymInts &,
                                         std::string &) { return false; });
              rule.function(inference);
              EXPECT_EQ(outputs.size(), numOutputs);
              ++count;
            }
  EXPECT_GT(count, 100u * 5 * 7 * 5);
}

} // namespace
