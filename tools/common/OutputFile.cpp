//===- OutputFile.cpp - An output file written whole or not at all --------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OutputFile.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mlir::tandem;
namespace fs = llvm::sys::fs;

OutputFile::~OutputFile() {
  if (stream)
    stream->flush();
  // An error that nobody asked about would end the process.
  if (stream && stream->has_error())
    stream->clear_error();
  owned.reset();
  if (temporary)
    llvm::consumeError(temporary->discard());
}

static LogicalResult fail(StringRef path, const Twine &reason,
                          std::string &error) {
  error = path == "-" ? ("cannot write to standard output: " + reason).str()
                      : ("cannot write '" + path + "': " + reason).str();
  return failure();
}

/// Graphs are megabytes of text, and the streams' own choice is a page.
static constexpr size_t bufferSize = 1 << 16;

LogicalResult OutputFile::open(StringRef requested, std::string &error) {
  path = requested.str();
  if (path == "-") {
    stream = &llvm::outs();
    return success();
  }

  fs::file_status status;
  bool exists = !fs::status(path, status) && fs::exists(status);
  if (exists && fs::is_directory(status))
    return fail(path, "it is a folder", error);
  if (exists && !fs::is_regular_file(status)) {
    std::error_code ec;
    owned = std::make_unique<llvm::raw_fd_ostream>(path, ec);
    if (ec)
      return fail(path, ec.message(), error);
    owned->SetBufferSize(bufferSize);
    stream = owned.get();
    return success();
  }

  // Replace what a link points to, not the link.
  if (exists) {
    llvm::SmallString<256> real;
    if (!fs::real_path(path, real))
      path = real.str().str();
  }
  llvm::Expected<fs::TempFile> file = fs::TempFile::create(
      path + ".tmp-%%%%%%%%", fs::all_read | fs::all_write);
  if (!file)
    return fail(requested, llvm::toString(file.takeError()), error);
  temporary.emplace(std::move(*file));
  owned = std::make_unique<llvm::raw_fd_ostream>(temporary->FD,
                                                 /*shouldClose=*/false);
  owned->SetBufferSize(bufferSize);
  stream = owned.get();
  return success();
}

LogicalResult OutputFile::commit(std::string &error) {
  stream->flush();
  if (stream->has_error()) {
    std::error_code ec = stream->error();
    stream->clear_error();
    return fail(path, ec.message(), error);
  }
  owned.reset();
  stream = nullptr;
  if (!temporary)
    return success();
  llvm::Error kept = temporary->keep(path);
  temporary.reset();
  if (kept)
    return fail(path, llvm::toString(std::move(kept)), error);
  return success();
}
