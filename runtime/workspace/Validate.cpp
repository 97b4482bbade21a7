//===-- Validate.cpp - Checks of what callers pass ------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Validate.h"

#include "cpu/Layout.h"

#include <cmath>

using namespace tandem;

static Error invalid(const char *what, long long value, const char *rule) {
  return makeError(TANDEM_STATUS_INVALID_ARGUMENT, -1, "%s is %lld, %s", what,
                   value, rule);
}

namespace {
/// A view's bytes.
struct Region {
  const char *name;
  uintptr_t begin = 0;
  uintptr_t end = 0;
  uint64_t stride = 0;
  uint64_t width = 0;
};
} // namespace

/// Common to all calls.
static Error checkShape(int64_t tokens, int64_t hidden, int32_t dtype,
                        uint32_t flags) {
  if (tokens < 0)
    return invalid("tokens", tokens, "less than 0");
  if (hidden <= 0)
    return invalid("hidden", hidden, "not positive");
  if (dtype < TANDEM_DTYPE_F32 || dtype > TANDEM_DTYPE_BF16)
    return invalid("dtype", dtype, "not one of tandem_dtype");
  constexpr uint32_t known = TANDEM_CALL_FALLBACK | TANDEM_CALL_BATCH_INVARIANT;
  if (flags & ~known)
    return makeError(TANDEM_STATUS_UNSUPPORTED, -1,
                     "flags has bits 0x%x that this runtime doesn't know",
                     flags & ~known);
  return Error();
}

/// Checks one present view and measures it.
static Error measure(const char *name, tandem_view &view, int64_t tokens,
                     int64_t hidden, int32_t dtype, Region &region) {
  if (view.row_stride == 0)
    view.row_stride = hidden;
  if (view.row_stride < hidden)
    return makeError(TANDEM_STATUS_INVALID_ARGUMENT, -1,
                     "%s.row_stride is %lld, less than hidden %lld", name,
                     static_cast<long long>(view.row_stride),
                     static_cast<long long>(hidden));
  uint64_t element = elementBytes(dtype);
  region.name = name;
  region.begin = reinterpret_cast<uintptr_t>(view.data);
  if (region.begin % element != 0)
    return makeError(TANDEM_STATUS_INVALID_ARGUMENT, -1,
                     "%s.data is not aligned to its %d-byte elements", name,
                     static_cast<int>(element));
  uint64_t span;
  // A single row has no use for its stride.
  if (__builtin_mul_overflow(uint64_t(tokens - 1), uint64_t(view.row_stride),
                             &span) ||
      __builtin_add_overflow(span, uint64_t(hidden), &span) ||
      __builtin_mul_overflow(span, element, &span) || span > INT64_MAX ||
      __builtin_add_overflow(region.begin, span, &region.end))
    return makeError(TANDEM_STATUS_INVALID_ARGUMENT, -1,
                     "%s: tokens %lld x row_stride %lld elements don't fit in "
                     "the address space",
                     name, static_cast<long long>(tokens),
                     static_cast<long long>(view.row_stride));
  region.width = uint64_t(hidden) * element;
  region.stride =
      tokens == 1 ? region.width : uint64_t(view.row_stride) * element;
  return Error();
}

static bool disjoint(const Region &a, const Region &b) {
  if (a.end <= b.begin || b.end <= a.begin)
    return true;
  if (a.stride != b.stride)
    return false;
  // Columns of one matrix, side by side.
  uint64_t shift =
      (b.begin >= a.begin ? b.begin - a.begin : a.begin - b.begin) % a.stride;
  if (b.begin < a.begin && shift != 0)
    shift = a.stride - shift;
  return shift >= a.width && shift + b.width <= a.stride;
}

static Error overlap(const Region &a, const Region &b) {
  return makeError(TANDEM_STATUS_INVALID_ARGUMENT, -1,
                   "%s overlaps %s (an output may only be the very same view "
                   "as an input)",
                   a.name, b.name);
}

static Error checkNorm(const char *name, const tandem_norm_spec &norm,
                       int64_t hidden, Region &region) {
  if (norm.gamma_dtype < TANDEM_DTYPE_F32 ||
      norm.gamma_dtype > TANDEM_DTYPE_BF16)
    return makeError(TANDEM_STATUS_INVALID_ARGUMENT, -1,
                     "%s.gamma_dtype is %d, not one of tandem_dtype", name,
                     norm.gamma_dtype);
  if (norm.rounding != TANDEM_ROUNDING_BEFORE_GAMMA &&
      norm.rounding != TANDEM_ROUNDING_AFTER_GAMMA)
    return makeError(TANDEM_STATUS_INVALID_ARGUMENT, -1,
                     "%s.rounding is %d, not one of tandem_rounding", name,
                     norm.rounding);
  if (!std::isfinite(norm.epsilon) || norm.epsilon < 0)
    return makeError(TANDEM_STATUS_INVALID_ARGUMENT, -1,
                     "%s.epsilon is %g, not finite and at least 0", name,
                     norm.epsilon);
  tandem_view view = {const_cast<void *>(norm.gamma), 0};
  return measure(name, view, 1, hidden, norm.gamma_dtype, region);
}

Error tandem::validate(NormCall call, tandem_norm_args &args) {
  if (Error e = checkShape(args.tokens, args.hidden, args.dtype, args.flags))
    return e;
  if (Error e = checkReserved(args.reserved, "tandem_norm_args"))
    return e;
  if (!args.input.data)
    return makeError(TANDEM_STATUS_INVALID_ARGUMENT, -1, "input.data is NULL");
  if (!args.norm_out.data)
    return makeError(TANDEM_STATUS_INVALID_ARGUMENT, -1,
                     "norm_out.data is NULL");
  if (!args.norm.gamma)
    return makeError(TANDEM_STATUS_INVALID_ARGUMENT, -1, "norm.gamma is NULL");
  if (call == NormCall::RmsNorm &&
      (args.residual.data || args.bias || args.pre_norm.gamma ||
       args.residual_out.data || args.sum_out.data))
    return makeError(TANDEM_STATUS_INVALID_ARGUMENT, -1,
                     "tandem_rms_norm takes input, norm and norm_out alone");

  Region views[2], vectors[3], outputs[3];
  int numViews = 0, numVectors = 0, numOutputs = 0;
  auto addView = [&](const char *name, tandem_view &view, Region *regions,
                     int &count) {
    if (!view.data)
      return Error();
    return measure(name, view, args.tokens, args.hidden, args.dtype,
                   regions[count++]);
  };
  if (Error e = addView("input", args.input, views, numViews))
    return e;
  if (Error e = addView("residual", args.residual, views, numViews))
    return e;
  if (Error e = addView("norm_out", args.norm_out, outputs, numOutputs))
    return e;
  if (Error e = addView("residual_out", args.residual_out, outputs, numOutputs))
    return e;
  if (Error e = addView("sum_out", args.sum_out, outputs, numOutputs))
    return e;
  if (Error e =
          checkNorm("norm", args.norm, args.hidden, vectors[numVectors++]))
    return e;
  if (args.pre_norm.gamma)
    if (Error e = checkNorm("pre_norm", args.pre_norm, args.hidden,
                            vectors[numVectors++]))
      return e;
  if (args.bias) {
    tandem_view bias = {const_cast<void *>(args.bias), 0};
    if (Error e = measure("bias", bias, 1, args.hidden, args.dtype,
                          vectors[numVectors++]))
      return e;
  }

  for (int o = 0; o < numOutputs; ++o) {
    const Region &out = outputs[o];
    for (int i = 0; i < numViews; ++i) {
      bool same = out.begin == views[i].begin && out.stride == views[i].stride;
      if (!same && !disjoint(out, views[i]))
        return overlap(out, views[i]);
    }
    for (int i = 0; i < numVectors; ++i)
      if (!disjoint(out, vectors[i]))
        return overlap(out, vectors[i]);
    for (int p = 0; p < o; ++p)
      if (!disjoint(out, outputs[p]))
        return overlap(out, outputs[p]);
  }
  return Error();
}

Error tandem::validate(tandem_all_reduce_args &args) {
  if (Error e = checkShape(args.tokens, args.hidden, args.dtype, args.flags))
    return e;
  if (Error e = checkReserved(args.reserved, "tandem_all_reduce_args"))
    return e;
  if (args.reserved0 != 0)
    return makeError(TANDEM_STATUS_UNSUPPORTED, -1,
                     "tandem_all_reduce_args.reserved0 must be zero");
  if (args.reduction < TANDEM_REDUCTION_SUM ||
      args.reduction > TANDEM_REDUCTION_PROD)
    return invalid("reduction", args.reduction, "not one of tandem_reduction");
  if (!args.input.data)
    return makeError(TANDEM_STATUS_INVALID_ARGUMENT, -1, "input.data is NULL");
  if (!args.output.data)
    return makeError(TANDEM_STATUS_INVALID_ARGUMENT, -1, "output.data is NULL");
  Region in, out;
  if (Error e = measure("input", args.input, args.tokens, args.hidden,
                        args.dtype, in))
    return e;
  if (Error e = measure("output", args.output, args.tokens, args.hidden,
                        args.dtype, out))
    return e;
  bool same = in.begin == out.begin && in.stride == out.stride;
  if (!same && !disjoint(out, in))
    return overlap(out, in);
  return Error();
}
