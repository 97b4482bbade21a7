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

/// The elements as they lie in memory; std::nullopt where that is not what the
/// attribute holds.
static std::optional<ArrayRef<char>> getBytes(Attribute value) {
  auto elements = dyn_cast_or_null<ElementsAttr>(value);
  if (!elements)
    return std::nullopt;
  Type type = elements.getShapedType().getElementType();
  if (!type.isIntOrFloat() || type.getIntOrFloatBitWidth() % 8 != 0)
    return std::nullopt;
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
  uint64_t size = static_cast<uint64_t>(elements.getNumElements()) *
                  (type.getIntOrFloatBitWidth() / 8);
  if (bytes.size() != size)
    return std::nullopt;
  return bytes;
}

SmallVector<compile::DataSymbol>
mlir::tandem::compile::extractData(ModuleOp module, uint64_t minBytes,
                                   raw_ostream &os) {
  SmallVector<DataSymbol> symbols;
  uint64_t offset = 0;
  unsigned number = 0;
  SmallVector<LLVM::GlobalOp> globals(module.getOps<LLVM::GlobalOp>());
  for (LLVM::GlobalOp global : globals) {
    std::optional<ArrayRef<char>> bytes = getBytes(global.getValueOrNull());
    if (!bytes || bytes->size() < minBytes || !global.getConstant())
      continue;
    os.write_zeros((64 - offset % 64) % 64);
    offset = llvm::alignTo(offset, 64);
    // A name that nobody else has.
    std::string name;
    do
      name = "tandem_data_" + std::to_string(number++);
    while (module.lookupSymbol(name));
    os.write(bytes->data(), bytes->size());
    symbols.push_back({name, offset, bytes->size()});
    offset += bytes->size();
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
