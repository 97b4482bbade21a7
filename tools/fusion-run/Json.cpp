//===- Json.cpp - Just enough JSON ----------------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Json.h"

#include <cstdlib>
#include <cstring>

using namespace tandem::run;

namespace {
class Parser {
public:
  explicit Parser(const std::string &text) : text(text) {}

  bool parse(Json &value) {
    if (!any(value, 0))
      return false;
    skip();
    return at == text.size();
  }

private:
  void skip() {
    while (at < text.size() && strchr(" \t\r\n", text[at]))
      ++at;
  }
  bool take(char c) {
    skip();
    if (at >= text.size() || text[at] != c)
      return false;
    ++at;
    return true;
  }
  bool word(const char *expected) {
    if (text.compare(at, strlen(expected), expected) != 0)
      return false;
    at += strlen(expected);
    return true;
  }

  bool any(Json &value, unsigned depth) {
    if (depth > 64)
      return false;
    skip();
    if (at >= text.size())
      return false;
    switch (text[at]) {
    case '{':
      return object(value, depth);
    case '[':
      return list(value, depth);
    case '"':
      value.kind = Json::String;
      return string(value.string);
    case 't':
      value.kind = Json::Bool;
      value.boolean = true;
      return word("true");
    case 'f':
      value.kind = Json::Bool;
      return word("false");
    case 'n':
      return word("null");
    default:
      return number(value);
    }
  }

  bool object(Json &value, unsigned depth) {
    value.kind = Json::Object;
    ++at;
    if (take('}'))
      return true;
    do {
      std::string key;
      skip();
      if (!string(key) || !take(':') || !any(value.object[key], depth + 1))
        return false;
    } while (take(','));
    return take('}');
  }

  bool list(Json &value, unsigned depth) {
    value.kind = Json::List;
    ++at;
    if (take(']'))
      return true;
    do {
      value.list.emplace_back();
      if (!any(value.list.back(), depth + 1))
        return false;
    } while (take(','));
    return take(']');
  }

  bool number(Json &value) {
    value.kind = Json::Number;
    const char *begin = text.c_str() + at;
    char *end = nullptr;
    value.number = strtoll(begin, &end, 10);
    if (end == begin)
      return false;
    at += static_cast<size_t>(end - begin);
    while (at < text.size() && strchr("0123456789.eE+-", text[at]))
      ++at;
    return true;
  }

  bool string(std::string &value) {
    if (at >= text.size() || text[at] != '"')
      return false;
    for (++at; at < text.size(); ++at) {
      char c = text[at];
      if (c == '"') {
        ++at;
        return true;
      }
      if (c != '\\') {
        value += c;
        continue;
      }
      if (++at >= text.size())
        return false;
      switch (text[at]) {
      case 'n':
        value += '\n';
        break;
      case 't':
        value += '\t';
        break;
      case 'r':
        value += '\r';
        break;
      case 'b':
        value += '\b';
        break;
      case 'f':
        value += '\f';
        break;
      case 'u': {
        if (text.size() - at < 5)
          return false;
        unsigned code = static_cast<unsigned>(
            strtoul(text.substr(at + 1, 4).c_str(), nullptr, 16));
        at += 4;
        // As UTF-8; halves of surrogate pairs stay halves.
        if (code < 0x80) {
          value += static_cast<char>(code);
        } else if (code < 0x800) {
          value += static_cast<char>(0xc0 | code >> 6);
          value += static_cast<char>(0x80 | (code & 63));
        } else {
          value += static_cast<char>(0xe0 | code >> 12);
          value += static_cast<char>(0x80 | (code >> 6 & 63));
          value += static_cast<char>(0x80 | (code & 63));
        }
        break;
      }
      default:
        value += text[at];
      }
    }
    return false;
  }

  const std::string &text;
  size_t at = 0;
};
} // namespace

bool Json::parse(const std::string &text, Json &value) {
  return Parser(text).parse(value);
}

const Json &Json::operator[](const std::string &key) const {
  static const Json null;
  auto it = object.find(key);
  return it == object.end() ? null : it->second;
}
