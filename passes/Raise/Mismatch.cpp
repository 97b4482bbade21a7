//===- Mismatch.cpp - Why source ops do not match -------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Passes/Raise.h"

using namespace mlir;
using namespace mlir::tandem;

namespace {
struct MismatchInfo {
  StringRef name;
  StringRef text;
  StringRef advice = {};
};
} // namespace

static MismatchInfo getInfo(Mismatch mismatch) {
  switch (mismatch) {
  case Mismatch::NotANorm:
    return {"NotANorm", "nothing about it resembles a norm"};
  case Mismatch::ConstantNotRead:
    return {"ConstantNotRead",
            "its constants (exponent, axes, epsilon) are in external data that "
            "could not be read when the model was imported",
            "import the model where its external data is, or with "
            "--external-data-dir; or write its small constants inline"};
  case Mismatch::SquareExponent:
    return {"SquareExponent", "the exponent is not the constant 2",
            "square by Mul, or by Pow with the constant 2"};
  case Mismatch::NotAMean:
    return {"NotAMean", "the squares are reduced by another op than a mean",
            "take the mean of the squares, by ReduceMean"};
  case Mismatch::AxesNotConstant:
    return {"AxesNotConstant", "the axes of the mean are not constant",
            "give the axes as a constant"};
  case Mismatch::WrongAxes:
    return {"WrongAxes", "the mean is not over the last dimension alone",
            "normalise over the last dimension alone"};
  case Mismatch::KeepDims:
    return {"KeepDims", "the mean does not keep its dimension",
            "set keepdims to 1"};
  case Mismatch::NoEpsilon:
    return {"NoEpsilon", "no epsilon is added to the mean",
            "add epsilon to the mean"};
  case Mismatch::EpsilonNotConstant:
    return {"EpsilonNotConstant", "epsilon is not one constant number",
            "give epsilon as a constant of one element"};
  case Mismatch::EpsilonInvalid:
    return {"EpsilonInvalid", "epsilon is negative or not finite",
            "give an epsilon that is finite and not negative"};
  case Mismatch::NoInverseRoot:
    return {"NoInverseRoot", "no division by the square root follows"};
  case Mismatch::InputsDiffer:
    return {"InputsDiffer",
            "the value that is scaled is not the one that was squared"};
  case Mismatch::MeanSubtracted:
    return {"MeanSubtracted",
            "the mean is subtracted first, so it is a LayerNorm",
            "nothing: a LayerNorm is not fused, only RMSNorm is"};
  case Mismatch::LpNormalization:
    return {"LpNormalization",
            "it is a p-norm, which has no epsilon under the root",
            "nothing: a p-norm is not fused, only RMSNorm is"};
  case Mismatch::NoGamma:
    return {"NoGamma", "no multiplication by gamma follows",
            "multiply by gamma last, by ones where the norm has no gamma"};
  case Mismatch::GammaShape:
    return {"GammaShape",
            "gamma has not the static length of the last dimension",
            "give gamma the static length of the last dimension"};
  case Mismatch::MixedPrecision:
    return {"MixedPrecision",
            "values are rounded at another place than tandem.rms_norm does"};
  case Mismatch::StashType:
    return {"StashType", "the statistics are not computed in f32",
            "set stash_type to 1 (float)"};
  case Mismatch::InteriorUse:
    return {"InteriorUse", "a value inside the norm is used elsewhere",
            "let nothing outside of the norm use its inner values"};
  case Mismatch::ExtraOutput:
    return {"ExtraOutput", "the mean or the inverse standard deviation is used",
            "leave the outputs for the statistics out"};
  case Mismatch::SkipShape:
    return {"SkipShape", "the skip is larger than the input",
            "give the skip the shape of the input"};
  case Mismatch::UnknownType:
    return {"UnknownType",
            "the tensor's rank, element type or hidden size is not known",
            "run shape inference, or give value_info"};
  case Mismatch::SeveralInputs:
    return {"SeveralInputs", "it reduces several tensors at once",
            "give each tensor an all-reduce of its own"};
  case Mismatch::UnknownReduction:
    return {"UnknownReduction", "its reduction is not known",
            "name the reduction as docs/raise.md lists them"};
  case Mismatch::UnknownGroup:
    return {"UnknownGroup", "its group is not known",
            "name the group as docs/raise.md lists them"};
  case Mismatch::TypeChanges:
    return {"TypeChanges", "the result's type is not the operand's",
            "let the all-reduce give the type that it takes"};
  case Mismatch::NoWait:
    return {"NoWait", "its result is used by another op than one wait_tensor",
            "let one wait_tensor be the only user of the all_reduce"};
  }
  return {"NotANorm", ""};
}

StringRef mlir::tandem::describe(Mismatch mismatch) {
  return getInfo(mismatch).text;
}

StringRef mlir::tandem::stringify(Mismatch mismatch) {
  return getInfo(mismatch).name;
}

StringRef mlir::tandem::getAdvice(Mismatch mismatch) {
  return getInfo(mismatch).advice;
}
