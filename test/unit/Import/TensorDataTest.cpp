//===- TensorDataTest.cpp - Tests of tensors as attributes ---------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TensorData.h"

#include "tandem/Dialect/Tandem.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "mlir/IR/MLIRContext.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::tandem::onnx;
using tandem_onnx::ModelProto;
using tandem_onnx::TensorProto;

namespace {

class TensorDataTest : public ::testing::Test {
protected:
  TensorDataTest() : types(&context), external("") {
    context.loadDialect<tandem::TandemDialect>();
  }

  /// The tensor, taken through a file, as an attribute.
  Attribute convert(const TensorProto &tensor, int64_t maxDense = 64) {
    ModelProto model;
    *model.mutable_graph()->add_initializer() = tensor;
    file = ModelFile::parse(llvm::MemoryBuffer::getMemBufferCopy(
                                model.SerializeAsString(), "m.onnx"),
                            error);
    EXPECT_TRUE(file) << error;
    TensorReader reader(*file, types, external, maxDense);
    const TensorProto &read = file->model().graph().initializer(0);
    Attribute value = reader.toAttribute(read, "w", info, error);
    integers.clear();
    if (value && !reader.readIntegers(read, info, integers, error))
      integers.clear();
    return value;
  }

  static TensorProto make(int32_t dataType,
                          std::initializer_list<int64_t> dims) {
    TensorProto tensor;
    tensor.set_data_type(dataType);
    for (int64_t dim : dims)
      tensor.add_dims(dim);
    return tensor;
  }
  static TensorProto makeRaw(int32_t dataType,
                             std::initializer_list<int64_t> dims,
                             llvm::StringRef bytes) {
    TensorProto tensor = make(dataType, dims);
    tensor.set_raw_data(bytes.str());
    return tensor;
  }

  MLIRContext context;
  ElementTypes types;
  ExternalFiles external;
  std::unique_ptr<ModelFile> file;
  TensorInfo info;
  std::string error;
  SmallVector<int64_t> integers;
};

TEST_F(TensorDataTest, EveryTypeIsKnown) {
  for (int32_t type = 1; type != kNumDataTypes; ++type) {
    EXPECT_TRUE(types[type]) << type;
    EXPECT_TRUE(TensorProto::DataType_IsValid(type));
    EXPECT_EQ(dataTypeBits(type) == 0, type == TensorProto::STRING);
  }
  EXPECT_FALSE(TensorProto::DataType_IsValid(kNumDataTypes));
  EXPECT_FALSE(types[0]);
  EXPECT_FALSE(types[-1]);
  EXPECT_FALSE(types[kNumDataTypes]);
  EXPECT_EQ(dataTypeName(TensorProto::BFLOAT16), "bfloat16");
  EXPECT_EQ(dataTypeName(1000), "type 1000");
}

TEST_F(TensorDataTest, SubByteElements) {
  // Two in a byte, the first in the low half; three nibbles need two bytes.
  auto nibbles = dyn_cast_or_null<DenseElementsAttr>(
      convert(makeRaw(TensorProto::INT4, {3}, "\x78\x0f")));
  ASSERT_TRUE(nibbles) << error;
  SmallVector<int64_t> values;
  for (const APInt &value : nibbles.getValues<APInt>())
    values.push_back(value.getSExtValue());
  EXPECT_EQ(values, (SmallVector<int64_t>{-8, 7, -1}));

  auto crumbs = dyn_cast_or_null<DenseElementsAttr>(
      convert(makeRaw(TensorProto::UINT2, {5}, "\xe4\x01")));
  ASSERT_TRUE(crumbs) << error;
  values.clear();
  for (const APInt &value : crumbs.getValues<APInt>())
    values.push_back(value.getZExtValue());
  EXPECT_EQ(values, (SmallVector<int64_t>{0, 1, 2, 3, 1}));

  // Four elements of six bits in three bytes; a typed field has one an entry.
  TensorProto typed = make(TensorProto::FLOAT6E2M3, {5});
  for (int32_t bits : {1, 62, 33, 7, 40})
    typed.add_int32_data(bits);
  auto fromTyped = dyn_cast_or_null<DenseElementsAttr>(convert(typed));
  ASSERT_TRUE(fromTyped) << error;
  auto fromRaw = dyn_cast_or_null<DenseElementsAttr>(
      convert(makeRaw(TensorProto::FLOAT6E2M3, {5}, "\x81\x1f\x1e\x28")));
  ASSERT_TRUE(fromRaw) << error;
  EXPECT_EQ(fromTyped, fromRaw);
}

TEST_F(TensorDataTest, TypedFields) {
  // bfloat16 stands in int32_data by its bits, uint32 in uint64_data.
  TensorProto half = make(TensorProto::BFLOAT16, {2});
  half.add_int32_data(0x3f80);
  half.add_int32_data(0xc000);
  auto attribute = dyn_cast_or_null<DenseElementsAttr>(convert(half));
  ASSERT_TRUE(attribute) << error;
  auto value = attribute.getValues<APFloat>().begin();
  EXPECT_EQ((*value++).convertToFloat(), 1.0f);
  EXPECT_EQ((*value++).convertToFloat(), -2.0f);

  TensorProto wide = make(TensorProto::UINT32, {1});
  wide.add_uint64_data(0xffffffff);
  ASSERT_TRUE(convert(wide)) << error;
  EXPECT_EQ(integers, SmallVector<int64_t>{0xffffffff});

  TensorProto small = make(TensorProto::INT8, {1});
  small.add_int32_data(-3);
  ASSERT_TRUE(convert(small)) << error;
  EXPECT_EQ(integers, SmallVector<int64_t>{-3});
}

TEST_F(TensorDataTest, RawDataStaysInTheFile) {
  std::string bytes;
  for (int i = 0; i != 400; ++i)
    bytes.push_back(static_cast<char>(i));
  auto resource = dyn_cast_or_null<DenseResourceElementsAttr>(
      convert(makeRaw(TensorProto::FLOAT, {100}, bytes)));
  ASSERT_TRUE(resource) << error;
  ArrayRef<char> data = resource.getRawHandle().getBlob()->getData();
  StringRef model = file->buffer()->getBuffer();
  EXPECT_TRUE(data.begin() >= model.begin() && data.end() <= model.end());
  EXPECT_FALSE(resource.getRawHandle().getBlob()->isMutable());
  size_t alignment = resource.getRawHandle().getBlob()->getDataAlignment();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(data.data()) % alignment, 0u);
  // The attribute keeps the bytes alive.
  file.reset();
  EXPECT_EQ(std::string(data.begin(), data.end()), bytes);

  // A splat is written out however large it is, small tensors are, too.
  EXPECT_TRUE(isa<DenseElementsAttr>(
      convert(makeRaw(TensorProto::FLOAT, {100}, std::string(400, 'a')))));
  EXPECT_TRUE(isa<DenseElementsAttr>(
      convert(makeRaw(TensorProto::FLOAT, {100}, bytes), 100)));
}

TEST_F(TensorDataTest, AbsurdSizes) {
  EXPECT_FALSE(convert(make(TensorProto::FLOAT, {INT64_MAX, 2})));
  EXPECT_FALSE(convert(make(TensorProto::FLOAT, {int64_t(1) << 60})));
  EXPECT_FALSE(convert(make(TensorProto::FLOAT, {0, INT64_MAX, INT64_MAX})));
  EXPECT_FALSE(convert(make(TensorProto::FLOAT, {-1})));
  EXPECT_TRUE(convert(make(TensorProto::FLOAT, {0, INT64_MAX / 256})));
  EXPECT_FALSE(convert(makeRaw(TensorProto::FLOAT, {}, "abc")));
  EXPECT_TRUE(convert(makeRaw(TensorProto::FLOAT, {}, "abcd")));
}

TEST_F(TensorDataTest, External) {
  TensorProto tensor = make(TensorProto::FLOAT, {2});
  tensor.set_data_location(TensorProto::EXTERNAL);
  auto *entry = tensor.add_external_data();
  entry->set_key("location");
  entry->set_value("w.bin");
  auto attribute = dyn_cast_or_null<tandem::ExternalDataAttr>(convert(tensor));
  ASSERT_TRUE(attribute) << error;
  EXPECT_EQ(attribute.getLocation(), "w.bin");
  EXPECT_EQ(attribute.getOffset(), 0);
  EXPECT_EQ(attribute.getLength(), -1);
}

} // namespace
