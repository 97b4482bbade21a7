//===- Header.cpp - The C header of a shared object -----------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Stages.h"

#include "tandem/OnnxOps/PrintableText.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/JSON.h"

#include <set>

using namespace mlir;
using namespace mlir::tandem;
namespace json = llvm::json;

/// `name` as a C identifier that is not in `taken`.
static std::string toIdentifier(StringRef name, llvm::StringSet<> &taken) {
  std::string result;
  for (char c : name)
    result += llvm::isAlnum(c) ? c : '_';
  if (result.empty() || llvm::isDigit(result.front()))
    result = "v" + result;
  // Words of C that are also names of values now and then.
  static const char *const words[] = {
      "auto",     "break",    "case",     "char",   "const",   "continue",
      "default",  "do",       "double",   "else",   "enum",    "extern",
      "float",    "for",      "goto",     "if",     "inline",  "int",
      "long",     "register", "restrict", "return", "short",   "signed",
      "sizeof",   "static",   "struct",   "switch", "typedef", "union",
      "unsigned", "void",     "volatile", "while",  "stream"};
  if (llvm::is_contained(words, result))
    result += '_';
  std::string unique = result;
  for (unsigned i = 2; !taken.insert(unique).second; ++i)
    unique = result + "_" + std::to_string(i);
  return unique;
}

static StringRef getCType(StringRef type) {
  if (type == "f32")
    return "float";
  if (type == "f64")
    return "double";
  if (type == "f16" || type == "bf16")
    return "uint16_t";
  if (type == "i1")
    return "bool";
  if (type == "i8")
    return "int8_t";
  if (type == "i16")
    return "int16_t";
  if (type == "i32")
    return "int32_t";
  return "int64_t";
}

/// `text`, which may hold anything, for a line of a comment.
static std::string toComment(StringRef text) {
  std::string result = makePrintable(text);
  // Compilers warn of the begin of a comment in another.
  for (size_t i = 1; i < result.size(); ++i)
    if ((result[i - 1] == '*' && result[i] == '/') ||
        (result[i - 1] == '/' && result[i] == '*'))
      result[result[i] == '*' ? i : i - 1] = ' ';
  return result;
}

/// "f32 [tokens, 64]".
static std::string describe(const json::Object &value) {
  std::string text = value.getString("dtype").value_or("?").str();
  const json::Array *shape = value.getArray("shape");
  if (!shape)
    return text;
  const json::Array *dims = value.getArray("dims");
  text += " [";
  for (auto [index, size] : llvm::enumerate(*shape)) {
    if (index)
      text += ", ";
    if (auto number = size.getAsInteger())
      text += std::to_string(*number);
    else if (dims && index < dims->size() && (*dims)[index].getAsString())
      text += (*dims)[index].getAsString()->str();
    else
      text += "?";
  }
  return text + "]";
}

static int64_t getRank(const json::Object &value) {
  const json::Array *shape = value.getArray("shape");
  return shape ? static_cast<int64_t>(shape->size()) : -1;
}

static void printFunction(const json::Object &function, raw_ostream &os) {
  StringRef name = function.getString("name").value_or("");
  SmallVector<std::string> all, shapes;
  llvm::StringSet<> taken;
  os << "\n/* " << toComment(name);
  auto add = [&](const json::Object &value, StringRef kind, bool isArgument) {
    std::string id =
        toIdentifier(value.getString("name").value_or("value"), taken);
    int64_t rank = getRank(value);
    std::string text =
        rank < 0
            ? (getCType(value.getString("dtype").value_or("")) + " " + id).str()
            : "tandem_memref" + std::to_string(rank) + " *" + id;
    os << "\n     " << kind << " " << id << ": " << toComment(describe(value));
    if (value.getBoolean("writable").value_or(false))
      os << ", written to";
    all.push_back(text);
    if (isArgument)
      shapes.push_back(text);
  };
  if (const json::Array *values = function.getArray("arguments"))
    for (const json::Value &value : *values)
      if (const json::Object *object = value.getAsObject())
        add(*object, "argument", true);
  if (const json::Array *values = function.getArray("results"))
    for (const json::Value &value : *values)
      if (const json::Object *object = value.getAsObject())
        add(*object, "result  ", false);
  if (const json::Array *values = function.getArray("groups"))
    for (const json::Value &value : *values)
      if (const json::Object *object = value.getAsObject()) {
        std::string id =
            toIdentifier(object->getString("name").value_or("group"), taken);
        os << "\n     group    " << id << ": hidden size "
           << object->getInteger("hidden").value_or(0);
        all.push_back("tandem_workspace *" + id);
      }
  os << " */\n";
  if (function.getBoolean("stream").value_or(false))
    all.push_back("void *stream");
  auto declare = [&](StringRef result, StringRef symbol,
                     ArrayRef<std::string> parameters) {
    os << result << " " << symbol << "(";
    llvm::interleave(
        parameters, [&](const std::string &text) { os << "\n    " << text; },
        [&] { os << ","; });
    os << (parameters.empty() ? "void);\n" : ");\n");
  };
  if (auto symbol = function.getString("symbol"))
    declare("int32_t", *symbol, all);
  if (auto symbol = function.getString("shapes")) {
    shapes.push_back("tandem_memref1 *dims");
    declare("int32_t", *symbol, shapes);
  }
}

std::string mlir::tandem::compile::makeHeader(StringRef moduleInfo,
                                              StringRef headerName,
                                              StringRef sourceName) {
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::Expected<json::Value> parsed = json::parse(moduleInfo);
  const json::Object *info = parsed ? parsed->getAsObject() : nullptr;
  if (!parsed)
    llvm::consumeError(parsed.takeError());
  llvm::StringSet<> none;
  std::string guard = "TANDEM_MODULE_" + toIdentifier(headerName, none);
  std::string source = sourceName.str();
  for (char &c : source)
    if (c == '*' || c == '\n' || c == '\\')
      c = '_';
  os << "/* Made by fusion-translate --compile from " << toComment(source)
     << ".\n"
     << R"(
   Buffers are contiguous and row-major. Results are written to buffers of the
   caller's, which overlap nothing; ..._result_shapes writes their sizes, one
   behind the other, to `dims`. The value is a tandem_status. Sizes of one name
   must be equal. The process that loads the object must have the runtime's
   functions, as by -ltandem_runtime. */

)" << "#ifndef "
     << guard << "\n#define " << guard
     << "\n\n#include <stdbool.h>\n#include <stdint.h>\n\n"
        "#include \"tandem/Runtime/tandem.h\"\n\n"
        "#ifdef __cplusplus\nextern \"C\" {\n#endif\n";

  std::set<int64_t> ranks = {1};
  const json::Array *functions = info ? info->getArray("functions") : nullptr;
  auto forEachFunction = [&](function_ref<void(const json::Object &)> fn) {
    if (functions)
      for (const json::Value &value : *functions)
        if (const json::Object *object = value.getAsObject())
          fn(*object);
  };
  forEachFunction([&](const json::Object &function) {
    for (StringRef kind : {"arguments", "results"})
      if (const json::Array *values = function.getArray(kind))
        for (const json::Value &value : *values)
          if (const json::Object *object = value.getAsObject())
            if (getRank(*object) >= 0)
              ranks.insert(getRank(*object));
  });
  for (int64_t rank : ranks) {
    os << "\n#ifndef TANDEM_MEMREF" << rank << "\n#define TANDEM_MEMREF" << rank
       << "\ntypedef struct tandem_memref" << rank
       << " {\n  void *allocated;\n  void *aligned;\n  int64_t offset;\n";
    if (rank > 0)
      os << "  int64_t sizes[" << rank << "];\n  int64_t strides[" << rank
         << "];\n";
    os << "} tandem_memref" << rank << ";\n#endif\n";
  }
  forEachFunction(
      [&](const json::Object &function) { printFunction(function, os); });
  os << R"(
/* What this module's functions take and need, as JSON (docs/lowering.md). */
extern const char tandem_module_info[];
/* What was wrong where a call on this thread returned a status and no group
   failed: with its arguments, or that there was not enough memory; may be
   NULL. */
const char *tandem_module_last_message(void);

#ifdef __cplusplus
}
#endif

#endif /* )"
     << guard << " */\n";
  return text;
}
