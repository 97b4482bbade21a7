//===- AllReduceNames.cpp - All-reduces of spellings that are not known ---===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Only for messages: a name alone decides nothing here, and no pass changes
// what it does because of it.
//
//===----------------------------------------------------------------------===//

#include "tandem/Passes/Raise.h"

#include "tandem/OnnxOps/OnnxOps.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::tandem;

/// Whether `name` has the words "all" and "reduce" next to each other, in any
/// spelling: all_reduce, AllReduce, ncclallreduce; not SmallReducer.
static bool saysAllReduce(StringRef name) {
  // Nearly all names end here.
  if (!name.contains_insensitive("reduce"))
    return false;
  for (size_t at = name.find_insensitive("all"); at != StringRef::npos;
       at = name.find_insensitive("all", at + 1)) {
    StringRef rest = name.drop_front(at + 3);
    StringRef next = rest.drop_until(llvm::isAlnum);
    if (!next.starts_with_insensitive("reduce"))
      continue;
    bool startsWord =
        at == 0 || !llvm::isAlpha(name[at - 1]) || llvm::isUpper(name[at]);
    bool isOneWord = next.size() == rest.size() && llvm::isLower(next.front());
    if (startsWord || isOneWord)
      return true;
  }
  return false;
}

std::string mlir::tandem::getAllReduceLookAlike(Operation *op) {
  StringRef name = op->getName().getStringRef();
  OnnxNode node(op);
  if (node.is("DistCollective")) {
    StringRef kind = node.getString("collective_operation").value_or("");
    if (!saysAllReduce(kind) || kind.equals_insensitive("all_reduce"))
      return {};
    return ("DistCollective with collective_operation " + kind).str();
  }
  if (!node) {
    if (StringRef torchName = getTorchOperatorName(op); !torchName.empty())
      name = torchName;
    // Those of the gpu dialect reduce within a work group; the others are
    // known, whether they match or not.
    StringRef dialect = op->getName().getDialectNamespace();
    if (dialect == "gpu" || dialect == "shard" || dialect == "tandem")
      return {};
  } else {
    name = node.getOpType();
  }
  if (!saysAllReduce(name))
    return {};
  // One that is known, but not well-formed, has a reason of its own.
  std::optional<MatchFailure> why;
  if (succeeded(matchAllReduce(op, &why)) || why)
    return {};
  if (!node || !node.isDomainKnown())
    return name.str();
  return (name + " of domain " + domainName(node.getDomain())).str();
}

StringRef mlir::tandem::getAllReduceSpellings() {
  return "AllReduce and NcclAllReduce of com.microsoft, DistCollective of "
         "ai.onnx with collective_operation all_reduce, AllReducePlugin of "
         "trt_edgellm, all_reduce of _c10d_functional, shard.all_reduce and "
         "tandem.all_reduce";
}
