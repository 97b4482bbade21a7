//===- CallBody.cpp - The ops that a call was inlined to ------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/OnnxOps/CallBody.h"

#include "mlir/IR/Block.h"
#include "mlir/IR/Region.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;
using namespace mlir::tandem;

namespace {
/// Writes ops as text in which values have numbers.
class BodyPrinter {
public:
  explicit BodyPrinter(CallBody &body) : body(body), os(text) {}

  void print(Operation *op);
  uint64_t hash() {
    flush();
    return llvm::xxh3_64bits(parts);
  }

private:
  void print(Value value);
  void define(Value value) { internal.try_emplace(value, internal.size()); }
  /// Long bodies are hashed piece by piece.
  void flush() {
    parts += std::to_string(llvm::xxh3_64bits(text));
    text.clear();
  }

  CallBody &body;
  llvm::DenseMap<Value, size_t> internal, external;
  std::string text, parts;
  llvm::raw_string_ostream os;
};
} // namespace

void BodyPrinter::print(Value value) {
  Operation *definition = value.getDefiningOp();
  if (definition && definition->getName().getStringRef() == "onnx.NoValue") {
    os << " none";
    return;
  }
  if (auto known = internal.find(value); known != internal.end()) {
    os << " %" << known->second;
    return;
  }
  auto [entry, isNew] = external.try_emplace(value, external.size());
  if (isNew)
    body.externals.push_back(value);
  os << " ^" << entry->second;
}

void BodyPrinter::print(Operation *op) {
  os << op->getName();
  for (Value operand : op->getOperands())
    print(operand);
  for (NamedAttribute attribute : op->getAttrs())
    if (attribute.getName() != callAttrName)
      os << ' ' << attribute.getName().getValue() << '='
         << attribute.getValue();
  for (Type type : op->getResultTypes())
    os << " : " << type;
  for (Value result : op->getResults())
    define(result);
  for (Region &region : op->getRegions()) {
    os << " {";
    for (Block &block : region) {
      for (BlockArgument argument : block.getArguments()) {
        os << " (" << argument.getType() << ')';
        define(argument);
      }
      for (Operation &nested : block)
        print(&nested);
    }
    os << " }";
  }
  os << '\n';
  if (text.size() > 1 << 16)
    flush();
}

CallBody mlir::tandem::describeCallBody(ArrayRef<Operation *> ops) {
  CallBody body;
  BodyPrinter printer(body);
  for (Operation *op : ops) {
    printer.print(op);
    llvm::append_range(body.results, op->getResults());
  }
  body.hash = printer.hash();
  return body;
}
