//===- Handles.cpp - What the C interface gives out -----------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Handles.h"

#include "llvm/Config/llvm-config.h"
#include <mutex>
#include <unordered_map>

using namespace mlir::tandem::capi;

namespace {
struct Table {
  std::mutex mutex;
  std::unordered_map<uintptr_t, std::shared_ptr<void>> objects;
  uintptr_t next = 0;
};
} // namespace

/// Never destroyed: objects may be freed by destructors of the program's.
static Table &getTable() {
  static auto *table = new Table;
  return *table;
}

/// The kind takes the low bits, but one: an odd number is no one's pointer.
static constexpr unsigned kindBits = 4;
static bool isOfKind(Kind kind, uintptr_t handle) {
  return (handle & ((1u << kindBits) - 1)) ==
         ((static_cast<uintptr_t>(kind) << 1) | 1);
}

uintptr_t mlir::tandem::capi::addObject(Kind kind,
                                        std::shared_ptr<void> object) {
  Table &table = getTable();
  std::lock_guard<std::mutex> lock(table.mutex);
  uintptr_t handle =
      (++table.next << kindBits) | (static_cast<uintptr_t>(kind) << 1) | 1;
  table.objects.emplace(handle, std::move(object));
  return handle;
}

std::shared_ptr<void> mlir::tandem::capi::findObject(Kind kind,
                                                     uintptr_t handle) {
  if (!isOfKind(kind, handle))
    return nullptr;
  Table &table = getTable();
  std::lock_guard<std::mutex> lock(table.mutex);
  auto it = table.objects.find(handle);
  return it == table.objects.end() ? nullptr : it->second;
}

std::shared_ptr<void> mlir::tandem::capi::removeObject(Kind kind,
                                                       uintptr_t handle) {
  if (!isOfKind(kind, handle))
    return nullptr;
  Table &table = getTable();
  std::lock_guard<std::mutex> lock(table.mutex);
  auto it = table.objects.find(handle);
  if (it == table.objects.end())
    return nullptr;
  std::shared_ptr<void> object = std::move(it->second);
  table.objects.erase(it);
  return object;
}

TandemError mlir::tandem::capi::makeError(TandemErrorCode code,
                                          const llvm::Twine &message) {
  return addHandle<TandemError>(
      std::make_shared<Error>(Error{code, message.str()}));
}

TandemError mlir::tandem::capi::makeInvalidHandle(const char *what) {
  return makeError(TANDEM_ERROR_INVALID_HANDLE,
                   llvm::Twine("the ") + what +
                       " is null, destroyed, or not a " + what);
}

TandemBuffer mlir::tandem::capi::makeBuffer(std::string bytes) {
  return addHandle<TandemBuffer>(
      std::make_shared<Buffer>(Buffer{std::move(bytes)}));
}

//===----------------------------------------------------------------------===//
// The interface
//===----------------------------------------------------------------------===//

uint32_t tandemGetApiVersion(void) {
  return (TANDEM_C_VERSION_MAJOR << 16) | TANDEM_C_VERSION_MINOR;
}

const char *tandemGetVersion(void) {
  return "Tandem " TANDEM_VERSION " (MLIR " LLVM_VERSION_STRING ")";
}

TandemErrorCode tandemErrorGetCode(TandemError error) {
  if (!error)
    return TANDEM_OK;
  auto object = find(error);
  return object ? object->code : TANDEM_ERROR_INVALID_HANDLE;
}

const char *tandemErrorGetMessage(TandemError error) {
  auto object = find(error);
  return object ? object->message.c_str() : "";
}

void tandemErrorDestroy(TandemError error) { destroy(error); }

const char *tandemBufferGetData(TandemBuffer buffer) {
  auto object = find(buffer);
  return object ? object->bytes.c_str() : nullptr;
}

size_t tandemBufferGetSize(TandemBuffer buffer) {
  auto object = find(buffer);
  return object ? object->bytes.size() : 0;
}

void tandemBufferDestroy(TandemBuffer buffer) { destroy(buffer); }
