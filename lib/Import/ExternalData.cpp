//===- ExternalData.cpp - Tensors stored beside the model -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ExternalData.h"

#include "tandem_onnx/onnx.pb.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"

using namespace mlir::tandem::onnx;
using llvm::StringRef;

bool mlir::tandem::onnx::parseExternalRef(
    const ::tandem_onnx::TensorProto &tensor, ExternalRef &ref,
    std::string &error) {
  bool hasLocation = false;
  for (const auto &entry : tensor.external_data()) {
    StringRef key = entry.key();
    StringRef value = entry.value();
    if (key == "location") {
      ref.location = value.str();
      hasLocation = true;
    } else if (key == "offset" || key == "length") {
      int64_t number = 0;
      if (value.getAsInteger(10, number) || number < 0) {
        error = ("has the external data " + key + " '" + value +
                 "', which is not a number of bytes")
                    .str();
        return false;
      }
      (key == "offset" ? ref.offset : ref.length) = number;
    }
  }
  if (!hasLocation) {
    error = "is stored externally, but has no location";
    return false;
  }
  return true;
}
