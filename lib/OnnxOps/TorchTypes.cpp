//===- TorchTypes.cpp - Tensor types of the torch dialect -----------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/OnnxOps/OnnxOps.h"

#include "mlir/IR/Dialect.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mlir::tandem;

static Type parseElementType(MLIRContext *context, StringRef text) {
  return llvm::StringSwitch<Type>(text)
      .Case("f16", Float16Type::get(context))
      .Case("bf16", BFloat16Type::get(context))
      .Case("f32", Float32Type::get(context))
      .Case("f64", Float64Type::get(context))
      .Case("i1", IntegerType::get(context, 1))
      .Case("si8", IntegerType::get(context, 8, IntegerType::Signed))
      .Case("ui8", IntegerType::get(context, 8, IntegerType::Unsigned))
      .Case("si16", IntegerType::get(context, 16, IntegerType::Signed))
      .Case("si32", IntegerType::get(context, 32, IntegerType::Signed))
      .Case("si64", IntegerType::get(context, 64, IntegerType::Signed))
      .Default(Type());
}

/// Reads `vtensor<[?,4096],bf16>`. Other forms of the type (no sizes, no
/// element type, sparsity) are not ranked tensors for our purpose.
static RankedTensorType parseVTensor(MLIRContext *context, StringRef text) {
  if (!text.consume_front("vtensor<[") || !text.consume_back(">"))
    return {};
  auto [sizes, elementText] = text.split("],");
  Type elementType = parseElementType(context, elementText.trim());
  if (!elementType)
    return {};
  SmallVector<int64_t> shape;
  while (!sizes.trim().empty()) {
    auto [size, rest] = sizes.split(',');
    size = size.trim();
    int64_t dim = ShapedType::kDynamic;
    if (size != "?" && (size.getAsInteger(10, dim) || dim < 0))
      return {};
    shape.push_back(dim);
    sizes = rest;
  }
  return RankedTensorType::get(shape, elementType);
}

RankedTensorType mlir::tandem::getRankedTensorType(Type type) {
  if (auto ranked = dyn_cast<RankedTensorType>(type))
    return ranked;
  // Where the torch dialect is not loaded the type is opaque text; where it is
  // loaded we have no C++ class for it and go by what it prints.
  if (auto opaque = dyn_cast<OpaqueType>(type)) {
    if (opaque.getDialectNamespace() != "torch")
      return {};
    return parseVTensor(type.getContext(), opaque.getTypeData());
  }
  if (type.getDialect().getNamespace() != "torch")
    return {};
  std::string text;
  llvm::raw_string_ostream(text) << type;
  StringRef rest = text;
  if (!rest.consume_front("!torch."))
    return {};
  return parseVTensor(type.getContext(), rest);
}
