/* Loads a plugin as mlir-opt does, and says whether it would take it.
 *
 * Part of the Tandem project, under the Apache License v2.0 with LLVM
 * Exceptions.
 * See LICENSE for license information.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * Built in several ways: without any MLIR, as a host that holds a private copy
 * would look; exporting one of MLIR's functions, as mlir-opt of LLVM 19 does
 * with all of them; linked to the shared library of the plugin's own MLIR. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>

struct Info {
  uint32_t apiVersion;
  const char *name, *version;
  void (*callback)(void *);
};

#ifdef EXPORTS_MLIR
/* mlir::MLIRContext::allowUnregisteredDialects(bool) */
void _ZN4mlir11MLIRContext25allowUnregisteredDialectsEb(void) {}
#endif

int main(int argc, char **argv) {
  void *plugin = argc > 1 ? dlopen(argv[1], RTLD_LAZY) : NULL;
  if (!plugin) {
    fprintf(stderr, "%s\n", dlerror());
    return 2;
  }
  static const char *const entries[] = {"mlirGetDialectPluginInfo",
                                        "mlirGetPassPluginInfo"};
  for (int i = 0; i < 2; ++i) {
    struct Info (*entry)(void) =
        (struct Info (*)(void))dlsym(plugin, entries[i]);
    if (!entry)
      return 2;
    struct Info info = entry();
    printf("%s: %s %s, interface %u\n", entries[i], info.name, info.version,
           info.apiVersion);
  }
  return 0;
}
