//===- Compile.h - MODEL to a shared object ------------------- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TOOLS_FUSIONRUN_COMPILE_H
#define TANDEM_TOOLS_FUSIONRUN_COMPILE_H

#include <string>
#include <vector>

namespace tandem::run {

/// Whether the file of this name has to be compiled first.
bool needsCompiling(const std::string &model);

/// A folder for temporary files, removed with all in it.
class TemporaryFolder {
public:
  ~TemporaryFolder();
  TemporaryFolder() = default;
  TemporaryFolder(const TemporaryFolder &) = delete;
  TemporaryFolder &operator=(const TemporaryFolder &) = delete;

  /// Makes the folder; false and `error` on failure.
  bool make(std::string &error);
  const std::string &getPath() const { return path; }

private:
  std::string path;
};

/// Compiles `model` to `output` with the fusion-translate that lies beside this
/// program, or else is found on the PATH. Its errors go to standard error, and
/// `error` stays empty then. Returns whether it went well.
///
/// Another process, and the same shared object that --compile makes, rather
/// than a compiler in this one: so this program needs no LLVM, the ranks share
/// one copy of the code and of the weights, and what is run is what can be
/// shipped.
bool compileModel(const std::string &model, const std::string &output,
                  const std::vector<std::string> &flags, std::string &error);

} // namespace tandem::run

#endif // TANDEM_TOOLS_FUSIONRUN_COMPILE_H
