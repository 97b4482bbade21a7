//===- PrintableText.h - Text that holds names of a file --------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// Without LLVM, since fusion-run, which has none, writes names alike.

#ifndef TANDEM_ONNXOPS_PRINTABLETEXT_H
#define TANDEM_ONNXOPS_PRINTABLETEXT_H

#include <string>
#include <string_view>

namespace mlir::tandem {

/// `text` as a terminal may see it. Names in it come from files and may hold
/// anything: control characters, those of UTF-8 that take two bytes as well,
/// are written as \x and two hexadecimal digits a byte, so that the result is
/// one line. With `keepsLines` newlines stay.
inline std::string makePrintable(std::string_view text,
                                 bool keepsLines = false) {
  std::string result;
  result.reserve(text.size());
  auto escape = [&](unsigned char c) {
    constexpr char digits[] = "0123456789ABCDEF";
    result += "\\x";
    result += digits[c >> 4];
    result += digits[c & 0xf];
  };
  for (size_t i = 0; i != text.size(); ++i) {
    auto c = static_cast<unsigned char>(text[i]);
    auto next =
        static_cast<unsigned char>(i + 1 != text.size() ? text[i + 1] : 0);
    bool isKept = c == '\n' && keepsLines;
    if (!isKept && (c < 0x20 || c == 0x7f)) {
      escape(c);
    } else if (c == 0xc2 && next >= 0x80 && next < 0xa0) {
      // U+0080 to U+009F; U+009B begins what ESC and [ begin.
      escape(c);
      escape(next);
      ++i;
    } else {
      result += text[i];
    }
  }
  return result;
}

} // namespace mlir::tandem

#endif // TANDEM_ONNXOPS_PRINTABLETEXT_H
