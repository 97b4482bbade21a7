//===- OptionText.cpp - Checks the text of options ------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OptionText.h"

#include "tandem/Passes/FusionOptions.h"

#include "llvm/ADT/APInt.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

#include <limits>

using namespace mlir;
using namespace mlir::tandem;

namespace {
enum class ValueKind { Number, Bool, Choice, Text };

/// An option of Passes.td, which has the rest about it.
struct OptionInfo {
  StringLiteral name;
  ValueKind kind;
  /// What to write behind the name, for people.
  StringLiteral form;
  SmallVector<StringRef, 3> choices = {};
};

/// One option of a pipeline's text.
struct Argument {
  StringRef name;
  std::optional<StringRef> value;
};
} // namespace

static ArrayRef<OptionInfo> getOptions() {
  static const OptionInfo options[] = {
      {"max-tokens", ValueKind::Number, "=N"},
      {"limits", ValueKind::Text, "=FILE"},
      {"world-size", ValueKind::Number, "=N"},
      {"guard",
       ValueKind::Choice,
       "=chain|function|none",
       {"chain", "function", "none"}},
      {"batch-invariant", ValueKind::Bool, ""},
      {"merge-all-reduces", ValueKind::Bool, ""},
      {"report", ValueKind::Text, "=FILE"},
      {"require", ValueKind::Choice, "=nothing|all", {"nothing", "all"}}};
  return options;
}

bool mlir::tandem::isFuseOption(StringRef name) {
  return llvm::any_of(getOptions(), [&](const OptionInfo &option) {
    return option.name == name;
  });
}

/// Where the option at the start of `text` ends: at a space outside of quotes
/// and braces, as in MLIR's parser.
static size_t findEnd(StringRef text) {
  char quote = 0;
  unsigned depth = 0;
  for (size_t i = 0; i != text.size(); ++i) {
    char c = text[i];
    if (quote) {
      if (c == quote)
        quote = 0;
    } else if ((c == '"' || c == '\'') &&
               text.find(c, i + 1) != StringRef::npos) {
      quote = c;
    } else if (c == '{') {
      ++depth;
    } else if (c == '}' && depth > 0) {
      --depth;
    } else if (c == ' ' && depth == 0) {
      return i;
    }
  }
  return text.size();
}

static StringRef stripQuotes(StringRef value) {
  for (StringRef marks : {"''", "\"\"", "{}"})
    if (value.size() >= 2 && value.front() == marks[0] &&
        value.back() == marks[1])
      return value.drop_front().drop_back().trim();
  return value;
}

static Argument takeArgument(StringRef &text) {
  size_t end = findEnd(text);
  StringRef whole = text.take_front(end);
  text = text.drop_front(end).ltrim(' ');
  auto [name, value] = whole.split('=');
  if (name.size() == whole.size())
    return {name, std::nullopt};
  return {name, stripQuotes(value)};
}

static bool isBool(StringRef value) {
  return llvm::is_contained(
      {"true", "True", "TRUE", "1", "false", "False", "FALSE", "0", ""}, value);
}

/// Whether the text is a whole number, and one above all of 64 bits.
static bool isLargeNumber(StringRef text) {
  llvm::APInt number;
  return !text.starts_with("-") && !text.getAsInteger(0, number) &&
         number.getActiveBits() > 63;
}

/// What is wrong with the value; empty if nothing is.
static std::string checkValue(const OptionInfo &option,
                              std::optional<StringRef> value) {
  int64_t number;
  switch (option.kind) {
  case ValueKind::Number:
    if (value && !value->getAsInteger(0, number))
      return {};
    if (value && isLargeNumber(*value))
      return "a number of at most " +
             std::to_string(std::numeric_limits<int64_t>::max());
    return "a whole number";
  case ValueKind::Bool:
    return isBool(value.value_or("")) ? "" : "true or false";
  case ValueKind::Choice:
    if (value && llvm::is_contained(option.choices, *value))
      return {};
    return llvm::join(option.choices, " or ");
  case ValueKind::Text:
    return value ? "" : "a file name";
  }
  return {};
}

LogicalResult mlir::tandem::checkFuseOptionText(
    StringRef options,
    function_ref<LogicalResult(const Twine &)> errorHandler) {
  options = options.trim(' ');
  while (!options.empty()) {
    Argument argument = takeArgument(options);
    const OptionInfo *option =
        llvm::find_if(getOptions(), [&](const OptionInfo &candidate) {
          return candidate.name == argument.name;
        });
    if (option == getOptions().end()) {
      std::string all;
      for (const OptionInfo &known : getOptions())
        all += " " + known.name.str() + known.form.str();
      return errorHandler("tandem-fuse: no such option " + argument.name +
                          "; there are, separated by spaces:" + all);
    }
    std::string wanted = checkValue(*option, argument.value);
    if (wanted.empty())
      continue;
    std::string got = argument.value
                          ? "not '" + argument.value->str() + "'"
                          : "as " + option->name.str() + option->form.str();
    bool looksSeparated = argument.value && argument.value->find_first_of(
                                                ",;\t\n") != StringRef::npos;
    return errorHandler(
        "tandem-fuse: " + option->name + " takes " + wanted + ", " + got +
        (looksSeparated ? "; options are separated by spaces" : ""));
  }
  return success();
}
