//===- CompiledModule.h - A module made by fusion-translate --compile  -*- C++
//-*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TOOLS_FUSIONRUN_COMPILEDMODULE_H
#define TANDEM_TOOLS_FUSIONRUN_COMPILEDMODULE_H

#include <cstdint>
#include <string>
#include <vector>

namespace tandem::run {

/// An argument or a result.
struct ValueInfo {
  std::string name, type;
  bool isScalar = false;             ///< passed by value
  std::vector<int64_t> shape;        ///< -1: not static
  std::vector<std::string> dimNames; ///< "": none
  bool isWritable = false;
};

/// A group of ranks that a function communicates in.
struct GroupInfo {
  std::string name;
  int64_t size = 0; ///< 0: not known
  std::vector<int64_t> ranks;
  int64_t hidden = 0;
  std::vector<std::string> types;
  bool isFused = false, isBatchInvariant = false;
};

/// Calls a function with the addresses of its arguments (of the pointers to
/// descriptors, for tensors); a tandem_status.
using PackedFunction = int32_t (*)(void **arguments);

struct FunctionInfo {
  std::string name;
  std::vector<ValueInfo> arguments, results;
  std::vector<GroupInfo> groups;
  bool takesStream = false;
  bool runsOnDevice = false; ///< touches no element outside of the runtime
  PackedFunction call = nullptr;
  PackedFunction shapes = nullptr; ///< null: sizes of results aren't known
  std::string noShapesReason;      ///< why not
};

/// A shared object in this process. It stays loaded, since code that has run
/// may have left anything behind.
class CompiledModule {
public:
  /// Loads the file; false and `error` (a sentence with its name) on failure.
  bool load(const std::string &path, std::string &error);

  /// The function of this name; null and `error` if there is none.
  const FunctionInfo *find(const std::string &name, std::string &error) const;

  /// Lines of the signature that ranks compare, joined; empty: none.
  const std::string &getSignature() const { return signature; }

  /// What the last call on this thread that returned INVALID_ARGUMENT said of
  /// itself; "" where it said nothing.
  std::string getLastMessage() const;

private:
  std::string path, signature;
  std::vector<FunctionInfo> functions;
  const char *(*lastMessage)() = nullptr;
};

} // namespace tandem::run

#endif // TANDEM_TOOLS_FUSIONRUN_COMPILEDMODULE_H
