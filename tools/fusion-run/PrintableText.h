//===- PrintableText.h - Text that holds names of a file ------- -*- C++
//-*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TOOLS_FUSION_RUN_PRINTABLETEXT_H
#define TANDEM_TOOLS_FUSION_RUN_PRINTABLETEXT_H

#include <string>

namespace tandem::run {

/// `text` as a terminal may see it, one line: control characters are written
/// as the compiler's tools write them (tandem/OnnxOps/PrintableText.h), \x and
/// two hexadecimal digits a byte.
std::string makePrintable(const std::string &text);

} // namespace tandem::run

#endif // TANDEM_TOOLS_FUSION_RUN_PRINTABLETEXT_H
