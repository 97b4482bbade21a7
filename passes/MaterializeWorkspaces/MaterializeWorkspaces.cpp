//===- MaterializeWorkspaces.cpp - Handles as arguments -------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Passes/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/SymbolTable.h"
#include "tandem/Dialect/Tandem.h"
#include "tandem/Passes/Lowering.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::tandem {
#define GEN_PASS_DEF_TANDEMMATERIALIZEWORKSPACES
#include "tandem/Passes/Passes.h.inc"
} // namespace mlir::tandem

using namespace mlir;
using namespace mlir::tandem;

namespace {
/// What a function needs to be given.
struct Needs {
  llvm::SetVector<GroupAttr> groups;
  bool stream = false;
  /// Where the arguments that were added are.
  SmallVector<unsigned> added;

  bool any() const { return stream || !groups.empty(); }
};

class Materializer {
public:
  LogicalResult run(ModuleOp module);

private:
  func::FuncOp getCallee(func::CallOp call) {
    return symbols.lookupNearestSymbolFrom<func::FuncOp>(call,
                                                         call.getCalleeAttr());
  }
  void collect(func::FuncOp function, Needs &needs,
               SmallPtrSetImpl<Operation *> &visited);
  LogicalResult verifyPlaces(ModuleOp module);
  LogicalResult verifyUses(ModuleOp module);
  void addArguments(func::FuncOp function, Needs &needs);
  void passHandles(func::FuncOp function);

  SymbolTableCollection symbols;
  llvm::MapVector<func::FuncOp, Needs> needed;
};
} // namespace

void mlir::tandem::dropSources(ModuleOp module) {
  module.walk([](Operation *op) {
    if (!isa<AllReduceOp, AddOp, RMSNormOp>(op))
      return;
    op->removeAttr("source_positions");
    Region &source = op->getRegion(0);
    source.dropAllReferences();
    source.getBlocks().clear();
  });
}

/// The group whose handle `op` lacks, null where it lacks none.
static GroupAttr getMissingGroup(Operation *op) {
  if (auto allReduce = dyn_cast<AllReduceOp>(op))
    return allReduce.getWorkspace() ? GroupAttr() : allReduce.getGroupAttr();
  if (auto fused = dyn_cast<FusedAllReduceNormOp>(op))
    return fused.getWorkspace() ? GroupAttr() : fused.getGroupAttr();
  if (auto limit = dyn_cast<TokenLimitOp>(op))
    return limit.getWorkspace() ? GroupAttr() : limit.getGroupAttr();
  return GroupAttr();
}

/// Whether `op` is put on a stream.
static bool needsStream(Operation *op) {
  return isa<AllReduceOp, FusedAllReduceNormOp, RMSNormOp, LaunchOp>(op);
}

/// Adds what `function` and its callees need, in the order in which the code
/// says it. `visited` keeps recursion finite; who has been there adds nothing
/// new.
void Materializer::collect(func::FuncOp function, Needs &needs,
                           SmallPtrSetImpl<Operation *> &visited) {
  // A worklist would get the order wrong and recursion would follow the
  // program's depth, so the places to go on from are kept by hand.
  struct Frame {
    SmallVector<Operation *> ops;
    size_t next = 0;
  };
  SmallVector<Frame> stack;
  auto enter = [&](func::FuncOp callee) {
    if (!visited.insert(callee).second)
      return;
    Frame frame;
    callee.walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (getMissingGroup(op) || needsStream(op) || isa<func::CallOp>(op))
        frame.ops.push_back(op);
    });
    stack.push_back(std::move(frame));
  };
  enter(function);
  while (!stack.empty()) {
    Frame &frame = stack.back();
    if (frame.next == frame.ops.size()) {
      stack.pop_back();
      continue;
    }
    Operation *op = frame.ops[frame.next++];
    if (GroupAttr group = getMissingGroup(op))
      needs.groups.insert(group);
    needs.stream |= needsStream(op);
    if (auto call = dyn_cast<func::CallOp>(op))
      if (func::FuncOp callee = getCallee(call))
        enter(callee);
  }
}

/// Collectives elsewhere than in a func.func have nobody to get a handle from.
LogicalResult Materializer::verifyPlaces(ModuleOp module) {
  WalkResult result = module.walk([](Operation *op) {
    if (!getMissingGroup(op) && !needsStream(op))
      return WalkResult::advance();
    auto function = op->getParentOfType<FunctionOpInterface>();
    if (isa_and_nonnull<func::FuncOp>(function))
      return WalkResult::advance();
    op->emitOpError("is not in a func.func, so it can't get a workspace");
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

/// Every use of a function that gets arguments must be a call that can pass
/// them.
LogicalResult Materializer::verifyUses(ModuleOp module) {
  WalkResult result = module.walk([&](Operation *op) {
    if (isa<func::CallOp>(op))
      return WalkResult::advance();
    func::FuncOp found;
    op->getAttrDictionary().walk([&](SymbolRefAttr reference) {
      auto function =
          symbols.lookupNearestSymbolFrom<func::FuncOp>(op, reference);
      auto *it = function ? needed.find(function) : needed.end();
      if (!found && it != needed.end() && it->second.any())
        found = function;
    });
    if (!found)
      return WalkResult::advance();
    InFlightDiagnostic diagnostic =
        op->emitError("@")
        << found.getSymName()
        << " reaches a collective, so it gets workspaces as arguments, which "
           "this use of it can't pass; only func.call can";
    diagnostic.attachNote(found.getLoc()) << "the function";
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

/// The argument of `function` that is `group`'s workspace.
static Value findWorkspace(func::FuncOp function, GroupAttr group) {
  for (BlockArgument argument : function.getArguments())
    if (function.getArgAttr(argument.getArgNumber(), groupArgAttrName) == group)
      return argument;
  return Value();
}

static Value findStream(func::FuncOp function) {
  for (BlockArgument argument : function.getArguments())
    if (isa<StreamType>(argument.getType()))
      return argument;
  return Value();
}

void Materializer::addArguments(func::FuncOp function, Needs &needs) {
  Builder builder(function.getContext());
  Value stream = findStream(function);
  unsigned place = stream ? cast<BlockArgument>(stream).getArgNumber()
                          : function.getNumArguments();
  auto add = [&](Type type, DictionaryAttr attributes) {
    needs.added.push_back(place);
    (void)function.insertArgument(place++, type, attributes, function.getLoc());
  };
  for (GroupAttr group : needs.groups)
    if (!findWorkspace(function, group))
      add(WorkspaceType::get(function.getContext()),
          builder.getDictionaryAttr(
              builder.getNamedAttr(groupArgAttrName, group)));
  if (needs.stream && !stream)
    add(StreamType::get(function.getContext()), builder.getDictionaryAttr({}));
}

/// Gives the function's own handles to its ops and calls.
void Materializer::passHandles(func::FuncOp function) {
  Value stream = findStream(function);
  function.walk([&](Operation *op) {
    Value workspace;
    if (GroupAttr group = getMissingGroup(op))
      workspace = findWorkspace(function, group);
    auto give = [&](auto concrete) {
      if (workspace)
        concrete.getWorkspaceMutable().assign(workspace);
      if (!concrete.getStream() && stream)
        concrete.getStreamMutable().assign(stream);
    };
    if (auto allReduce = dyn_cast<AllReduceOp>(op))
      return give(allReduce);
    if (auto fused = dyn_cast<FusedAllReduceNormOp>(op))
      return give(fused);
    if (auto launch = dyn_cast<LaunchOp>(op))
      return give(launch);
    if (auto limit = dyn_cast<TokenLimitOp>(op)) {
      if (workspace)
        limit.getWorkspaceMutable().assign(workspace);
      return;
    }
    auto call = dyn_cast<func::CallOp>(op);
    if (!call)
      return;
    func::FuncOp callee = getCallee(call);
    auto *it = callee ? needed.find(callee) : needed.end();
    if (it == needed.end())
      return;
    SmallVector<Value> operands(call.getOperands());
    for (unsigned place : it->second.added) {
      auto group = callee.getArgAttrOfType<GroupAttr>(place, groupArgAttrName);
      operands.insert(operands.begin() + place,
                      group ? findWorkspace(function, group) : stream);
    }
    call->setOperands(operands);
  });
}

LogicalResult Materializer::run(ModuleOp module) {
  dropSources(module);
  if (failed(verifyPlaces(module)))
    return failure();
  module.walk([&](func::FuncOp function) {
    SmallPtrSet<Operation *, 8> visited;
    Needs &needs = needed[function];
    if (!function.isExternal())
      collect(function, needs, visited);
  });
  if (failed(verifyUses(module)))
    return failure();
  for (auto &[function, needs] : needed)
    if (needs.any())
      addArguments(function, needs);
  for (auto &[function, needs] : needed)
    if (needs.any())
      passHandles(function);
  return success();
}

namespace {
struct MaterializeWorkspacesPass
    : public tandem::impl::TandemMaterializeWorkspacesBase<
          MaterializeWorkspacesPass> {
  void runOnOperation() override {
    if (failed(Materializer().run(getOperation())))
      signalPassFailure();
  }
};
} // namespace
