//===- Symbols.cpp - What a shared object needs from others ---------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Stages.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/Object/ELFObjectFile.h"

using namespace mlir;
using namespace mlir::tandem;
namespace object = llvm::object;

/// What the process that loads the object has: the runtime's functions.
static bool isOfRuntime(StringRef name) {
  static const llvm::StringSet<> names = {"tandem_abi_version",
                                          "tandem_add_rms_norm",
                                          "tandem_all_reduce",
                                          "tandem_comm_rank",
                                          "tandem_comm_world",
                                          "tandem_fused_all_reduce_norm",
                                          "tandem_rms_norm",
                                          "tandem_status_name",
                                          "tandem_token_limit",
                                          "tandem_workspace_fail",
                                          "tandem_workspace_get_failure",
                                          "tandem_workspace_get_info"};
  return names.contains(name);
}

/// What a C library has; asked for where symbols have no versions.
static bool isOfCLibrary(StringRef name, const llvm::Triple &triple) {
  llvm::LibFunc ignored;
  return llvm::TargetLibraryInfoImpl(triple).getLibFunc(name, ignored) ||
         name == "__tls_get_addr" || name == "abort";
}

/// The symbols that the linked object at `path` needs and no library that it
/// names, nor the runtime, is known to have.
static llvm::Expected<SmallVector<std::string>> findMissing(StringRef path) {
  auto binary = object::ObjectFile::createObjectFile(path);
  if (!binary)
    return binary.takeError();
  auto *elf = dyn_cast<object::ELFObjectFileBase>(binary->getBinary());
  if (!elf)
    return llvm::createStringError("it is no ELF file");
  // One for each symbol but the first, which is none.
  auto versions = elf->readDynsymVersions();
  if (!versions)
    return versions.takeError();
  SmallVector<std::string> missing;
  size_t number = 0;
  for (object::ELFSymbolRef symbol : elf->getDynamicSymbolIterators()) {
    size_t own = number++;
    auto flags = symbol.getFlags();
    if (!flags)
      return flags.takeError();
    if (!(*flags & object::SymbolRef::SF_Undefined) ||
        (*flags & object::SymbolRef::SF_Weak))
      continue;
    auto name = symbol.getName();
    if (!name)
      return name.takeError();
    // The linker found a library that has it under a version.
    bool isFound = own < versions->size() && !(*versions)[own].Name.empty();
    if (!name->empty() && !isFound && !isOfRuntime(*name) &&
        !isOfCLibrary(*name, elf->makeTriple()))
      if (!llvm::is_contained(missing, *name))
        missing.push_back(name->str());
  }
  // Hash tables order them.
  llvm::sort(missing);
  return missing;
}

/// The function in the object at `path` that `missing` comes from; empty where
/// that can't be seen.
static std::string findUser(StringRef path, StringRef missing) {
  auto binary = object::ObjectFile::createObjectFile(path);
  if (!binary) {
    llvm::consumeError(binary.takeError());
    return "";
  }
  object::ObjectFile &file = *binary->getBinary();
  for (const object::SectionRef &section : file.sections()) {
    auto relocated = section.getRelocatedSection();
    if (!relocated) {
      llvm::consumeError(relocated.takeError());
      continue;
    }
    if (*relocated == file.section_end())
      continue;
    for (const object::RelocationRef &relocation : section.relocations()) {
      object::symbol_iterator target = relocation.getSymbol();
      if (target == file.symbol_end())
        continue;
      auto name = target->getName();
      if (!name || *name != missing) {
        if (!name)
          llvm::consumeError(name.takeError());
        continue;
      }
      for (const object::SymbolRef &symbol : file.symbols()) {
        object::ELFSymbolRef function(symbol);
        auto home = symbol.getSection();
        auto value = symbol.getValue();
        auto own = symbol.getName();
        if (home && value && own && *home == *relocated &&
            function.getELFType() == llvm::ELF::STT_FUNC &&
            relocation.getOffset() >= *value &&
            relocation.getOffset() < *value + function.getSize())
          return own->str();
        if (!home)
          llvm::consumeError(home.takeError());
        if (!value)
          llvm::consumeError(value.takeError());
        if (!own)
          llvm::consumeError(own.takeError());
      }
    }
  }
  return "";
}

LogicalResult mlir::tandem::compile::checkSymbols(ModuleOp module,
                                                  StringRef object,
                                                  StringRef linked,
                                                  StringRef linker) {
  auto missing = findMissing(linked);
  if (!missing)
    return emitError(module.getLoc())
           << "'" << linker << "' made no shared object that can be read: "
           << llvm::toString(missing.takeError());
  if (missing->empty())
    return success();
  std::string user = findUser(object, missing->front());
  StringRef name = user;
  if (!name.consume_front("_mlir_ciface_"))
    name.consume_front("tandem_packed_");
  Operation *function = name.empty() ? nullptr : module.lookupSymbol(name);
  InFlightDiagnostic diagnostic =
      emitError(function ? function->getLoc() : module.getLoc());
  if (!name.empty())
    diagnostic << "function '" << name << "' ";
  else
    diagnostic << "the code ";
  diagnostic << "needs ";
  llvm::interleave(
      *missing,
      [&](const std::string &symbol) { diagnostic << "'" << symbol << "'"; },
      [&] { diagnostic << ", "; });
  return diagnostic << ", which neither the C library nor the compiler's "
                       "support library nor Tandem's runtime has";
}
