//===- Array.cpp - A named array in memory --------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Array.h"

#include <cmath>
#include <cstring>

using namespace tandem::run;

ElementType tandem::run::getElementType(const std::string &name) {
  static const struct {
    const char *name;
    uint64_t bytes;
  } types[] = {{"f16", 2},  {"bf16", 2}, {"f32", 4},  {"f64", 8},  {"i1", 1},
               {"i8", 1},   {"i16", 2},  {"i32", 4},  {"i64", 8},  {"ui8", 1},
               {"ui16", 2}, {"ui32", 4}, {"ui64", 8}, {"index", 8}};
  for (const auto &type : types)
    if (name == type.name)
      return {type.name, type.bytes};
  return {};
}

bool tandem::run::computeBytes(const std::vector<int64_t> &shape,
                               uint64_t elementBytes, uint64_t &bytes) {
  bytes = elementBytes;
  bool isEmpty = false;
  for (int64_t size : shape) {
    if (size < 0)
      return false;
    isEmpty |= size == 0;
    // Also where another size is zero: such sizes are nobody's intention.
    if (size > 0 &&
        __builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes))
      return false;
  }
  if (bytes > static_cast<uint64_t>(INT64_MAX) - 64)
    return false;
  if (isEmpty)
    bytes = 0;
  return true;
}

std::string tandem::run::formatShape(const std::vector<int64_t> &shape) {
  if (shape.empty())
    return "scalar";
  std::string text;
  for (int64_t size : shape) {
    if (!text.empty())
      text += 'x';
    text += size < 0 ? "?" : std::to_string(size);
  }
  return text;
}

bool Array::allocate(std::string &error) {
  ElementType element = getElementType(type);
  if (!element || !computeBytes(shape, element.bytes, bytes)) {
    error = "can't have " + formatShape(shape) + " elements of type " + type;
    return false;
  }
  uint64_t rounded = (bytes + 64) / 64 * 64;
  data.reset(aligned_alloc(64, rounded));
  if (!data) {
    error = "takes " + std::to_string(bytes) + " bytes, which can't be had";
    return false;
  }
  return true;
}

uint64_t Array::getNumElements() const {
  uint64_t count = 1;
  for (int64_t size : shape)
    count *= static_cast<uint64_t>(size);
  return count;
}

static double fromHalf(uint16_t bits) {
  int sign = bits >> 15, exponent = (bits >> 10) & 31, fraction = bits & 1023;
  double value;
  if (exponent == 31)
    value = fraction ? NAN : INFINITY;
  else if (exponent == 0)
    value = std::ldexp(fraction, -24);
  else
    value = std::ldexp(fraction + 1024, exponent - 25);
  return sign ? -value : value;
}

template <typename T>
static T load(const Array &array, uint64_t index) {
  T value;
  memcpy(&value,
         static_cast<const char *>(array.data.get()) + index * sizeof(T),
         sizeof(T));
  return value;
}

double tandem::run::getElement(const Array &array, uint64_t index) {
  const std::string &type = array.type;
  if (type == "f32")
    return load<float>(array, index);
  if (type == "f64")
    return load<double>(array, index);
  if (type == "f16")
    return fromHalf(load<uint16_t>(array, index));
  if (type == "bf16") {
    uint32_t bits = static_cast<uint32_t>(load<uint16_t>(array, index)) << 16;
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
  }
  if (type == "i8")
    return load<int8_t>(array, index);
  if (type == "i16")
    return load<int16_t>(array, index);
  if (type == "i32")
    return load<int32_t>(array, index);
  if (type == "i64" || type == "index")
    return static_cast<double>(load<int64_t>(array, index));
  if (type == "ui16")
    return load<uint16_t>(array, index);
  if (type == "ui32")
    return load<uint32_t>(array, index);
  if (type == "ui64")
    return static_cast<double>(load<uint64_t>(array, index));
  return load<uint8_t>(array, index); // i1, ui8
}
