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
#include "llvm/ADT/SmallPtrSet.h"
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

/// Whether moving `op` among others changes nothing: a node of ai.onnx computes
/// its outputs from its inputs.
static bool isMovable(Operation *op) {
  StringRef name = op->getName().getStringRef();
  return op->getNumRegions() == 0 && name.consume_front("onnx.") &&
         name != "Custom" && name != "Yield";
}

/// `ops` as CallBody says.
static SmallVector<Operation *> inOrderOfUse(ArrayRef<Operation *> ops) {
  llvm::SmallPtrSet<Operation *, 16> left(ops.begin(), ops.end());
  SmallVector<Operation *> order;
  order.reserve(ops.size());
  // An op, and the next of its operands to look at. A list, since bodies may
  // be deep.
  SmallVector<std::pair<Operation *, unsigned>, 16> path;
  auto take = [&](Operation *op) {
    if (!left.erase(op))
      return;
    path.push_back({op, 0});
    while (!path.empty()) {
      auto &[current, next] = path.back();
      if (next == current->getNumOperands()) {
        order.push_back(current);
        path.pop_back();
        continue;
      }
      Operation *definition = current->getOperand(next++).getDefiningOp();
      if (definition && left.erase(definition))
        path.push_back({definition, 0});
    }
  };
  llvm::SmallPtrSet<Operation *, 16> members(left);
  for (Operation *op : ops) {
    bool isRead = llvm::any_of(op->getUsers(), [&](Operation *user) {
      return members.contains(op->getBlock()->findAncestorOpInBlock(*user));
    });
    // What a body captures is read before the op around it.
    if (op->getNumRegions() != 0)
      op->walk([&](Operation *inner) {
        for (Value operand : inner->getOperands())
          if (Operation *definition = operand.getDefiningOp())
            take(definition);
      });
    if (!isRead || !isMovable(op))
      take(op);
  }
  return order;
}

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
      SmallVector<Operation *> nested;
      for (Operation &inner : block)
        nested.push_back(&inner);
      for (Operation *inner : inOrderOfUse(nested))
        print(inner);
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
  for (Operation *op : inOrderOfUse(ops)) {
    printer.print(op);
    llvm::append_range(body.results, op->getResults());
  }
  body.hash = printer.hash();
  return body;
}
