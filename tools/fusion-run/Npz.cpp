//===- Npz.cpp - NumPy's archives of arrays -------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Npz.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

using namespace tandem::run;

//===----------------------------------------------------------------------===//
// Where bytes come from
//===----------------------------------------------------------------------===//

ByteSource::~ByteSource() = default;

namespace {
class FileSource : public ByteSource {
public:
  FileSource(int fd, uint64_t length) : fd(fd), length(length) {}
  ~FileSource() override { close(fd); }
  uint64_t size() const override { return length; }
  bool read(uint64_t offset, void *into, uint64_t count) const override {
    if (offset > length || count > length - offset)
      return false;
    auto *out = static_cast<char *>(into);
    while (count) {
      ssize_t got = pread(fd, out, std::min<uint64_t>(count, 1 << 30),
                          static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR)
        continue;
      if (got <= 0)
        return false;
      out += got;
      offset += static_cast<uint64_t>(got);
      count -= static_cast<uint64_t>(got);
    }
    return true;
  }

private:
  int fd;
  uint64_t length;
};

class MemorySource : public ByteSource {
public:
  MemorySource(const void *data, uint64_t length)
      : data(static_cast<const char *>(data)), length(length) {}
  uint64_t size() const override { return length; }
  bool read(uint64_t offset, void *into, uint64_t count) const override {
    if (offset > length || count > length - offset)
      return false;
    if (count)
      memcpy(into, data + offset, count);
    return true;
  }

private:
  const char *data;
  uint64_t length;
};
} // namespace

std::unique_ptr<ByteSource> tandem::run::openFile(const std::string &path,
                                                  std::string &error) {
  // Opening a FIFO without O_NONBLOCK would wait for its writer.
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    error = std::string("cannot be opened: ") + strerror(errno);
    return nullptr;
  }
  struct stat info;
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(fd);
    error = "is not a regular file";
    return nullptr;
  }
  return std::make_unique<FileSource>(fd, static_cast<uint64_t>(info.st_size));
}

std::unique_ptr<ByteSource> tandem::run::openMemory(const void *data,
                                                    uint64_t size) {
  return std::make_unique<MemorySource>(data, size);
}

//===----------------------------------------------------------------------===//
// Zip
//===----------------------------------------------------------------------===//

static uint64_t little(const uint8_t *bytes, unsigned count) {
  uint64_t value = 0;
  for (unsigned i = count; i > 0; --i)
    value = value << 8 | bytes[i - 1];
  return value;
}

static const uint64_t endBytes = 22, locatorBytes = 20, end64Bytes = 56,
                      entryBytes = 46, localBytes = 30;
static const char typesName[] = "__dtypes__";

namespace {
/// Where the directory of an archive lies.
struct Directory {
  uint64_t count = 0, size = 0, offset = 0;
};
} // namespace

static bool findDirectory(const ByteSource &source, Directory &directory,
                          std::string &error) {
  // The end record is the last thing but for a comment of up to 64 KiB.
  uint64_t window = std::min<uint64_t>(source.size(), endBytes + 65535);
  std::vector<uint8_t> tail(window);
  if (window < endBytes ||
      !source.read(source.size() - window, tail.data(), window)) {
    error = "is no npz file: too short";
    return false;
  }
  uint64_t at = window - endBytes + 1;
  do {
    --at;
    if (little(&tail[at], 4) == 0x06054b50 &&
        little(&tail[at + 20], 2) <= window - at - endBytes)
      break;
  } while (at > 0);
  if (little(&tail[at], 4) != 0x06054b50) {
    error = "is no npz file: it has no zip directory";
    return false;
  }
  directory = {little(&tail[at + 10], 2), little(&tail[at + 12], 4),
               little(&tail[at + 16], 4)};
  if (directory.count != 0xffff && directory.size != 0xffffffff &&
      directory.offset != 0xffffffff)
    return true;
  // Zip64: a locator stands before the end record.
  uint64_t place = source.size() - window + at;
  uint8_t locator[locatorBytes], end[end64Bytes];
  if (place < locatorBytes ||
      !source.read(place - locatorBytes, locator, locatorBytes) ||
      little(locator, 4) != 0x07064b50)
    return true; // an archive that happens to have such a number
  if (!source.read(little(locator + 8, 8), end, end64Bytes) ||
      little(end, 4) != 0x06064b50) {
    error = "is damaged: its zip64 directory is not where it should be";
    return false;
  }
  directory = {little(end + 32, 8), little(end + 40, 8), little(end + 48, 8)};
  return true;
}

bool NpzReader::open(std::unique_ptr<ByteSource> bytes, std::string &error) {
  source = std::move(bytes);
  members.clear();
  types.clear();
  Directory directory;
  if (!findDirectory(*source, directory, error))
    return false;
  if (directory.offset > source->size() ||
      directory.size > source->size() - directory.offset ||
      directory.count > directory.size / entryBytes) {
    error = "is damaged: its zip directory goes beyond its end";
    return false;
  }
  std::vector<uint8_t> table(directory.size);
  if (!source->read(directory.offset, table.data(), directory.size)) {
    error = "cannot be read";
    return false;
  }
  uint64_t at = 0;
  for (uint64_t i = 0; i < directory.count; ++i) {
    if (table.size() - at < entryBytes || little(&table[at], 4) != 0x02014b50) {
      error =
          "is damaged: entry " + std::to_string(i) + " of its zip directory";
      return false;
    }
    const uint8_t *entry = &table[at];
    uint64_t nameBytes = little(entry + 28, 2), extra = little(entry + 30, 2),
             comment = little(entry + 32, 2);
    if (table.size() - at - entryBytes < nameBytes + extra + comment) {
      error =
          "is damaged: entry " + std::to_string(i) + " of its zip directory";
      return false;
    }
    std::string name(reinterpret_cast<const char *>(entry) + entryBytes,
                     nameBytes);
    Member member;
    member.method = static_cast<unsigned>(little(entry + 10, 2));
    member.crc = static_cast<uint32_t>(little(entry + 16, 4));
    member.compressed = little(entry + 20, 4);
    member.size = little(entry + 24, 4);
    member.offset = little(entry + 42, 4);
    bool isEncrypted = little(entry + 8, 2) & 1;
    // Zip64 has those that don't fit, in this order, in an extra field.
    const uint8_t *field = entry + entryBytes + nameBytes;
    const uint8_t *fieldsEnd = field + extra;
    while (fieldsEnd - field >= 4) {
      uint64_t id = little(field, 2), size = little(field + 2, 2);
      field += 4;
      if (size > static_cast<uint64_t>(fieldsEnd - field))
        break;
      const uint8_t *value = field;
      if (id == 1)
        for (uint64_t *number :
             {&member.size, &member.compressed, &member.offset})
          if (*number == 0xffffffff && field + size - value >= 8) {
            *number = little(value, 8);
            value += 8;
          }
      field += size;
    }
    at += entryBytes + nameBytes + extra + comment;
    if (name.size() > 4 && name.compare(name.size() - 4, 4, ".npy") == 0)
      name.resize(name.size() - 4);
    else
      continue; // no array
    if (isEncrypted || (member.method != 0 && member.method != 8)) {
      error = "has '" + name + "' " +
              (isEncrypted ? "encrypted"
                           : "compressed in a way other than deflate");
      return false;
    }
    if (!members.emplace(name, member).second) {
      error = "has '" + name + "' twice";
      return false;
    }
  }
  return readTypes(error);
}

std::vector<std::string> NpzReader::getNames() const {
  std::vector<std::string> names;
  for (const auto &member : members)
    if (member.first != typesName)
      names.push_back(member.first);
  return names;
}

bool NpzReader::readTypes(std::string &error) {
  auto it = members.find(typesName);
  if (it == members.end())
    return true;
  Array array;
  std::vector<std::string> entries;
  if (!readMember(it->second, array, &entries, error)) {
    error = std::string("has a '") + typesName + "' that " + error;
    return false;
  }
  for (const std::string &entry : entries) {
    size_t equals = entry.rfind('=');
    std::string type =
        equals == std::string::npos ? "" : entry.substr(equals + 1);
    if (!getElementType(type)) {
      error = "names the type '" + entry.substr(0, 80) + "' in its '" +
              typesName + "'; it must be as 'x=bf16'";
      return false;
    }
    types[entry.substr(0, equals)] = type;
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Members
//===----------------------------------------------------------------------===//

namespace {
/// Reads a member's bytes in order, inflating where needed.
class MemberReader {
public:
  MemberReader(const ByteSource &source, unsigned method, uint64_t offset,
               uint64_t compressed)
      : source(source), isDeflated(method == 8), offset(offset),
        left(compressed) {}
  ~MemberReader() {
    if (isReady)
      inflateEnd(&stream);
  }
  MemberReader(const MemberReader &) = delete;
  MemberReader &operator=(const MemberReader &) = delete;

  bool read(void *into, uint64_t count) {
    auto *out = static_cast<uint8_t *>(into);
    while (count) {
      uint64_t step = std::min<uint64_t>(count, 1 << 30);
      if (!(isDeflated ? inflateSome(out, step) : readStored(out, step)))
        return false;
      crc = static_cast<uint32_t>(crc32(crc, out, static_cast<uInt>(step)));
      out += step;
      count -= step;
    }
    return true;
  }
  uint32_t getCrc() const { return crc; }

private:
  bool readStored(uint8_t *out, uint64_t count) {
    if (count > left || !source.read(offset, out, count))
      return false;
    offset += count;
    left -= count;
    return true;
  }

  bool inflateSome(uint8_t *out, uint64_t count) {
    if (!isReady) {
      memset(&stream, 0, sizeof(stream));
      isReady = inflateInit2(&stream, -MAX_WBITS) == Z_OK;
      if (!isReady)
        return false;
    }
    stream.next_out = out;
    stream.avail_out = static_cast<uInt>(count);
    while (stream.avail_out) {
      if (stream.avail_in == 0 && left) {
        uint64_t chunk = std::min<uint64_t>(left, sizeof(buffer));
        if (!source.read(offset, buffer, chunk))
          return false;
        offset += chunk;
        left -= chunk;
        stream.next_in = buffer;
        stream.avail_in = static_cast<uInt>(chunk);
      }
      int status = inflate(&stream, Z_NO_FLUSH);
      if (status == Z_STREAM_END)
        return stream.avail_out == 0;
      if (status != Z_OK)
        return false;
    }
    return true;
  }

  const ByteSource &source;
  bool isDeflated, isReady = false;
  uint64_t offset, left;
  uint32_t crc = 0;
  z_stream stream = {};
  uint8_t buffer[1 << 16];
};

/// What a .npy file's header says.
struct Header {
  std::string descr;
  bool isFortran = false;
  std::vector<int64_t> shape;
  bool hasDescr = false, hasOrder = false, hasShape = false;
};

/// Reads the header, a Python dict of three literals.
class HeaderParser {
public:
  explicit HeaderParser(const std::string &text) : text(text) {}

  bool parse(Header &header) {
    if (!take('{'))
      return false;
    while (!take('}')) {
      std::string key;
      if (!string(key) || !take(':'))
        return false;
      if (key == "descr") {
        if (!string(header.descr))
          return false;
        header.hasDescr = true;
      } else if (key == "fortran_order") {
        if (word("True"))
          header.isFortran = true;
        else if (!word("False"))
          return false;
        header.hasOrder = true;
      } else if (key == "shape") {
        if (!tuple(header.shape))
          return false;
        header.hasShape = true;
      } else {
        return false;
      }
      if (!take(',') && !peek('}'))
        return false;
    }
    return header.hasDescr && header.hasOrder && header.hasShape;
  }

private:
  void skip() {
    while (at < text.size() &&
           (text[at] == ' ' || text[at] == '\n' || text[at] == '\t'))
      ++at;
  }
  bool peek(char c) {
    skip();
    return at < text.size() && text[at] == c;
  }
  bool take(char c) {
    if (!peek(c))
      return false;
    ++at;
    return true;
  }
  bool word(const char *expected) {
    skip();
    if (text.compare(at, strlen(expected), expected) != 0)
      return false;
    at += strlen(expected);
    return true;
  }
  bool string(std::string &value) {
    skip();
    if (at >= text.size() || (text[at] != '\'' && text[at] != '"'))
      return false;
    size_t end = text.find(text[at], at + 1);
    if (end == std::string::npos || end - at > 64)
      return false;
    value = text.substr(at + 1, end - at - 1);
    at = end + 1;
    return true;
  }
  bool tuple(std::vector<int64_t> &values) {
    if (!take('('))
      return false;
    while (!take(')')) {
      skip();
      size_t begin = at;
      int64_t value = 0;
      while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, text[at] - '0', &value))
          return false;
        ++at;
      }
      if (at == begin || values.size() == 64)
        return false;
      values.push_back(value);
      if (!take(',') && !peek(')'))
        return false;
    }
    return true;
  }

  const std::string &text;
  size_t at = 0;
};
} // namespace

/// MLIR's name of a NumPy type; "" if there is none.
static std::string getTypeOfDescr(const std::string &descr) {
  static const struct {
    const char *descr, *type;
  } types[] = {{"f2", "f16"},  {"f4", "f32"},  {"f8", "f64"},  {"i1", "i8"},
               {"i2", "i16"},  {"i4", "i32"},  {"i8", "i64"},  {"u1", "ui8"},
               {"u2", "ui16"}, {"u4", "ui32"}, {"u8", "ui64"}, {"b1", "i1"},
               {"V2", "bf16"}};
  if (descr.size() != 3)
    return "";
  for (const auto &type : types)
    if (descr.compare(1, 2, type.descr) == 0 &&
        (descr[0] == '<' || descr[0] == '|' || descr[0] == '='))
      return type.type;
  return "";
}

static std::string getDescrOfType(const std::string &type) {
  if (type == "bf16")
    return "<u2";
  if (type == "i1")
    return "|b1";
  if (type == "index")
    return "<i8";
  uint64_t bytes = getElementType(type).bytes;
  std::string kind = type.substr(0, 2) == "ui" ? "u" : type.substr(0, 1);
  return (bytes == 1 ? "|" : "<") + kind + std::to_string(bytes);
}

bool NpzReader::readMember(const Member &member, Array &array,
                           std::vector<std::string> *strings,
                           std::string &error) const {
  // Deflate makes at most 1032 bytes of one.
  uint8_t local[localBytes];
  if (!source->read(member.offset, local, localBytes) ||
      little(local, 4) != 0x04034b50) {
    error = "is damaged: its data is not where the zip directory says";
    return false;
  }
  uint64_t begin = member.offset + localBytes + little(local + 26, 2) +
                   little(local + 28, 2);
  if (begin > source->size() || member.compressed > source->size() - begin ||
      (member.method == 0 && member.compressed != member.size) ||
      member.size / 1040 > member.compressed) {
    error = "is damaged: its size can't be what the zip directory says";
    return false;
  }
  MemberReader reader(*source, member.method, begin, member.compressed);
  auto damaged = [&] {
    error = "is damaged: its data ends early or can't be inflated";
    return false;
  };

  uint8_t prefix[12];
  if (member.size < 10 || !reader.read(prefix, 8) ||
      memcmp(prefix, "\x93NUMPY", 6) != 0) {
    error = "is no array in NumPy's format";
    return false;
  }
  unsigned major = prefix[6];
  if (major < 1 || major > 3) {
    error = "is of version " + std::to_string(major) + " of NumPy's format";
    return false;
  }
  unsigned lengthBytes = major == 1 ? 2 : 4;
  if (!reader.read(prefix, lengthBytes))
    return damaged();
  uint64_t headerBytes = little(prefix, lengthBytes);
  uint64_t before = 8 + lengthBytes + headerBytes;
  if (headerBytes > 65536 || before > member.size) {
    error = "has a header that is too long";
    return false;
  }
  std::string text(headerBytes, '\0');
  if (!reader.read(&text[0], headerBytes))
    return damaged();
  Header header;
  if (!HeaderParser(text).parse(header)) {
    error = "has a header that is not of an array of numbers";
    return false;
  }

  uint64_t available = member.size - before;
  if (strings) {
    // Fixed-width strings, of bytes or of 32-bit characters.
    bool isWide = header.descr.size() > 2 && header.descr[1] == 'U';
    uint64_t width = 0;
    for (size_t i = 2; i < header.descr.size() && width < 4096; ++i)
      width = width * 10 + static_cast<uint64_t>(header.descr[i] - '0') % 10;
    if (header.descr.size() < 3 || (!isWide && header.descr[1] != 'S') ||
        width == 0 || width >= 4096 || header.descr[0] == '>' ||
        header.shape.size() > 1) {
      error = "is no list of strings";
      return false;
    }
    uint64_t count = header.shape.empty() ? 1 : header.shape.front();
    uint64_t one = width * (isWide ? 4 : 1);
    if (count > available / one || count * one != available) {
      error = "has not the size that its header says";
      return false;
    }
    std::vector<uint8_t> element(one);
    for (uint64_t i = 0; i < count; ++i) {
      if (!reader.read(element.data(), one))
        return damaged();
      std::string value;
      for (uint64_t j = 0; j < width; ++j) {
        uint64_t character = isWide ? little(&element[j * 4], 4) : element[j];
        if (character == 0)
          break;
        // Names are compared as bytes: UTF-8.
        if (character < 0x80 || !isWide) {
          value += static_cast<char>(character);
        } else if (character < 0x800) {
          value += static_cast<char>(0xc0 | character >> 6);
          value += static_cast<char>(0x80 | (character & 63));
        } else if (character < 0x10000) {
          value += static_cast<char>(0xe0 | character >> 12);
          value += static_cast<char>(0x80 | (character >> 6 & 63));
          value += static_cast<char>(0x80 | (character & 63));
        } else {
          value += '?';
        }
      }
      strings->push_back(value);
    }
    return true;
  }

  array.type = getTypeOfDescr(header.descr);
  if (array.type.empty()) {
    error = "has elements of NumPy's type '" + header.descr +
            "', which can't be read";
    return false;
  }
  // In one dimension, and where there is nothing, both orders are one.
  bool isOrdered = header.shape.size() <= 1;
  if (header.isFortran && !isOrdered) {
    error = "is in Fortran order; save it in C order "
            "(numpy.ascontiguousarray)";
    return false;
  }
  array.shape = header.shape;
  uint64_t bytes = 0;
  if (!computeBytes(array.shape, getElementType(array.type).bytes, bytes) ||
      bytes != available) {
    error = "has not the size that its header says";
    return false;
  }
  if (!array.allocate(error))
    return false;
  if (!reader.read(array.data.get(), bytes))
    return damaged();
  if (reader.getCrc() != member.crc) {
    error = "is damaged: its checksum is wrong";
    return false;
  }
  return true;
}

bool NpzReader::load(const std::string &name, Array &array,
                     std::string &error) const {
  auto it = members.find(name);
  if (it == members.end()) {
    error = "has no '" + name + "'";
    return false;
  }
  if (!readMember(it->second, array, nullptr, error)) {
    error = "has a '" + name + "' that " + error;
    return false;
  }
  auto type = types.find(name);
  if (type != types.end() && type->second != array.type) {
    if (array.type != "ui16" || type->second != "bf16") {
      error = "has '" + name + "' named as " + type->second +
              ", but it is stored as " + array.type;
      return false;
    }
    array.type = type->second;
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

namespace {
/// A file beside its final name, removed unless it is kept.
class TemporaryFile {
public:
  explicit TemporaryFile(const std::string &requested) : path(requested) {
    // Replace what a link points to, not the link; and never a device.
    if (char *real = realpath(requested.c_str(), nullptr)) {
      path = real;
      free(real);
    }
    struct stat status;
    if (stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
      errno = S_ISDIR(status.st_mode) ? EISDIR : EINVAL;
      return;
    }
    name = path + ".XXXXXX";
    fd = mkostemp(&name[0], O_CLOEXEC);
  }
  ~TemporaryFile() {
    if (fd >= 0) {
      close(fd);
      unlink(name.c_str());
    }
  }
  TemporaryFile(const TemporaryFile &) = delete;
  TemporaryFile &operator=(const TemporaryFile &) = delete;

  bool isOpen() const { return fd >= 0; }
  void write(const void *data, uint64_t count) {
    auto *bytes = static_cast<const char *>(data);
    written += count;
    while (count && !failure) {
      ssize_t done = ::write(fd, bytes, std::min<uint64_t>(count, 1 << 30));
      if (done < 0 && errno == EINTR)
        continue;
      if (done <= 0) {
        failure = done < 0 ? errno : EIO;
        return;
      }
      bytes += done;
      count -= static_cast<uint64_t>(done);
    }
  }
  uint64_t getWritten() const { return written; }

  /// Puts the file in its place; 0 or the error number.
  int keep() {
    mode_t mask = umask(0);
    umask(mask);
    if (!failure && fchmod(fd, 0666 & ~mask) != 0)
      failure = errno;
    if (!failure && rename(name.c_str(), path.c_str()) != 0)
      failure = errno;
    if (!failure) {
      close(fd);
      fd = -1;
    }
    return failure;
  }

private:
  std::string path, name;
  int fd = -1, failure = 0;
  uint64_t written = 0;
};
} // namespace

static void put(std::string &text, uint64_t value, unsigned bytes) {
  for (unsigned i = 0; i < bytes; ++i)
    text += static_cast<char>(value >> (8 * i) & 0xff);
}

static std::string makeHeader(const std::string &descr,
                              const std::vector<int64_t> &shape) {
  std::string dict =
      "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (";
  for (size_t i = 0; i < shape.size(); ++i)
    dict += (i ? ", " : "") + std::to_string(shape[i]);
  dict += shape.size() == 1 ? ",), }" : "), }";
  // The data begins at a multiple of 64.
  dict.append(63 - (10 + dict.size()) % 64, ' ');
  dict += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  put(header, dict.size(), 2);
  return header + dict;
}

bool tandem::run::writeNpz(
    const std::string &path,
    const std::vector<std::pair<std::string, const Array *>> &arrays,
    std::string &error) {
  TemporaryFile file(path);
  auto fail = [&](int code) {
    error = "cannot write '" + path + "': " + strerror(code);
    return false;
  };
  if (!file.isOpen())
    return fail(errno);

  std::string directory;
  uint64_t count = 0;
  auto add = [&](const std::string &key, const std::string &header,
                 const void *data, uint64_t bytes) {
    std::string name = key + ".npy";
    uint32_t crc = static_cast<uint32_t>(
        crc32(0, reinterpret_cast<const Bytef *>(header.data()),
              static_cast<uInt>(header.size())));
    auto *rest = static_cast<const Bytef *>(data);
    for (uint64_t left = bytes; left;) {
      auto step = static_cast<uInt>(std::min<uint64_t>(left, 1 << 30));
      crc = static_cast<uint32_t>(crc32(crc, rest, step));
      rest += step;
      left -= step;
    }
    uint64_t size = header.size() + bytes, offset = file.getWritten();
    // Stored, no flags but that the name is UTF-8, the first day of 1980.
    std::string common;
    put(common, 20, 2);
    put(common, 0x800, 2);
    put(common, 0, 2);
    put(common, 0, 2);
    put(common, 0x21, 2);
    put(common, crc, 4);
    put(common, size, 4);
    put(common, size, 4);
    put(common, name.size(), 2);
    put(common, 0, 2);
    std::string local;
    put(local, 0x04034b50, 4);
    local += common + name;
    file.write(local.data(), local.size());
    file.write(header.data(), header.size());
    file.write(data, bytes);
    put(directory, 0x02014b50, 4);
    put(directory, 20, 2);
    directory += common;
    put(directory, 0, 2);
    put(directory, 0, 2);
    put(directory, 0, 2);
    put(directory, 0, 4);
    put(directory, offset, 4);
    directory += name;
    ++count;
  };

  uint64_t total = 0;
  size_t width = 1;
  std::vector<std::string> types;
  for (const auto &[name, array] : arrays) {
    total += array->bytes + 2 * name.size() + 512;
    if (array->type == "bf16") {
      types.push_back(name + "=bf16");
      width = std::max(width, types.back().size());
    }
  }
  if (total + types.size() * width > 0xfffffff0u || arrays.size() > 65000) {
    error = "cannot write '" + path + "': more than 4 GiB";
    return false;
  }
  for (const auto &[name, array] : arrays)
    add(name, makeHeader(getDescrOfType(array->type), array->shape),
        array->data.get(), array->bytes);
  if (!types.empty()) {
    std::string data;
    for (std::string type : types) {
      type.resize(width, '\0');
      data += type;
    }
    add(typesName,
        makeHeader("|S" + std::to_string(width),
                   {static_cast<int64_t>(types.size())}),
        data.data(), data.size());
  }
  std::string end;
  put(end, 0x06054b50, 4);
  put(end, 0, 4);
  put(end, count, 2);
  put(end, count, 2);
  put(end, directory.size(), 4);
  put(end, file.getWritten(), 4);
  put(end, 0, 2);
  directory += end;
  file.write(directory.data(), directory.size());
  if (int code = file.keep())
    return fail(code);
  return true;
}
