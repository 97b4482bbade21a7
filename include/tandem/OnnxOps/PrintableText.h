//===- PrintableText.h - Text that holds names of a file ------- -*- C++
//-*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_ONNXOPS_PRINTABLETEXT_H
#define TANDEM_ONNXOPS_PRINTABLETEXT_H

#include "llvm/ADT/StringRef.h"

#include <string>

namespace mlir::tandem {

/// `text` as a terminal may see it. Names in it come from files and may hold
/// anything: control characters, those of UTF-8 that take two bytes as well,
/// are written as \x and two hexadecimal digits a byte, so that the result is
/// one line. With `keepsLines` newlines stay.
std::string makePrintable(llvm::StringRef text, bool keepsLines = false);

} // namespace mlir::tandem

#endif // TANDEM_ONNXOPS_PRINTABLETEXT_H
