//===- Support.cpp - What compiled modules bring along --------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Support.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;
using namespace mlir::tandem;

/// The buffers that a thread's call has are a list, so that they can be freed
/// from wherever the call fails. In front of each lies what is behind it in the
/// list, and the address of the pointer to it.
static constexpr StringRef text = R"mlir(
llvm.mlir.global internal thread_local @tandem_module_message() : !llvm.ptr {
  %null = llvm.mlir.zero : !llvm.ptr
  llvm.return %null : !llvm.ptr
}
llvm.mlir.global internal thread_local @tandem_module_buffers() : !llvm.ptr {
  %null = llvm.mlir.zero : !llvm.ptr
  llvm.return %null : !llvm.ptr
}
llvm.func @malloc(i64) -> !llvm.ptr
llvm.func @free(!llvm.ptr)
llvm.func @tandem_workspace_fail(!llvm.ptr, i32, !llvm.ptr) -> i32

llvm.func @tandem_module_last_message() -> !llvm.ptr {
  %place = llvm.mlir.addressof @tandem_module_message : !llvm.ptr
  %message = llvm.load %place : !llvm.ptr -> !llvm.ptr
  llvm.return %message : !llvm.ptr
}

llvm.func internal @_mlir_memref_to_llvm_alloc(%bytes: i64)
    -> (!llvm.ptr {llvm.noalias}) attributes {no_inline} {
  %header = llvm.mlir.constant(16 : i64) : i64
  %all = llvm.add %bytes, %header : i64
  %node = llvm.call @malloc(%all) : (i64) -> !llvm.ptr
  %null = llvm.mlir.zero : !llvm.ptr
  %isNone = llvm.icmp "eq" %node, %null : !llvm.ptr
  llvm.cond_br %isNone, ^none, ^insert
^none:
  llvm.return %null : !llvm.ptr
^insert:
  %head = llvm.mlir.addressof @tandem_module_buffers : !llvm.ptr
  %next = llvm.load %head : !llvm.ptr -> !llvm.ptr
  %place = llvm.getelementptr %node[8] : (!llvm.ptr) -> !llvm.ptr, i8
  llvm.store %next, %node : !llvm.ptr, !llvm.ptr
  llvm.store %head, %place : !llvm.ptr, !llvm.ptr
  llvm.store %node, %head : !llvm.ptr, !llvm.ptr
  %isLast = llvm.icmp "eq" %next, %null : !llvm.ptr
  llvm.cond_br %isLast, ^done, ^link
^link:
  %nextPlace = llvm.getelementptr %next[8] : (!llvm.ptr) -> !llvm.ptr, i8
  llvm.store %node, %nextPlace : !llvm.ptr, !llvm.ptr
  llvm.br ^done
^done:
  %data = llvm.getelementptr %node[16] : (!llvm.ptr) -> !llvm.ptr, i8
  llvm.return %data : !llvm.ptr
}

llvm.func internal @_mlir_memref_to_llvm_free(%data: !llvm.ptr) attributes {no_inline} {
  %null = llvm.mlir.zero : !llvm.ptr
  %isNone = llvm.icmp "eq" %data, %null : !llvm.ptr
  llvm.cond_br %isNone, ^none, ^remove
^none:
  llvm.return
^remove:
  %node = llvm.getelementptr %data[-16] : (!llvm.ptr) -> !llvm.ptr, i8
  %ownPlace = llvm.getelementptr %data[-8] : (!llvm.ptr) -> !llvm.ptr, i8
  %next = llvm.load %node : !llvm.ptr -> !llvm.ptr
  %place = llvm.load %ownPlace : !llvm.ptr -> !llvm.ptr
  llvm.store %next, %place : !llvm.ptr, !llvm.ptr
  %isLast = llvm.icmp "eq" %next, %null : !llvm.ptr
  llvm.cond_br %isLast, ^done, ^link
^link:
  %nextPlace = llvm.getelementptr %next[8] : (!llvm.ptr) -> !llvm.ptr, i8
  llvm.store %place, %nextPlace : !llvm.ptr, !llvm.ptr
  llvm.br ^done
^done:
  llvm.call @free(%node) : (!llvm.ptr) -> ()
  llvm.return
}

llvm.func internal @tandem_module_release() attributes {no_inline} {
  %null = llvm.mlir.zero : !llvm.ptr
  %head = llvm.mlir.addressof @tandem_module_buffers : !llvm.ptr
  llvm.br ^next
^next:
  %node = llvm.load %head : !llvm.ptr -> !llvm.ptr
  %isNone = llvm.icmp "eq" %node, %null : !llvm.ptr
  llvm.cond_br %isNone, ^done, ^free
^free:
  %next = llvm.load %node : !llvm.ptr -> !llvm.ptr
  llvm.store %next, %head : !llvm.ptr, !llvm.ptr
  llvm.call @free(%node) : (!llvm.ptr) -> ()
  llvm.br ^next
^done:
  llvm.return
}
)mlir";

LogicalResult mlir::tandem::addSupport(ModuleOp module) {
  OwningOpRef<ModuleOp> support =
      parseSourceString<ModuleOp>(text, ParserConfig(module.getContext()));
  if (!support)
    return failure();
  SmallVector<Operation *> ops;
  for (Operation &op : support->getOps()) {
    ops.push_back(&op);
    StringRef name = SymbolTable::getSymbolName(&op).getValue();
    if (Operation *taken = SymbolTable::lookupSymbolIn(module, name))
      return taken->emitError("the name '")
             << name << "' is used by compiled modules";
  }
  for (Operation *op : ops)
    op->moveBefore(module.getBody(), module.getBody()->end());
  return success();
}
