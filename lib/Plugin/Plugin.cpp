//===- Plugin.cpp - Tandem inside a stock mlir-opt ------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The entry points that `--load-dialect-plugin` and `--load-pass-plugin` of
// mlir-opt look for. docs/embedding/plugin.md.
//
//===----------------------------------------------------------------------===//

#include "HostCheck.h"

#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Tools/Plugins/DialectPlugin.h"
#include "mlir/Tools/Plugins/PassPlugin.h"
#include "tandem/InitAll.h"
#include "llvm/Config/llvm-config.h"

#include <cstdio>
#include <cstring>

using namespace mlir;

/// Any function of MLIR's library, as the dynamic linker gives it to us.
static const void *getMLIRSymbol() {
  void (MLIRContext::*method)(bool) = &MLIRContext::allowUnregisteredDialects;
  const void *address;
  static_assert(sizeof(method) >= sizeof(address));
  std::memcpy(static_cast<void *>(&address), &method, sizeof(address));
  return address;
}

/// The version of the plugin interface to claim. One that no host has makes a
/// host that would crash refuse the plugin by itself.
static uint32_t checkHost(const void *caller) {
  std::string mismatch =
      tandem::findHostMismatch(caller, getMLIRSymbol(), TANDEM_MLIR_LIBRARY);
  if (mismatch.empty())
    return MLIR_PLUGIN_API_VERSION;
  std::fprintf(stderr,
               "error: TandemPlugin refuses to load: it is built for MLIR "
               "%s, shared in %s, but %s\n",
               LLVM_VERSION_STRING, TANDEM_MLIR_LIBRARY, mismatch.c_str());
  return 0;
}

static const char pluginName[] = "Tandem";
static const char pluginVersion[] =
    TANDEM_VERSION " (MLIR " LLVM_VERSION_STRING ")";

extern "C" PassPluginLibraryInfo LLVM_ATTRIBUTE_WEAK mlirGetPassPluginInfo() {
  return {checkHost(__builtin_return_address(0)), pluginName, pluginVersion,
          tandem::registerTandemPassesAndPipelinesOnce};
}

extern "C" DialectPluginLibraryInfo LLVM_ATTRIBUTE_WEAK
mlirGetDialectPluginInfo() {
  return {checkHost(__builtin_return_address(0)), pluginName, pluginVersion,
          [](DialectRegistry *registry) {
            tandem::registerTandemDialects(*registry);
            tandem::registerTandemPassesAndPipelinesOnce();
          }};
}
