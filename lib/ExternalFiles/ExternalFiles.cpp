//===- ExternalFiles.cpp - The files beside a model -----------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ExternalData.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

using namespace mlir::tandem::onnx;
using llvm::SmallString;
using llvm::StringRef;
using llvm::Twine;
namespace fs = llvm::sys::fs;

bool mlir::tandem::onnx::checkExternalLocation(StringRef location,
                                               std::string &error) {
  auto refuse = [&](const Twine &why) {
    error = ("has the external data location '" + location + "', " + why).str();
    return false;
  };
  if (location.empty())
    return refuse("which is empty");
  if (location.contains('\0'))
    return refuse("which contains a NUL character");
  // A model may have been written on Windows, so both separators and drive
  // letters count on every host.
  bool hasDrive =
      location.size() >= 2 && llvm::isAlpha(location[0]) && location[1] == ':';
  if (location.front() == '/' || location.front() == '\\' || hasDrive)
    return refuse(
        "which is an absolute path; it must be relative to the model's folder");
  for (StringRef rest = location; !rest.empty();) {
    size_t end = rest.find_first_of("/\\");
    if (rest.substr(0, end) == "..")
      return refuse("which contains '..'; it must stay in the model's folder");
    rest = end == StringRef::npos ? StringRef() : rest.drop_front(end + 1);
  }
  return true;
}

bool ExternalFiles::isInside(StringRef realPath) {
  if (followsLinks)
    return true;
  if (realFolder.empty()) {
    SmallString<256> real;
    if (fs::real_path(folder.empty() ? "." : folder, real))
      return false;
    realFolder = std::string(real);
    if (!llvm::StringRef(realFolder).ends_with("/"))
      realFolder += '/';
  }
  // The folder itself leads nowhere, and is no regular file.
  return realPath.starts_with(realFolder) ||
         realPath == StringRef(realFolder).drop_back();
}

bool ExternalFiles::check(StringRef location, std::string &error) {
  auto [entry, isNew] = checked.try_emplace(location);
  if (isNew) {
    std::string &why = entry->second;
    SmallString<256> path(folder);
    llvm::sys::path::append(path, location);
    SmallString<256> real;
    if (checkExternalLocation(location, why) && !folder.empty() &&
        !fs::real_path(path, real) && !isInside(real))
      why = ("has the external data location '" + location +
             "', which is a symbolic link that leads out of the model's "
             "folder, to '" +
             real +
             "'; links are followed if --external-data-dir names the folder "
             "they are in")
                .str();
  }
  error = entry->second;
  return error.empty();
}

bool ExternalFiles::read(const ExternalRef &ref, uint64_t size,
                         llvm::SmallVectorImpl<char> &bytes,
                         std::string &error) {
  if (!check(ref.location, error))
    return false;
  if (folder.empty()) {
    error = "is needed, but is external data of a model that was "
            "read from memory; say where the folder is";
    return false;
  }
  SmallString<256> path(folder);
  llvm::sys::path::append(path, ref.location);
  auto refuse = [&](const Twine &why) {
    error =
        ("is needed, but its external data file '" + path + "' " + why).str();
    return false;
  };
  // Opening a FIFO would block.
  fs::file_status status;
  if (std::error_code code = fs::status(path, status))
    return refuse("cannot be read: " + code.message());
  if (!fs::is_regular_file(status))
    return refuse("is not a regular file");
  SmallString<256> real;
  llvm::Expected<fs::file_t> file =
      fs::openNativeFileForRead(path, fs::OF_None, &real);
  if (!file)
    return refuse("cannot be read: " + llvm::toString(file.takeError()));
  llvm::scope_exit close([&] { (void)fs::closeFile(*file); });
  if (!isInside(real))
    return refuse("leads out of the model's folder");
  if (std::error_code code = fs::status(*file, status))
    return refuse("cannot be read: " + code.message());
  uint64_t offset = static_cast<uint64_t>(ref.offset);
  if (offset > status.getSize() || size > status.getSize() - offset)
    return refuse("is too short: it has " + Twine(status.getSize()) +
                  " bytes, and the tensor needs " + Twine(size) +
                  " from byte " + Twine(offset));
  auto slice =
      llvm::MemoryBuffer::getOpenFileSlice(*file, path, size, ref.offset);
  if (!slice)
    return refuse("cannot be read: " + slice.getError().message());
  bytes.assign((*slice)->getBufferStart(), (*slice)->getBufferEnd());
  return true;
}
