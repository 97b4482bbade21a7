//===- Graph.cpp - A module as a graph, for drawing -----------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Graph.h"

#include "mlir/Interfaces/FunctionInterfaces.h"
#include "tandem/Passes/FusionReport.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

static std::string getLabel(Operation *op) {
  auto name = op->getAttrOfType<StringAttr>("function_name");
  auto domain = op->getAttrOfType<StringAttr>("domain_name");
  if (!name || !domain)
    return op->getName().getStringRef().str();
  return (domain.getValue() + "::" + name.getValue()).str();
}

/// Which of its op's results or block's arguments a value is.
static int64_t getNumber(Value value) {
  if (auto result = dyn_cast<OpResult>(value))
    return result.getResultNumber();
  return cast<BlockArgument>(value).getArgNumber();
}

/// What may not be UTF-8, for it comes from the model.
static std::string fixed(llvm::StringRef text) {
  return llvm::json::isUTF8(text) ? text.str() : llvm::json::fixUTF8(text);
}

void mlir::tandem::capi::writeGraph(ModuleOp module, llvm::raw_ostream &os) {
  llvm::DenseMap<Operation *, int64_t> ids;
  module->walk<WalkOrder::PreOrder>(
      [&](Operation *op) { ids.try_emplace(op, ids.size()); });

  llvm::json::OStream json(os);
  json.objectBegin();
  json.attributeBegin("ops");
  json.arrayBegin();
  module->walk<WalkOrder::PreOrder>([&](Operation *op) {
    auto function = op->getParentOfType<FunctionOpInterface>();
    if (!function)
      return;
    json.object([&] {
      json.attribute("id", ids.lookup(op));
      json.attribute("function", fixed(function.getName().str()));
      json.attribute("op", fixed(getLabel(op)));
      json.attribute("location", fixed(getLocationText(op->getLoc())));
      json.attributeArray("types", [&] {
        for (Type type : op->getResultTypes()) {
          std::string text;
          llvm::raw_string_ostream(text) << type;
          json.value(text);
        }
      });
      json.attributeArray("inputs", [&] {
        for (Value operand : op->getOperands()) {
          if (Operation *producer = operand.getDefiningOp())
            json.value(ids.lookup(producer));
          else
            json.value(-1 - getNumber(operand));
        }
      });
      json.attributeArray("input_results", [&] {
        for (Value operand : op->getOperands())
          json.value(getNumber(operand));
      });
      if (op->getName().getDialectNamespace() != "tandem")
        return;
      json.attributeObject("attributes", [&] {
        for (NamedAttribute attribute : op->getAttrDictionary()) {
          std::string text;
          llvm::raw_string_ostream(text) << attribute.getValue();
          json.attribute(attribute.getName().strref(), fixed(text));
        }
      });
    });
  });
  json.arrayEnd();
  json.attributeEnd();
  json.objectEnd();
}
