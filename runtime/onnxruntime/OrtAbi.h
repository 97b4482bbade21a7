//===- OrtAbi.h - What we use of ONNX Runtime's C ABI -*- C++ -* -===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// ONNX Runtime's Python package has no headers, and its C API is a table of
// functions to which releases only append. So this names the few entries that
// we call by their places, and the layout of a custom op up to version 17 of
// the API (ONNX Runtime 1.17). Nothing links to ONNX Runtime: it hands us the
// table.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_ONNXRUNTIME_ORTABI_H
#define TANDEM_RUNTIME_ONNXRUNTIME_ORTABI_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tandem::ort {

struct Status;
struct SessionOptions;
struct Domain;
struct KernelInfo;
struct KernelContext;
struct Value;
struct TensorInfo;
struct Allocator;
struct MemoryInfo;

inline constexpr uint32_t kApiVersion = 17;
/// The version from which on a kernel can ask for its device's allocator.
inline constexpr uint32_t kCudaApiVersion = 18;

/// Of ONNX Runtime's error codes.
enum ErrorCode : int { kFail = 1 };

/// TensorProto.DataType, in effect.
enum ElementType : int {
  kUndefined = 0,
  kFloat = 1,
  kInt64 = 7,
  kFloat16 = 10,
  kBFloat16 = 16
};

enum Characteristic : int { kRequired = 0, kOptional = 1 };

struct ApiBase {
  const void *const *(*getApi)(uint32_t version);
  const char *(*getVersionString)();
};

/// The table, with the entries that we call. All but get... return null or a
/// status that the caller releases or returns to ONNX Runtime.
class Api {
public:
  explicit Api(const void *const *table) : table(table) {}
  explicit operator bool() const { return table != nullptr; }

  Status *makeStatus(ErrorCode code, const char *message) const {
    return at<Status *(*)(int, const char *)>(0)(code, message);
  }
  void release(Status *status) const {
    if (status)
      at<void (*)(Status *)>(93)(status);
  }

  Status *makeDomain(const char *name, Domain **domain) const {
    return at<Status *(*)(const char *, Domain **)>(26)(name, domain);
  }
  void release(Domain *domain) const { at<void (*)(Domain *)>(101)(domain); }
  Status *add(Domain *domain, const void *customOp) const {
    return at<Status *(*)(Domain *, const void *)>(27)(domain, customOp);
  }
  Status *add(SessionOptions *options, Domain *domain) const {
    return at<Status *(*)(SessionOptions *, Domain *)>(28)(options, domain);
  }

  Status *getData(Value *value, void **data) const {
    return at<Status *(*)(Value *, void **)>(51)(value, data);
  }
  /// The value's dims.
  Status *getShape(const Value *value, std::vector<int64_t> &dims) const {
    TensorInfo *info = nullptr;
    if (Status *status =
            at<Status *(*)(const Value *, TensorInfo **)>(65)(value, &info))
      return status;
    size_t rank = 0;
    Status *status =
        at<Status *(*)(const TensorInfo *, size_t *)>(61)(info, &rank);
    if (!status) {
      dims.resize(rank);
      status = at<Status *(*)(const TensorInfo *, int64_t *, size_t)>(62)(
          info, dims.data(), rank);
    }
    at<void (*)(TensorInfo *)>(99)(info);
    return status;
  }

  Status *getFloat(const KernelInfo *info, const char *name,
                   float *value) const {
    return at<Status *(*)(const KernelInfo *, const char *, float *)>(85)(
        info, name, value);
  }
  Status *getInt(const KernelInfo *info, const char *name,
                 int64_t *value) const {
    return at<Status *(*)(const KernelInfo *, const char *, int64_t *)>(86)(
        info, name, value);
  }
  Status *getString(const KernelInfo *info, const char *name,
                    std::string &value) const {
    size_t size = 0;
    auto call =
        at<Status *(*)(const KernelInfo *, const char *, char *, size_t *)>(87);
    if (Status *status = call(info, name, nullptr, &size))
      return status;
    return readText(value, size, [&](char *text, size_t *length) {
      return call(info, name, text, length);
    });
  }

  Status *getOutputCount(const KernelContext *context, size_t *count) const {
    return at<Status *(*)(const KernelContext *, size_t *)>(89)(context, count);
  }
  Status *getInput(const KernelContext *context, size_t index,
                   const Value **value) const {
    return at<Status *(*)(const KernelContext *, size_t, const Value **)>(90)(
        context, index, value);
  }
  Status *getOutput(KernelContext *context, size_t index,
                    const std::vector<int64_t> &dims, Value **value) const {
    return at<Status *(*)(KernelContext *, size_t, const int64_t *, size_t,
                          Value **)>(91)(context, index, dims.data(),
                                         dims.size(), value);
  }

  /// The CUDA stream on which the node's provider runs it.
  Status *getStream(const KernelContext *context, void **stream) const {
    return at<Status *(*)(const KernelContext *, void **)>(193)(context,
                                                                stream);
  }
  /// The index of the device whose memory the node's provider hands out. Only
  /// from kCudaApiVersion on.
  Status *getDevice(const KernelInfo *info, int *device) const {
    Allocator *allocator = nullptr;
    if (Status *status = at<Status *(*)(const KernelInfo *, int, Allocator **)>(
            278)(info, 0, &allocator))
      return status;
    const MemoryInfo *memory = nullptr;
    Status *status = at<Status *(*)(const Allocator *, const MemoryInfo **)>(
        77)(allocator, &memory);
    if (!status)
      status = at<Status *(*)(const MemoryInfo *, int *)>(72)(memory, device);
    at<void (*)(Allocator *)>(132)(allocator);
    return status;
  }

  /// Sets `value` if the session's options have the entry.
  Status *getConfig(const SessionOptions *options, const char *key,
                    std::string &value) const {
    int has = 0;
    if (Status *status =
            at<Status *(*)(const SessionOptions *, const char *, int *)>(237)(
                options, key, &has))
      return status;
    if (!has)
      return nullptr;
    auto call =
        at<Status *(*)(const SessionOptions *, const char *, char *, size_t *)>(
            238);
    size_t size = 0;
    if (Status *status = call(options, key, nullptr, &size))
      return status;
    return readText(value, size, [&](char *text, size_t *length) {
      return call(options, key, text, length);
    });
  }

private:
  template <typename Function>
  Function at(size_t index) const {
    return reinterpret_cast<Function>(const_cast<void *>(table[index]));
  }
  /// Reads a text of `size` bytes, the NUL at its end among them.
  template <typename Read>
  static Status *readText(std::string &value, size_t size, Read read) {
    value.assign(size, '\0');
    if (Status *status = read(&value[0], &size))
      return status;
    while (!value.empty() && value.back() == '\0')
      value.pop_back();
    return nullptr;
  }

  const void *const *table;
};

/// A custom op as ONNX Runtime reads it: a version, then functions that get the
/// op itself.
struct CustomOp {
  uint32_t version = kApiVersion;
  void *(*createKernel)(const CustomOp *, const void *, const void *) = nullptr;
  const char *(*getName)(const CustomOp *) = nullptr;
  const char *(*getProvider)(const CustomOp *) = nullptr;
  ElementType (*getInputType)(const CustomOp *, size_t) = nullptr;
  size_t (*getInputCount)(const CustomOp *) = nullptr;
  ElementType (*getOutputType)(const CustomOp *, size_t) = nullptr;
  size_t (*getOutputCount)(const CustomOp *) = nullptr;
  void (*compute)(void *, KernelContext *) = nullptr;
  void (*destroyKernel)(void *) = nullptr;
  Characteristic (*getInputCharacteristic)(const CustomOp *, size_t) = nullptr;
  Characteristic (*getOutputCharacteristic)(const CustomOp *, size_t) = nullptr;
  int (*getInputMemory)(const CustomOp *, size_t) = nullptr;
  int (*getVariadicInputMin)(const CustomOp *) = nullptr;
  int (*getVariadicInputSame)(const CustomOp *) = nullptr;
  int (*getVariadicOutputMin)(const CustomOp *) = nullptr;
  int (*getVariadicOutputSame)(const CustomOp *) = nullptr;
  Status *(*createKernel2)(const CustomOp *, const void *const *,
                           const KernelInfo *, void **) = nullptr;
  Status *(*compute2)(void *, KernelContext *) = nullptr;
  Status *(*inferShapes)(const CustomOp *, void *) = nullptr;
  int (*getStartVersion)(const CustomOp *) = nullptr;
  int (*getEndVersion)(const CustomOp *) = nullptr;
  void *later[4] = {};
};

} // namespace tandem::ort

#endif // TANDEM_RUNTIME_ONNXRUNTIME_ORTABI_H
