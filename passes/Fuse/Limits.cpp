//===- Limits.cpp - Token limits given to the pass ------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Limits.h"

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;
using namespace mlir::tandem;

static llvm::Error makeError(StringRef file, const Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                 "limits file '" + file + "': " + message);
}

llvm::Expected<TuningProfile> TuningProfile::load(StringRef path) {
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/true);
  if (!buffer)
    return makeError(path, buffer.getError().message());
  return parse((*buffer)->getBuffer(), path);
}

llvm::Expected<TuningProfile> TuningProfile::parse(StringRef text,
                                                   StringRef name) {
  // The parser recurses, so hostile input could exhaust the stack. Brackets in
  // strings count too; a profile has no use for so many.
  unsigned depth = 0;
  for (char c : text) {
    depth += c == '[' || c == '{';
    depth -= depth != 0 && (c == ']' || c == '}');
    if (depth > 64)
      return makeError(name, "is nested too deeply");
  }
  llvm::Expected<llvm::json::Value> root = llvm::json::parse(text);
  if (!root)
    return makeError(name, llvm::toString(root.takeError()));
  const llvm::json::Object *object = root->getAsObject();
  if (!object)
    return makeError(name, "is not a JSON object");
  std::optional<int64_t> version = object->getInteger("version");
  if (!version)
    return makeError(name, "has no integer 'version'");
  if (*version != 1)
    return makeError(name, "has version " + Twine(*version) +
                               ", this program reads version 1");
  const llvm::json::Array *limits = object->getArray("limits");
  if (!limits)
    return makeError(name, "has no array 'limits'");

  TuningProfile profile;
  for (auto [index, value] : llvm::enumerate(*limits)) {
    auto fail = [&, i = index](const Twine &message) {
      return makeError(name, "limits[" + Twine(i) + "]: " + message);
    };
    const llvm::json::Object *fields = value.getAsObject();
    if (!fields)
      return fail("is not an object");
    Entry entry;
    auto readPositive = [&](StringRef key, std::optional<int64_t> &into) {
      const llvm::json::Value *field = fields->get(key);
      if (!field)
        return true;
      into = field->getAsInteger();
      return into && *into > 0;
    };
    if (!readPositive("world_size", entry.worldSize))
      return fail("'world_size' is not a positive integer");
    if (!readPositive("hidden", entry.hidden))
      return fail("'hidden' is not a positive integer");
    if (const llvm::json::Value *field = fields->get("dtype")) {
      std::optional<StringRef> dtype = field->getAsString();
      if (!dtype || (*dtype != "f32" && *dtype != "f16" && *dtype != "bf16"))
        return fail("'dtype' is not one of f32, f16, bf16");
      entry.dtype = dtype->str();
    }
    std::optional<int64_t> maxTokens = fields->getInteger("max_tokens");
    if (!maxTokens || *maxTokens < -1)
      return fail("'max_tokens' is not an integer of -1 or more");
    entry.maxTokens = *maxTokens;
    profile.entries.push_back(std::move(entry));
  }
  return profile;
}

std::optional<int64_t>
TuningProfile::lookup(int64_t hidden, StringRef dtype,
                      std::optional<int64_t> worldSize) const {
  if (worldSize)
    return lookupWorld(hidden, dtype, worldSize);
  // It may be any: one that an entry names, or another.
  std::optional<int64_t> least =
      lookupWorld(hidden, dtype, /*worldSize=*/std::nullopt);
  for (const Entry &entry : entries) {
    if (!entry.worldSize)
      continue;
    if (auto limit = lookupWorld(hidden, dtype, entry.worldSize))
      least = least ? std::min(*least, *limit) : limit;
  }
  return least;
}

bool TuningProfile::serves(int64_t hidden, StringRef dtype) const {
  return llvm::any_of(entries, [&](const Entry &entry) {
    return lookupWorld(hidden, dtype, entry.worldSize).value_or(0) > 0;
  });
}

std::optional<int64_t>
TuningProfile::lookupWorld(int64_t hidden, StringRef dtype,
                           std::optional<int64_t> worldSize) const {
  std::optional<int64_t> best;
  unsigned bestScore = 0;
  for (const Entry &entry : entries) {
    if ((entry.hidden && *entry.hidden != hidden) ||
        (!entry.dtype.empty() && entry.dtype != dtype) ||
        (entry.worldSize && entry.worldSize != worldSize))
      continue;
    unsigned score = entry.hidden.has_value() + !entry.dtype.empty() +
                     entry.worldSize.has_value();
    if (best && score < bestScore)
      continue;
    best = best && score == bestScore ? std::min(*best, entry.maxTokens)
                                      : entry.maxTokens;
    bestScore = score;
  }
  return best;
}
