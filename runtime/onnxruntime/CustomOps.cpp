//===- CustomOps.cpp - Tandem's ops in ONNX Runtime -===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CustomOps.h"
#include "DeviceCopy.h"

#include <cstring>

using namespace tandem::ort;

static tandem_dtype dtypeOf(ElementType type) {
  return type == kFloat     ? TANDEM_DTYPE_F32
         : type == kFloat16 ? TANDEM_DTYPE_F16
                            : TANDEM_DTYPE_BF16;
}

namespace {
/// One node.
struct Kernel {
  Kernel(Api api, const Op &op) : api(api), op(op) { op.group.enter(); }
  ~Kernel() { op.group.leave(); }
  Kernel(const Kernel &) = delete;

  Api api;
  const Op &op;
  float epsilon = 0, preEpsilon = 0;
  tandem_rounding rounding = 0, preRounding = 0;
  bool batchInvariant = false;
  int64_t maxTokens = -1;
  int64_t hidden = 0;
  tandem_dtype limitType = TANDEM_DTYPE_F32;

  Status *fail(const std::string &why) const {
    return api.makeStatus(kFail, (op.name + ": " + why).c_str());
  }
  Status *read(const KernelInfo *info);
  Status *compute(KernelContext *context) const;

private:
  Status *checkGroupSize(int64_t size) const;
  Status *readAllReduce(const KernelInfo *info) const;
  Status *readRounding(const KernelInfo *info, const char *name,
                       tandem_rounding &result) const;
  Status *computeFused(KernelContext *context) const;
  Status *computeAllReduce(KernelContext *context) const;
  Status *computeLimit(KernelContext *context) const;
  Status *computeWait(KernelContext *context) const;
  Status *place(const KernelInfo *info) const;
  Status *getStream(KernelContext *context, void **stream) const {
    return op.onCuda ? api.getStream(context, stream) : nullptr;
  }
  Status *input(KernelContext *context, size_t index,
                std::vector<int64_t> &dims, void **data) const;
  Status *output(KernelContext *context, size_t index, size_t count,
                 const std::vector<int64_t> &dims, tandem_view &view) const;
};

/// Where the inputs of a fused op stand; 0: it has none.
struct Places {
  size_t bias = 0, preGamma = 0, residual = 0, gamma = 0;
};
} // namespace

static Places placesOf(const std::string &name) {
  Places places;
  size_t next = 1;
  // AllReduce[Bias][RMSNorm][Add]RMSNorm
  auto has = [&](const char *part) {
    return name.find(part) != std::string::npos;
  };
  if (has("Bias"))
    places.bias = next++;
  if (name.find("RMSNorm") != name.rfind("RMSNorm"))
    places.preGamma = next++;
  if (has("Add"))
    places.residual = next++;
  places.gamma = next;
  return places;
}

Status *Kernel::readRounding(const KernelInfo *info, const char *name,
                             tandem_rounding &result) const {
  std::string text;
  if (Status *status = api.getString(info, name, text))
    return status;
  if (text != "before_gamma" && text != "after_gamma")
    return fail(std::string(name) + " is '" + text +
                "', neither before_gamma nor after_gamma");
  result = text == "before_gamma" ? TANDEM_ROUNDING_BEFORE_GAMMA
                                  : TANDEM_ROUNDING_AFTER_GAMMA;
  return nullptr;
}

Status *Kernel::checkGroupSize(int64_t size) const {
  if (size <= 0 || size == op.group.world())
    return nullptr;
  return fail("its group has " + std::to_string(size) +
              " ranks, and this session's " + std::to_string(op.group.world()));
}

/// Tells the group where its collectives run.
Status *Kernel::place(const KernelInfo *info) const {
  int gpu = Group::kHost;
  if (op.onCuda)
    if (Status *status = api.getDevice(info, &gpu))
      return status;
  std::string error;
  return op.group.place(gpu, error) ? nullptr : fail(error);
}

/// An all-reduce of another domain. Its group is the session's, its sum of all.
Status *Kernel::readAllReduce(const KernelInfo *info) const {
  int64_t number = 0;
  std::string text;
  if (op.name == "AllReducePlugin") {
    api.release(api.getInt(info, "tp_size", &number));
    return checkGroupSize(number);
  }
  if (op.name == "NcclAllReduce") {
    api.release(api.getInt(info, "group_type", &number));
    if (number != 0)
      return fail("its group_type is " + std::to_string(number) +
                  ", and a session has one group, the world (0)");
  }
  if (op.name == "all_reduce") {
    if (Status *status = api.getString(info, "reduce_op", text))
      return status;
    if (text != "sum" && text != "SUM")
      return fail("its reduce_op is '" + text + "', not 'sum'");
  }
  return nullptr;
}

Status *Kernel::read(const KernelInfo *info) {
  if (op.kind == Op::Fused || op.kind == Op::AllReduce)
    if (Status *status = place(info))
      return status;
  if (op.kind == Op::AllReduce)
    return readAllReduce(info);
  if (op.kind == Op::Wait)
    return nullptr;
  int64_t groupSize = 0;
  if (Status *status = api.getInt(info, "group_size", &groupSize))
    return status;
  if (Status *status = checkGroupSize(groupSize))
    return status;
  if (op.kind == Op::TokenLimit) {
    int64_t dtype = 0;
    if (Status *status = api.getInt(info, "hidden", &hidden))
      return status;
    if (Status *status = api.getInt(info, "dtype", &dtype))
      return status;
    if (dtype != kFloat && dtype != kFloat16 && dtype != kBFloat16)
      hidden = 0; // The runtime has no kernels for it: no limit.
    else
      limitType = dtypeOf(static_cast<ElementType>(dtype));
    return nullptr;
  }
  int64_t invariant = 0;
  if (Status *status = api.getFloat(info, "epsilon", &epsilon))
    return status;
  if (Status *status = readRounding(info, "rounding", rounding))
    return status;
  if (Status *status = api.getInt(info, "batch_invariant", &invariant))
    return status;
  if (Status *status = api.getInt(info, "max_tokens", &maxTokens))
    return status;
  batchInvariant = invariant != 0;
  if (placesOf(op.name).preGamma == 0)
    return nullptr;
  if (Status *status = api.getFloat(info, "pre_epsilon", &preEpsilon))
    return status;
  return readRounding(info, "pre_rounding", preRounding);
}

Status *Kernel::input(KernelContext *context, size_t index,
                      std::vector<int64_t> &dims, void **data) const {
  const Value *value = nullptr;
  if (Status *status = api.getInput(context, index, &value))
    return status;
  if (!value)
    return fail("input " + std::to_string(index) + " is missing");
  if (Status *status = api.getShape(value, dims))
    return status;
  return api.getData(const_cast<Value *>(value), data);
}

Status *Kernel::output(KernelContext *context, size_t index, size_t count,
                       const std::vector<int64_t> &dims,
                       tandem_view &view) const {
  if (index >= count)
    return nullptr;
  Value *value = nullptr;
  if (Status *status = api.getOutput(context, index, dims, &value))
    return status;
  return value ? api.getData(value, &view.data) : nullptr;
}

static int64_t countRows(const std::vector<int64_t> &dims) {
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < dims.size(); ++i)
    rows *= dims[i];
  return rows;
}

static std::string print(const std::vector<int64_t> &dims) {
  std::string text = "[";
  for (int64_t dim : dims)
    text += (text.size() > 1 ? ", " : "") + std::to_string(dim);
  return text + "]";
}

Status *Kernel::computeFused(KernelContext *context) const {
  Places places = placesOf(op.name);
  tandem_norm_args args = TANDEM_NORM_ARGS_INIT;
  std::vector<int64_t> dims, other;
  if (Status *status = input(context, 0, dims, &args.input.data))
    return status;
  if (dims.empty())
    return fail("its input is a scalar");
  args.hidden = dims.back();
  args.tokens = countRows(dims);
  args.dtype = dtypeOf(op.type);

  auto row = [&](size_t index, const void **result) -> Status * {
    void *data = nullptr;
    if (Status *status = input(context, index, other, &data))
      return status;
    if (other.empty() || other.back() != args.hidden || countRows(other) != 1)
      return fail("input " + std::to_string(index) + " has the shape " +
                  print(other) + ", not [" + std::to_string(args.hidden) + "]");
    *result = data;
    return nullptr;
  };
  if (places.bias)
    if (Status *status = row(places.bias, &args.bias))
      return status;
  if (places.preGamma) {
    if (Status *status = row(places.preGamma, &args.pre_norm.gamma))
      return status;
    args.pre_norm.gamma_dtype = args.dtype;
    args.pre_norm.rounding = preRounding;
    args.pre_norm.epsilon = preEpsilon;
  }
  if (places.residual) {
    if (Status *status =
            input(context, places.residual, other, &args.residual.data))
      return status;
    if (other != dims)
      return fail("the residual has the shape " + print(other) +
                  " and the input " + print(dims));
  }
  if (Status *status = row(places.gamma, &args.norm.gamma))
    return status;
  args.norm.gamma_dtype = args.dtype;
  args.norm.rounding = rounding;
  args.norm.epsilon = epsilon;

  size_t numOutputs = 0;
  if (Status *status = api.getOutputCount(context, &numOutputs))
    return status;
  if (Status *status = output(context, 0, numOutputs, dims, args.norm_out))
    return status;
  if (Status *status = output(context, 1, numOutputs, dims, args.residual_out))
    return status;
  if (Status *status = output(context, 2, numOutputs, dims, args.sum_out))
    return status;
  if (args.tokens == 0 || args.hidden == 0)
    return nullptr;
  if (Status *status = getStream(context, &args.stream))
    return status;

  if (batchInvariant)
    args.flags |= TANDEM_CALL_BATCH_INVARIANT;
  if (maxTokens >= 0 && args.tokens > maxTokens)
    args.flags |= TANDEM_CALL_FALLBACK;
  std::string error;
  tandem_workspace *workspace = op.group.get(args.hidden, args.dtype, error);
  if (!workspace)
    return fail(error);
  tandem_status status = tandem_fused_all_reduce_norm(workspace, &args);
  return status == TANDEM_STATUS_OK ? nullptr : fail(op.group.describe(status));
}

Status *Kernel::computeAllReduce(KernelContext *context) const {
  tandem_all_reduce_args args = TANDEM_ALL_REDUCE_ARGS_INIT;
  std::vector<int64_t> dims;
  if (Status *status = input(context, 0, dims, &args.input.data))
    return status;
  if (Status *status = output(context, 0, 1, dims, args.output))
    return status;
  args.hidden = dims.empty() ? 1 : dims.back();
  args.tokens = countRows(dims);
  args.dtype = dtypeOf(op.type);
  if (args.tokens == 0 || args.hidden == 0)
    return nullptr;
  if (Status *status = getStream(context, &args.stream))
    return status;
  std::string error;
  tandem_workspace *workspace = op.group.get(args.hidden, args.dtype, error);
  if (!workspace)
    return fail(error);
  tandem_status status = tandem_all_reduce(workspace, &args);
  return status == TANDEM_STATUS_OK ? nullptr : fail(op.group.describe(status));
}

Status *Kernel::computeLimit(KernelContext *context) const {
  tandem_view view = {nullptr, 0};
  if (Status *status = output(context, 0, 1, {}, view))
    return status;
  int64_t limit = -1;
  if (hidden > 0) {
    std::string error;
    tandem_workspace *workspace = op.group.get(hidden, limitType, error);
    if (!workspace)
      return fail(error);
    limit = tandem_token_limit(workspace, hidden, limitType);
  }
  *static_cast<int64_t *>(view.data) = limit;
  return nullptr;
}

Status *Kernel::computeWait(KernelContext *context) const {
  std::vector<int64_t> dims;
  void *data = nullptr;
  tandem_view view = {nullptr, 0};
  if (Status *status = input(context, 0, dims, &data))
    return status;
  if (Status *status = output(context, 0, 1, dims, view))
    return status;
  size_t bytes = op.type == kFloat ? 4 : 2;
  for (int64_t dim : dims)
    bytes *= static_cast<size_t>(dim);
  if (bytes == 0 || !view.data)
    return nullptr;
  if (!op.onCuda) {
    std::memcpy(view.data, data, bytes);
    return nullptr;
  }
  void *stream = nullptr;
  if (Status *status = getStream(context, &stream))
    return status;
  std::string error = copyOnDevice(view.data, data, bytes, stream);
  return error.empty() ? nullptr : fail(error);
}

Status *Kernel::compute(KernelContext *context) const {
  switch (op.kind) {
  case Op::Fused:
    return computeFused(context);
  case Op::AllReduce:
    return computeAllReduce(context);
  case Op::TokenLimit:
    return computeLimit(context);
  case Op::Wait:
    return computeWait(context);
  }
  return nullptr;
}

//===----------------------------------------------------------------------===//
// What ONNX Runtime asks of an op
//===----------------------------------------------------------------------===//

static const Op &get(const CustomOp *op) {
  return *static_cast<const Op *>(op);
}

Op::Op(Kind kind, std::string name, ElementType type, size_t numInputs,
       bool onCuda, Group &group)
    : kind(kind), name(std::move(name)), type(type), numInputs(numInputs),
      onCuda(onCuda), group(group) {
  getName = [](const CustomOp *op) { return get(op).name.c_str(); };
  getProvider = [](const CustomOp *op) {
    return get(op).onCuda ? "CUDAExecutionProvider" : "CPUExecutionProvider";
  };
  getInputType = [](const CustomOp *op, size_t) { return get(op).type; };
  getInputCount = [](const CustomOp *op) { return get(op).numInputs; };
  getOutputType = [](const CustomOp *op, size_t) { return get(op).type; };
  getOutputCount = [](const CustomOp *op) -> size_t {
    return get(op).kind == Fused ? 3 : 1;
  };
  getInputCharacteristic = [](const CustomOp *, size_t) { return kRequired; };
  getOutputCharacteristic = [](const CustomOp *, size_t index) {
    return index == 0 ? kRequired : kOptional;
  };
  // The provider's own.
  getInputMemory = [](const CustomOp *, size_t) { return 0; };
  getVariadicInputMin = [](const CustomOp *) { return 0; };
  getVariadicInputSame = [](const CustomOp *) { return 0; };
  getVariadicOutputMin = [](const CustomOp *) { return 0; };
  getVariadicOutputSame = [](const CustomOp *) { return 0; };
  getStartVersion = [](const CustomOp *) { return 1; };
  getEndVersion = [](const CustomOp *) { return INT32_MAX; };
  createKernel2 = [](const CustomOp *op, const void *const *table,
                     const KernelInfo *info, void **kernel) -> Status * {
    auto made = std::make_unique<Kernel>(Api(table), get(op));
    if (Status *status = made->read(info))
      return status;
    *kernel = made.release();
    return nullptr;
  };
  compute2 = [](void *kernel, KernelContext *context) -> Status * {
    return static_cast<Kernel *>(kernel)->compute(context);
  };
  destroyKernel = [](void *kernel) { delete static_cast<Kernel *>(kernel); };
}

std::vector<DomainOps> tandem::ort::makeOps(Group &group, bool withCuda) {
  std::vector<DomainOps> domains;
  auto add = [&](Op::Kind kind, const std::string &name, ElementType type,
                 size_t numInputs) {
    for (bool onCuda : {false, true})
      if (!onCuda || (withCuda && kind != Op::TokenLimit))
        domains.back().ops.push_back(
            std::make_unique<Op>(kind, name, type, numInputs, onCuda, group));
  };
  auto addFloats = [&](Op::Kind kind, const std::string &name,
                       size_t numInputs) {
    for (ElementType type : {kFloat, kFloat16, kBFloat16})
      add(kind, name, type, numInputs);
  };
  domains.push_back({"ai.tandem", {}});
  // Bodies that differ have numbers; what the kernels do is the same.
  for (const char *suffix : {"", "_2", "_3", "_4"}) {
    add(Op::TokenLimit, std::string("TokenLimit") + suffix, kInt64, 0);
    for (const char *base :
         {"AllReduceRMSNorm", "AllReduceAddRMSNorm",
          "AllReduceRMSNormAddRMSNorm", "AllReduceBiasRMSNorm",
          "AllReduceBiasAddRMSNorm", "AllReduceBiasRMSNormAddRMSNorm"})
      addFloats(Op::Fused, std::string(base) + suffix,
                placesOf(base).gamma + 1);
  }
  domains.push_back({"com.microsoft", {}});
  addFloats(Op::AllReduce, "AllReduce", 1);
  addFloats(Op::AllReduce, "NcclAllReduce", 1);
  domains.push_back({"trt_edgellm", {}});
  addFloats(Op::AllReduce, "AllReducePlugin", 1);
  domains.push_back({"_c10d_functional", {}});
  addFloats(Op::AllReduce, "all_reduce", 1);
  addFloats(Op::Wait, "wait_tensor", 1);
  return domains;
}
