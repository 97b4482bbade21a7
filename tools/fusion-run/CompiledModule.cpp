//===- CompiledModule.cpp - A module made by fusion-translate --compile ---===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CompiledModule.h"

#include "Array.h"
#include "Json.h"
#include "tandem/Runtime/tandem.h"

#include <cstring>
#include <dlfcn.h>

using namespace tandem::run;

static ValueInfo readValue(const Json &json) {
  ValueInfo value;
  value.name = json["name"].string;
  value.type = json["dtype"].string;
  value.isScalar = json["shape"].isNull();
  for (const Json &size : json["shape"].list)
    value.shape.push_back(size.isNull() ? -1 : size.number);
  for (const Json &name : json["dims"].list)
    value.dimNames.push_back(name.string);
  value.dimNames.resize(value.shape.size());
  value.isWritable = json["writable"].boolean;
  return value;
}

static FunctionInfo readFunction(const Json &json) {
  FunctionInfo function;
  function.name = json["name"].string;
  function.noShapesReason = json["shapes_reason"].string;
  for (const Json &value : json["arguments"].list)
    function.arguments.push_back(readValue(value));
  for (const Json &value : json["results"].list)
    function.results.push_back(readValue(value));
  for (const Json &entry : json["groups"].list) {
    GroupInfo group;
    group.name = entry["name"].string;
    group.size = entry["size"].number;
    for (const Json &rank : entry["ranks"].list)
      group.ranks.push_back(rank.number);
    group.hidden = entry["hidden"].number;
    for (const Json &type : entry["dtypes"].list)
      group.types.push_back(type.string);
    group.isFused = entry["fused"].boolean;
    group.isBatchInvariant = entry["batch_invariant"].boolean;
    function.groups.push_back(std::move(group));
  }
  function.takesStream = json["stream"].boolean;
  return function;
}

bool CompiledModule::load(const std::string &file, std::string &error) {
  path = file;
  // A name without a slash would be looked up in the library path.
  std::string name = path.find('/') == std::string::npos ? "./" + path : path;
  void *library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *why = dlerror();
    error = "cannot load '" + path + "': " + (why ? why : "no reason given");
    return false;
  }
  auto *info = static_cast<const char *>(dlsym(library, "tandem_module_info"));
  if (!info) {
    error = "'" + path +
            "' was not made by fusion-translate --compile: it has "
            "no tandem_module_info";
    return false;
  }
  Json json;
  if (!Json::parse(info, json) || json["version"].number < 1) {
    error = "'" + path + "' describes itself in a way that can't be read";
    return false;
  }
  int64_t abi = json["abi"].number;
  uint32_t have = tandem_abi_version();
  if (json["version"].number != 1 || (abi >> 16) != (have >> 16) ||
      (abi & 0xffff) > (have & 0xffff)) {
    error = "'" + path + "' was compiled for version " +
            std::to_string(abi >> 16) + "." + std::to_string(abi & 0xffff) +
            " of the runtime's ABI; this runtime has " +
            std::to_string(have >> 16) + "." + std::to_string(have & 0xffff);
    return false;
  }
  for (const Json &line : json["signature"].list)
    signature += (signature.empty() ? "" : "\n") + line.string;
  auto *device = static_cast<const char *>(
      dlsym(library, "tandem_module_device_functions"));
  std::string deviceList = device ? std::string("\n") + device + "\n" : "";
  for (const Json &entry : json["functions"].list) {
    FunctionInfo function = readFunction(entry);
    auto find = [&](const std::string &symbol) {
      return reinterpret_cast<PackedFunction>(
          dlsym(library, ("tandem_packed_" + symbol).c_str()));
    };
    function.call = find(function.name);
    if (!entry["shapes"].isNull())
      function.shapes = find(function.name + "_result_shapes");
    function.runsOnDevice =
        deviceList.find("\n" + function.name + "\n") != std::string::npos;
    if (!function.call) {
      error = "'" + path + "' lacks the code of '" + function.name + "'";
      return false;
    }
    functions.push_back(std::move(function));
  }
  lastMessage = reinterpret_cast<const char *(*)()>(
      dlsym(library, "tandem_module_last_message"));
  return true;
}

const FunctionInfo *CompiledModule::find(const std::string &name,
                                         std::string &error) const {
  for (const FunctionInfo &function : functions)
    if (function.name == name)
      return &function;
  error = "'" + path + "' has no function '" + name + "'; it has";
  for (const FunctionInfo &function : functions)
    error += " '" + function.name + "'";
  if (functions.empty())
    error += " none";
  return nullptr;
}

std::string CompiledModule::getLastMessage() const {
  const char *message = lastMessage ? lastMessage() : nullptr;
  return message ? message : "";
}
