//===- Handles.h - What the C interface gives out ---------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A handle is a number in the clothes of a pointer. Numbers are not used again,
// so a destroyed handle is known as such, and nothing is read through it.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CAPI_HANDLES_H
#define TANDEM_LIB_CAPI_HANDLES_H

#include "tandem-c/Tandem.h"

#include "llvm/ADT/Twine.h"
#include <cstring>
#include <memory>
#include <string>

namespace mlir::tandem::capi {

struct Context;
struct Module;
struct Error {
  TandemErrorCode code;
  std::string message;
};
struct Buffer {
  std::string bytes;
};

enum class Kind : unsigned { Error = 1, Buffer, Context, Module };

template <typename Handle>
struct HandleTraits;
template <>
struct HandleTraits<TandemError> {
  using Object = Error;
  static constexpr Kind kind = Kind::Error;
};
template <>
struct HandleTraits<TandemBuffer> {
  using Object = Buffer;
  static constexpr Kind kind = Kind::Buffer;
};
template <>
struct HandleTraits<TandemContext> {
  using Object = Context;
  static constexpr Kind kind = Kind::Context;
};
template <>
struct HandleTraits<TandemModule> {
  using Object = Module;
  static constexpr Kind kind = Kind::Module;
};

/// Makes a number for an object, finds the object of a number (null where there
/// is none of that kind), forgets it. Safe on any thread.
uintptr_t addObject(Kind kind, std::shared_ptr<void> object);
std::shared_ptr<void> findObject(Kind kind, uintptr_t handle);
std::shared_ptr<void> removeObject(Kind kind, uintptr_t handle);

template <typename Handle>
Handle
addHandle(std::shared_ptr<typename HandleTraits<Handle>::Object> object) {
  // A handle is a number to the table, and nothing to a program.
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  return reinterpret_cast<Handle>(
      addObject(HandleTraits<Handle>::kind, std::move(object)));
}
template <typename Handle>
std::shared_ptr<typename HandleTraits<Handle>::Object> find(Handle handle) {
  return std::static_pointer_cast<typename HandleTraits<Handle>::Object>(
      findObject(HandleTraits<Handle>::kind,
                 reinterpret_cast<uintptr_t>(handle)));
}
/// The object itself dies with its last user, outside of the table's lock.
template <typename Handle>
void destroy(Handle handle) {
  removeObject(HandleTraits<Handle>::kind, reinterpret_cast<uintptr_t>(handle));
}

/// Makes an error.
TandemError makeError(TandemErrorCode code, const llvm::Twine &message);
TandemError makeInvalidHandle(const char *what);

TandemBuffer makeBuffer(std::string bytes);

/// Reads a caller's struct, of which a newer or older version may have more or
/// fewer fields than ours. `result` holds the defaults. Null stands for them.
template <typename T>
TandemError readOptions(const T *given, T &result, const char *what) {
  if (!given)
    return nullptr;
  size_t size = given->structSize;
  // Some have nothing but their size and one field.
  constexpr size_t fewest = offsetof(T, structSize) + 2 * sizeof(size_t);
  if (size < std::min(sizeof(T), fewest))
    return makeError(TANDEM_ERROR_INVALID_ARGUMENT,
                     llvm::Twine(what) +
                         ": structSize is not set; start from the INIT macro");
  std::memcpy(&result, given, std::min(size, sizeof(T)));
  return nullptr;
}

} // namespace mlir::tandem::capi

#endif // TANDEM_LIB_CAPI_HANDLES_H
