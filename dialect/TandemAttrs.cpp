//===- TandemAttrs.cpp - Attributes of the tandem dialect ----- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/Tandem.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/SmallSet.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::tandem;

#include "tandem/Dialect/TandemEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "tandem/Dialect/TandemAttrs.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "tandem/Dialect/TandemTypes.cpp.inc"

void TandemDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "tandem/Dialect/TandemAttrs.cpp.inc"
      >();
}

void TandemDialect::registerTypes() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "tandem/Dialect/TandemTypes.cpp.inc"
      >();
}

/// Parses `, key = value` pairs up to `>`, each key at most once.
static ParseResult
parseFields(AsmParser &parser, ArrayRef<StringRef> keys,
            function_ref<ParseResult(StringRef key)> parseValue) {
  llvm::SmallSet<StringRef, 4> seen;
  while (succeeded(parser.parseOptionalComma())) {
    StringRef key;
    SMLoc loc = parser.getCurrentLocation();
    if (parser.parseKeyword(&key) || parser.parseEqual())
      return failure();
    if (!llvm::is_contained(keys, key))
      return parser.emitError(loc, "unknown field '")
             << key << "', expected one of: " << llvm::join(keys, ", ");
    if (!seen.insert(key).second)
      return parser.emitError(loc, "field '") << key << "' is given twice";
    if (parseValue(key))
      return failure();
  }
  return parser.parseGreater();
}

//===----------------------------------------------------------------------===//
// GroupAttr
//===----------------------------------------------------------------------===//

GroupAttr GroupAttr::getWorld(MLIRContext *context) {
  return get(context, "world", /*size=*/0, /*ranks=*/{});
}

Attribute GroupAttr::parse(AsmParser &parser, Type) {
  std::string name;
  int64_t size = 0;
  SmallVector<int64_t> ranks;
  if (parser.parseLess() || parser.parseString(&name))
    return {};
  auto parseValue = [&](StringRef key) -> ParseResult {
    if (key == "size")
      return parser.parseInteger(size);
    return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] {
      return parser.parseInteger(ranks.emplace_back());
    });
  };
  if (parseFields(parser, {"size", "ranks"}, parseValue))
    return {};
  return parser.getChecked<GroupAttr>(parser.getContext(), name, size,
                                      ArrayRef<int64_t>(ranks));
}

void GroupAttr::print(AsmPrinter &printer) const {
  printer << '<';
  printer.printString(getName());
  if (getSize() != 0)
    printer << ", size = " << getSize();
  if (!getRanks().empty()) {
    printer << ", ranks = [";
    llvm::interleaveComma(getRanks(), printer);
    printer << ']';
  }
  printer << '>';
}

LogicalResult GroupAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                StringRef name, int64_t size,
                                ArrayRef<int64_t> ranks) {
  if (name.empty())
    return emitError() << "group name is empty";
  if (size < 0)
    return emitError() << "group size is negative: " << size;
  if (ranks.empty())
    return success();
  if (size == 0)
    return emitError() << "group with ranks needs a size";
  if (ranks.size() % size != 0)
    return emitError() << "number of ranks (" << ranks.size()
                       << ") is not a multiple of the group size (" << size
                       << ")";
  llvm::SmallSet<int64_t, 8> seen;
  for (int64_t rank : ranks) {
    if (rank < 0)
      return emitError() << "rank is negative: " << rank;
    if (!seen.insert(rank).second)
      return emitError() << "rank " << rank << " is given twice";
  }
  return success();
}

//===----------------------------------------------------------------------===//
// ExternalDataAttr
//===----------------------------------------------------------------------===//

Attribute ExternalDataAttr::parse(AsmParser &parser, Type) {
  std::string location;
  int64_t offset = 0, length = -1;
  if (parser.parseLess() || parser.parseString(&location))
    return {};
  auto parseValue = [&](StringRef key) {
    return parser.parseInteger(key == "offset" ? offset : length);
  };
  if (parseFields(parser, {"offset", "length"}, parseValue))
    return {};
  return parser.getChecked<ExternalDataAttr>(parser.getContext(), location,
                                             offset, length);
}

void ExternalDataAttr::print(AsmPrinter &printer) const {
  printer << '<';
  printer.printString(getLocation());
  if (getOffset() != 0)
    printer << ", offset = " << getOffset();
  if (getLength() != -1)
    printer << ", length = " << getLength();
  printer << '>';
}

LogicalResult
ExternalDataAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                         StringRef location, int64_t offset, int64_t length) {
  if (location.empty())
    return emitError() << "location of external data is empty";
  if (offset < 0)
    return emitError() << "offset of external data is negative: " << offset;
  if (length < -1)
    return emitError() << "length of external data is negative: " << length;
  return success();
}
