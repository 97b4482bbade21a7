//===- Stages.h - The stages of compiling --------------------- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_COMPILE_STAGES_H
#define TANDEM_LIB_COMPILE_STAGES_H

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"
#include "tandem/Compile/Compile.h"
#include "llvm/Support/raw_ostream.h"

namespace mlir::tandem::compile {

/// Sees that C can name the public functions, that no function has a name that
/// means something to the C library or is Tandem's, and that each has a body.
/// Private functions get other names where that is needed.
LogicalResult checkNames(ModuleOp module);

/// The names of the public functions that compute nothing on the host: only the
/// runtime touches their tensors' elements. To be asked of tensors.
SmallVector<std::string> findDeviceFunctions(ModuleOp module);

/// Puts the all-reduce's sum first in adds, from which the sum's sizes are
/// taken then: both branches of a guard have those of the same argument, and
/// sizes of results don't depend on which is taken.
void orderAdds(ModuleOp module);

/// Makes elementwise operations of additions that only other additions read, on
/// tensors, so that they can be fused: each would be a loop of its own, and
/// upstream's analysis of buffers takes the cube of their number.
void lowerAddChains(ModuleOp module);

/// Moves the checks (cf.assert) of each function to its beginning, as far as
/// what they check is made of arguments' sizes: before anything is allocated or
/// communicated.
void hoistChecks(ModuleOp module);

/// A pass on modules: makes one loop of several elementwise operations, which
/// are linalg's by then, of a size that later stages take in their stride.
std::unique_ptr<Pass> createFuseElementwise();

/// On the LLVM dialect: adds the entry points with packed arguments, and makes
/// all else private to the object.
/// `deviceFunctions` of findDeviceFunctions; those that allocate drop out.
LogicalResult addEntryPoints(ModuleOp module,
                             ArrayRef<std::string> deviceFunctions);

/// A constant whose bytes go into the object as they are.
struct DataSymbol {
  std::string name;
  uint64_t offset = 0; ///< in the data, aligned to 64
  uint64_t bytes = 0;
};

/// Takes the data of large constants out of the module, writes it to `os`, and
/// leaves symbols in its place. An error where it is more than an object can
/// hold.
FailureOr<SmallVector<DataSymbol>>
extractData(ModuleOp module, uint64_t minBytes, raw_ostream &os);

/// Writes an object file.
LogicalResult emitObject(ModuleOp module, StringRef path,
                         const CompileOptions &options);

/// Sees that nothing is missing from the shared object `linked`, made of
/// `object` by `linker`, that no library and not the runtime have: such an
/// object could not be loaded. The error names the function that needs it.
LogicalResult checkSymbols(ModuleOp module, StringRef object, StringRef linked,
                           StringRef linker);

/// The text of the C header for what `moduleInfo` (JSON) describes.
std::string makeHeader(StringRef moduleInfo, StringRef headerName,
                       StringRef sourceName);

} // namespace mlir::tandem::compile

#endif // TANDEM_LIB_COMPILE_STAGES_H
