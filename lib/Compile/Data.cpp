//===- Data.cpp - Large constants -----------------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// A model's weights as LLVM constants would be copied several times over on
// their way into an object file. They are written to a file instead, which the
// assembler puts into the object as it is.
//
//===----------------------------------------------------------------------===//

#include "Stages.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/DialectResourceBlobManager.h"

using namespace mlir;
using namespace mlir::tandem;

/// Code reaches data by addresses relative to its own, of 32 bits.
static constexpr uint64_t maxBytes = uint64_t(1) << 31;

/// LLVM makes something of smaller constants whose elements are all one.
static constexpr uint64_t minSplatBytes = uint64_t(1) << 20;

/// The size of all elements in memory, and of one; std::nullopt where they are
/// no whole bytes.
static std::optional<std::pair<uint64_t, unsigned>> getSize(Attribute value) {
  auto elements = dyn_cast_or_null<ElementsAttr>(value);
  if (!elements)
    return std::nullopt;
  Type type = elements.getShapedType().getElementType();
  if (!type.isIntOrFloat() || type.getIntOrFloatBitWidth() % 8 != 0)
    return std::nullopt;
  unsigned bytes = type.getIntOrFloatBitWidth() / 8;
  return std::make_pair(
      static_cast<uint64_t>(elements.getNumElements()) * bytes, bytes);
}

/// The elements as they lie in memory; std::nullopt where that is not what the
/// attribute holds.
static std::optional<ArrayRef<char>> getBytes(Attribute value, uint64_t size) {
  ArrayRef<char> bytes;
  if (auto resource = dyn_cast<DenseResourceElementsAttr>(value)) {
    AsmResourceBlob *blob = resource.getRawHandle().getBlob();
    if (!blob)
      return std::nullopt;
    bytes = blob->getData();
  } else if (auto dense = dyn_cast<DenseElementsAttr>(value)) {
    if (dense.isSplat())
      return std::nullopt;
    bytes = dense.getRawData();
  } else {
    return std::nullopt;
  }
  if (bytes.size() != size)
    return std::nullopt;
  return bytes;
}

/// Where all elements are one, its bytes.
static std::optional<ArrayRef<char>> getSplat(Attribute value, unsigned one) {
  auto dense = dyn_cast<DenseElementsAttr>(value);
  if (!dense || !dense.isSplat() || dense.getRawData().size() != one)
    return std::nullopt;
  return dense.getRawData();
}

FailureOr<SmallVector<compile::DataSymbol>>
mlir::tandem::compile::extractData(ModuleOp module, uint64_t minBytes,
                                   raw_ostream &os) {
  SmallVector<DataSymbol> symbols;
  uint64_t offset = 0, total = 0;
  unsigned number = 0;
  SmallVector<LLVM::GlobalOp> globals(module.getOps<LLVM::GlobalOp>());
  for (LLVM::GlobalOp global : globals) {
    Attribute value = global.getValueOrNull();
    auto size = getSize(value);
    if (!size || size->first < minBytes || !global.getConstant())
      continue;
    auto [all, one] = *size;
    total += all;
    if (all > maxBytes || total > maxBytes)
      return emitError(global.getLoc())
             << "constants take more than " << maxBytes
             << " bytes, which one shared object can't hold; make some of them "
                "arguments";
    std::optional<ArrayRef<char>> bytes = getBytes(value, all), splat;
    if (!bytes && all >= minSplatBytes)
      splat = getSplat(value, one);
    if (!bytes && !splat)
      continue;
    os.write_zeros((64 - offset % 64) % 64);
    offset = llvm::alignTo(offset, 64);
    // A name that nobody else has.
    std::string name;
    do
      name = "tandem_data_" + std::to_string(number++);
    while (module.lookupSymbol(name));
    if (bytes)
      os.write(bytes->data(), all);
    else
      for (uint64_t i = 0; i < all; i += one)
        os.write(splat->data(), one);
    symbols.push_back({name, offset, all});
    offset += all;
    if (failed(SymbolTable::replaceAllSymbolUses(
            global, StringAttr::get(module.getContext(), name), module)))
      llvm_unreachable("a module's symbols are all known");
    global.setSymName(name);
    global.removeValueAttr();
    global.setLinkage(LLVM::Linkage::External);
    global.setVisibility_(LLVM::Visibility::Hidden);
    global.setDsoLocal(true);
    global.setUnnamedAddr(std::nullopt);
    global.setAlignment(64);
  }
  return symbols;
}
