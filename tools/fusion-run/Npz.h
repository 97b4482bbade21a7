//===- Npz.h - NumPy's archives of arrays --------------------- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Reads and writes .npz files: zip archives, stored or deflated, of .npy files
// of versions 1 to 3, little-endian, in C order. Files are not trusted: nothing
// in one makes the reader take more memory than the array asked for, whose size
// is bounded by that of its data in the file times what deflate can do.
//
// NumPy has no bf16. It is stored as uint16, and a member `__dtypes__`, a list
// of strings "name=bf16", says so. Two-byte void elements ('|V2'), which is
// what NumPy writes of ml_dtypes' bfloat16, are taken for bf16, too.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TOOLS_FUSIONRUN_NPZ_H
#define TANDEM_TOOLS_FUSIONRUN_NPZ_H

#include "Array.h"

#include <map>
#include <memory>

namespace tandem::run {

/// Bytes to read from, a file or memory.
class ByteSource {
public:
  virtual ~ByteSource();
  virtual uint64_t size() const = 0;
  /// Reads exactly `count` bytes; false if they can't be had.
  virtual bool read(uint64_t offset, void *into, uint64_t count) const = 0;
};

/// A file; null and `error` if it can't be opened or is no regular file.
std::unique_ptr<ByteSource> openFile(const std::string &path,
                                     std::string &error);
/// Memory that outlives the source.
std::unique_ptr<ByteSource> openMemory(const void *data, uint64_t size);

/// An archive that is open for reading. Arrays are read when asked for.
class NpzReader {
public:
  /// Reads the archive's directory; false and `error` (one sentence without
  /// the file's name) if it is damaged.
  bool open(std::unique_ptr<ByteSource> bytes, std::string &error);

  bool contains(const std::string &name) const { return members.count(name); }
  /// The arrays' names, sorted, without `__dtypes__`.
  std::vector<std::string> getNames() const;
  /// Reads one array; false and `error` (one sentence that names it) on
  /// failure.
  bool load(const std::string &name, Array &array, std::string &error) const;

private:
  struct Member {
    unsigned method = 0;
    uint32_t crc = 0;
    uint64_t compressed = 0, size = 0, offset = 0;
  };
  bool readTypes(std::string &error);
  bool readMember(const Member &member, Array &array,
                  std::vector<std::string> *strings, std::string &error) const;

  std::unique_ptr<ByteSource> source;
  std::map<std::string, Member> members;
  std::map<std::string, std::string> types;
};

/// Writes `arrays` to the file `path`, which appears whole or not at all.
/// Returns false and `error` on failure.
bool writeNpz(const std::string &path,
              const std::vector<std::pair<std::string, const Array *>> &arrays,
              std::string &error);

} // namespace tandem::run

#endif // TANDEM_TOOLS_FUSIONRUN_NPZ_H
