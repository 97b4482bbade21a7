//===- RankRunner.cpp - One rank's run ------------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RankRunner.h"

#include "Compare.h"
#include "CompiledModule.h"
#include "DeviceMemory.h"
#include "Npz.h"
#include "tandem/OnnxOps/PrintableText.h"

#include <algorithm>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <map>
#include <utility>

using namespace tandem::run;
using mlir::tandem::makePrintable;

namespace {
/// Destroys what the runtime made, in the order that it wants.
struct Group {
  tandem_comm *comm = nullptr;
  tandem_workspace *workspace = nullptr;

  Group() = default;
  Group(Group &&other) noexcept
      : comm(std::exchange(other.comm, nullptr)),
        workspace(std::exchange(other.workspace, nullptr)) {}
  ~Group() {
    tandem_workspace_destroy(workspace);
    tandem_comm_destroy(comm);
  }
};

/// A tensor on the device, and its descriptor.
struct Buffer {
  DeviceMemory *memory = nullptr;
  void *data = nullptr;
  /// allocated, aligned, offset, sizes, strides: each of 64 bits.
  std::vector<int64_t> descriptor;

  Buffer() = default;
  Buffer(Buffer &&other) noexcept
      : memory(other.memory), data(std::exchange(other.data, nullptr)),
        descriptor(std::move(other.descriptor)) {}
  ~Buffer() {
    if (data)
      memory->free(data);
  }

  void describe(void *at, const std::vector<int64_t> &shape) {
    descriptor.assign(3 + 2 * shape.size(), 0);
    descriptor[0] = descriptor[1] = reinterpret_cast<intptr_t>(at);
    int64_t stride = 1;
    for (size_t i = shape.size(); i > 0; --i) {
      descriptor[2 + i] = shape[i - 1];
      descriptor[2 + shape.size() + i] = stride;
      stride *= std::max<int64_t>(shape[i - 1], 1);
    }
  }
};

class Runner {
public:
  Runner(const Options &options, const Placement &placement,
         const std::function<void(const std::string &)> &progress)
      : options(options), placement(placement), progress(progress) {}
  ~Runner() {
    groups.clear();
    tandem_context_destroy(context);
  }

  bool run(const std::string &path);
  RankOutcome outcome;

private:
  bool fail(const std::string &message) {
    if (outcome.error.empty())
      outcome.error = message;
    return false;
  }
  bool fail(const tandem_error &error, const std::string &what) {
    outcome.status = error.status;
    return fail(what + ": " + tandem_status_name(error.status) + ": " +
                error.message);
  }
  bool readArguments();
  bool checkArgument(const ValueInfo &info, const Array &array);
  bool checkDimNames();
  bool makeGroups();
  bool makeGroup(const GroupInfo &info, unsigned index);
  bool placeArguments();
  bool makeResults();
  bool call();
  /// Says why the function returned `status`.
  bool failCall(tandem_status status);
  bool time();
  bool collectResults();
  bool compareResults();
  void reportCounters();
  void report(const char *format, ...) __attribute__((format(printf, 2, 3)));

  const Options &options;
  const Placement &placement;
  const std::function<void(const std::string &)> &progress;
  CompiledModule module;
  const FunctionInfo *function = nullptr;
  std::unique_ptr<DeviceMemory> memory;
  tandem_context *context = nullptr;
  std::vector<Group> groups;
  std::vector<Array> arguments, results;
  std::vector<Buffer> argumentBuffers, resultBuffers;
};
} // namespace

void Runner::report(const char *format, ...) {
  char line[1024];
  va_list list;
  va_start(list, format);
  vsnprintf(line, sizeof(line), format, list);
  va_end(list);
  outcome.report += "rank " + std::to_string(placement.rank) + ": " +
                    makePrintable(line) + "\n";
}

static std::string describe(const ValueInfo &info) {
  return info.type + " " + (info.isScalar ? "scalar" : formatShape(info.shape));
}

static std::string join(const std::vector<std::string> &names) {
  std::string text;
  for (const std::string &name : names)
    text += (text.empty() ? "'" : ", '") + name + "'";
  return text.empty() ? "nothing" : text;
}

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

bool Runner::checkArgument(const ValueInfo &info, const Array &array) {
  bool fits = array.type == (info.type == "index" ? "i64" : info.type) &&
              array.shape.size() == info.shape.size();
  for (size_t i = 0; fits && i < info.shape.size(); ++i)
    fits = info.shape[i] < 0 || info.shape[i] == array.shape[i];
  if (fits)
    return true;
  std::string hint;
  if (info.type == "bf16" && array.type == "ui16")
    hint = "; a bf16 array is named as such in __dtypes__";
  return fail("argument '" + info.name + "' is " + describe(info) + ", but '" +
              forRank(options.input, placement.rank) + "' has " + array.type +
              " " + formatShape(array.shape) + hint);
}

bool Runner::checkDimNames() {
  // The code relies on it: the same name is the same size.
  std::map<std::string, std::pair<int64_t, std::string>> sizes;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const ValueInfo &info = function->arguments[i];
    for (size_t j = 0; j < info.shape.size(); ++j) {
      if (info.dimNames[j].empty())
        continue;
      int64_t size = arguments[i].shape[j];
      auto [it, isNew] =
          sizes.emplace(info.dimNames[j], std::make_pair(size, info.name));
      if (!isNew && it->second.first != size)
        return fail("size '" + info.dimNames[j] + "' is " +
                    std::to_string(it->second.first) + " in argument '" +
                    it->second.second + "' and " + std::to_string(size) +
                    " in argument '" + info.name + "'");
    }
  }
  return true;
}

bool Runner::readArguments() {
  std::string path = forRank(options.input, placement.rank), error;
  NpzReader reader;
  if (!options.input.empty()) {
    std::unique_ptr<ByteSource> source = openFile(path, error);
    if (!source || !reader.open(std::move(source), error))
      return fail("'" + path + "' " + error);
  }
  std::vector<std::string> missing;
  for (const ValueInfo &info : function->arguments)
    if (!reader.contains(info.name))
      missing.push_back(info.name);
  if (!missing.empty()) {
    std::string wanted;
    for (const ValueInfo &info : function->arguments)
      if (!reader.contains(info.name))
        wanted += (wanted.empty() ? "'" : ", '") + info.name + "' (" +
                  describe(info) + ")";
    if (options.input.empty())
      return fail("'" + function->name +
                  "' takes arguments, and no --input "
                  "is given: " +
                  wanted);
    return fail("'" + path + "' lacks the arguments " + wanted + "; it has " +
                join(reader.getNames()));
  }
  for (const ValueInfo &info : function->arguments) {
    Array array;
    if (!reader.load(info.name, array, error))
      return fail("'" + path + "' " + error);
    if (!checkArgument(info, array))
      return false;
    arguments.push_back(std::move(array));
  }
  return checkDimNames();
}

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

static tandem_dtype getRuntimeType(const std::string &type) {
  return type == "f16"    ? TANDEM_DTYPE_F16
         : type == "bf16" ? TANDEM_DTYPE_BF16
                          : TANDEM_DTYPE_F32;
}

bool Runner::makeGroup(const GroupInfo &info, unsigned index) {
  Group &group = groups.emplace_back();
  std::vector<int64_t> ranks = info.ranks;
  if (ranks.empty()) {
    if (info.size != 0 && info.size != placement.world)
      return fail("group '" + info.name + "' has " + std::to_string(info.size) +
                  " ranks, and " + std::to_string(placement.world) +
                  " run; start as many (--ranks)");
    for (int64_t i = 0; i < placement.world; ++i)
      ranks.push_back(i);
  }
  for (int64_t rank : ranks)
    if (rank < 0 || rank >= placement.world)
      return fail("group '" + info.name + "' has a rank " +
                  std::to_string(rank) + ", and " +
                  std::to_string(placement.world) + " run (--ranks)");
  auto own = std::find(ranks.begin(), ranks.end(), placement.rank);
  if (own == ranks.end())
    return fail("this rank is not in group '" + info.name + "'");

  tandem_error error = TANDEM_ERROR_INIT;
  tandem_comm_desc desc = TANDEM_COMM_DESC_INIT;
  desc.rank = static_cast<int32_t>(own - ranks.begin());
  desc.world = static_cast<int32_t>(ranks.size());
  desc.timeout_ms = options.timeoutMs;
  std::string name = placement.rendezvous + "." + std::to_string(index);
  if (!placement.ids.empty()) {
    if (index >= placement.ids.size())
      return fail("there are more than " +
                  std::to_string(placement.ids.size()) + " groups");
    desc.kind = TANDEM_COMM_UNIQUE_ID;
    desc.unique_id = &placement.ids[index];
  } else {
    desc.name = name.c_str();
  }
  if (tandem_comm_create(context, &desc, &group.comm, &error))
    return fail(error, "cannot meet the ranks of group '" + info.name + "'");

  int64_t tokens = options.maxTokens;
  if (tokens < 0) {
    // The largest number of rows that an argument has.
    tokens = 1;
    for (const Array &array : arguments) {
      int64_t rows = 1;
      for (size_t i = 0; i + 1 < array.shape.size(); ++i)
        rows *= array.shape[i];
      tokens = std::max(tokens, rows);
    }
  }
  tandem_workspace_desc workspace = TANDEM_WORKSPACE_DESC_INIT;
  workspace.max_tokens = tokens;
  workspace.hidden = std::max<int64_t>(info.hidden, 1);
  workspace.dtype =
      info.types.empty() ? TANDEM_DTYPE_F32 : getRuntimeType(info.types[0]);
  workspace.flags =
      info.isBatchInvariant ? TANDEM_WORKSPACE_BATCH_INVARIANT : 0;
  workspace.timeout_ms = options.timeoutMs;
  if (!module.getSignature().empty()) {
    workspace.signature = module.getSignature().data();
    workspace.signature_length = module.getSignature().size();
  }
  if (tandem_workspace_create(group.comm, &workspace, &group.workspace, &error))
    return fail(error,
                "cannot make the workspace of group '" + info.name + "'");
  return true;
}

bool Runner::makeGroups() {
  if (function->groups.empty())
    return true;
  tandem_error error = TANDEM_ERROR_INIT;
  tandem_context_desc desc = TANDEM_CONTEXT_DESC_INIT;
  desc.device = options.isCuda ? TANDEM_DEVICE_CUDA : TANDEM_DEVICE_CPU;
  desc.device_index = options.isCuda ? placement.localRank : 0;
  if (tandem_context_create(&desc, &context, &error))
    return fail(error, "cannot use the runtime");
  groups.reserve(function->groups.size());
  for (unsigned i = 0; i < function->groups.size(); ++i)
    if (!makeGroup(function->groups[i], i))
      return false;
  return true;
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

bool Runner::placeArguments() {
  std::string error;
  argumentBuffers.reserve(arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    Array &array = arguments[i];
    Buffer &buffer = argumentBuffers.emplace_back();
    if (function->arguments[i].isScalar)
      continue;
    buffer.memory = memory.get();
    // On the host an argument stays where it was read to, unless the function
    // may write to it, and is run again.
    bool isCopied = options.isCuda || function->arguments[i].isWritable;
    if (isCopied &&
        (!memory->allocate(array.bytes, buffer.data, error) ||
         !memory->copyIn(buffer.data, array.data.get(), array.bytes, error)))
      return fail(error);
    buffer.describe(isCopied ? buffer.data : array.data.get(), array.shape);
  }
  return true;
}

bool Runner::makeResults() {
  if (function->results.empty())
    return true;
  if (!function->shapes)
    return fail("the sizes of the results of '" + function->name +
                "' can't be known before it runs" +
                (function->noShapesReason.empty()
                     ? ""
                     : ": " + function->noShapesReason) +
                "; give the results static sizes, or compute their sizes from "
                "arguments");
  // Sizes are computed from descriptors, and from elements only on the host.
  std::vector<Buffer> hostViews(arguments.size());
  std::vector<void *> pointers(arguments.size()), packed;
  size_t numDims = 0;
  for (const ValueInfo &info : function->results)
    numDims += info.shape.size();
  std::vector<int64_t> dims(numDims, -1);
  Buffer dimsView;
  dimsView.describe(dims.data(), {static_cast<int64_t>(numDims)});
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (function->arguments[i].isScalar) {
      packed.push_back(arguments[i].data.get());
      continue;
    }
    hostViews[i].describe(arguments[i].data.get(), arguments[i].shape);
    pointers[i] = hostViews[i].descriptor.data();
    packed.push_back(static_cast<void *>(&pointers[i]));
  }
  void *dimsPointer = dimsView.descriptor.data();
  packed.push_back(static_cast<void *>(&dimsPointer));
  auto status = static_cast<tandem_status>(function->shapes(packed.data()));
  if (status != TANDEM_STATUS_OK)
    return failCall(status);

  std::string error;
  size_t next = 0;
  resultBuffers.reserve(function->results.size());
  for (const ValueInfo &info : function->results) {
    Array array;
    array.type = info.type;
    for (int64_t size : info.shape) {
      int64_t actual = dims[next++];
      if (size >= 0 && actual != size)
        return fail("result '" + info.name + "' is " + describe(info) +
                    ", but from these arguments a size of " +
                    std::to_string(size) + " comes out as " +
                    std::to_string(actual));
      array.shape.push_back(actual);
    }
    if (!array.allocate(error))
      return fail("result '" + info.name + "' " + error);
    // A result that is not written should not look like one that is.
    memset(array.data.get(), 0xff, array.bytes);
    Buffer &buffer = resultBuffers.emplace_back();
    buffer.memory = memory.get();
    if (options.isCuda && !memory->allocate(array.bytes, buffer.data, error))
      return fail(error);
    buffer.describe(options.isCuda ? buffer.data : array.data.get(),
                    array.shape);
    results.push_back(std::move(array));
  }
  return true;
}

bool Runner::call() {
  std::vector<void *> pointers, packed;
  // Reserved, because `packed` points into it.
  pointers.reserve(argumentBuffers.size() + resultBuffers.size() +
                   groups.size() + 1);
  auto pass = [&](void *pointer) {
    pointers.push_back(pointer);
    packed.push_back(static_cast<void *>(&pointers.back()));
  };
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (function->arguments[i].isScalar)
      packed.push_back(arguments[i].data.get());
    else
      pass(argumentBuffers[i].descriptor.data());
  }
  for (Buffer &buffer : resultBuffers)
    pass(buffer.descriptor.data());
  for (Group &group : groups)
    pass(group.workspace);
  if (function->takesStream)
    pass(memory->getStream());

  tandem_status status = function->call(packed.data());
  std::string message;
  if (status == TANDEM_STATUS_OK) {
    if (memory->synchronize(message))
      return true;
    return fail(message);
  }
  return failCall(status);
}

bool Runner::failCall(tandem_status status) {
  outcome.status = status;
  std::string message = module.getLastMessage();
  // Where one group's call failed, the function fails its other groups as well;
  // those know less of why.
  std::vector<const Group *> ordered, others;
  for (const Group &group : groups) {
    tandem_counters counters = TANDEM_COUNTERS_INIT;
    (void)tandem_workspace_get_counters(group.workspace, &counters);
    (counters.failed > 0 ? ordered : others).push_back(&group);
  }
  ordered.insert(ordered.end(), others.begin(), others.end());
  for (const Group *group : ordered) {
    tandem_error error = TANDEM_ERROR_INIT;
    if (!tandem_workspace_get_failure(group->workspace, &error))
      continue;
    // What the function itself found it tells its peers as its group's failure.
    bool isOwn = error.peer == tandem_comm_rank(group->comm);
    if (isOwn && error.status == status && !message.empty())
      break;
    outcome.isOfPeer = error.peer >= 0 && !isOwn;
    return fail(error, "'" + function->name + "' failed");
  }
  return fail("'" + function->name + "' failed: " + tandem_status_name(status) +
              (message.empty() ? "" : ": " + message));
}

bool Runner::time() {
  using Clock = std::chrono::steady_clock;
  std::vector<double> times;
  std::string error;
  for (int i = 0; i < options.repeat; ++i) {
    if (i % 16 == 0)
      progress("run " + std::to_string(i + 1) + " of " +
               std::to_string(options.repeat));
    for (size_t j = 0; j < arguments.size(); ++j)
      if (function->arguments[j].isWritable && argumentBuffers[j].data &&
          !memory->copyIn(argumentBuffers[j].data, arguments[j].data.get(),
                          arguments[j].bytes, error))
        return fail(error);
    tandem_error failure = TANDEM_ERROR_INIT;
    if (!groups.empty() && tandem_comm_barrier(groups.front().comm, &failure))
      return fail(failure, "cannot meet the other ranks");
    Clock::time_point begin = Clock::now();
    if (!call())
      return false;
    times.push_back(
        std::chrono::duration<double, std::micro>(Clock::now() - begin)
            .count());
  }
  std::sort(times.begin(), times.end());
  report("times of %d runs: median %.1f us, min %.1f us, max %.1f us",
         options.repeat, times[times.size() / 2], times.front(), times.back());
  return true;
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

bool Runner::collectResults() {
  std::string error;
  for (size_t i = 0; i < results.size(); ++i)
    if (options.isCuda &&
        !memory->copyOut(results[i].data.get(), resultBuffers[i].data,
                         results[i].bytes, error))
      return fail(error);
  bool isMine = placement.rank == 0 || hasRank(options.output);
  if (options.output.empty() || !isMine)
    return true;
  std::vector<std::pair<std::string, const Array *>> named;
  named.reserve(results.size());
  for (size_t i = 0; i < results.size(); ++i)
    named.emplace_back(function->results[i].name, &results[i]);
  if (!writeNpz(forRank(options.output, placement.rank), named, error))
    return fail(error);
  return true;
}

bool Runner::compareResults() {
  std::string path = forRank(options.expect, placement.rank), error;
  std::unique_ptr<ByteSource> source = openFile(path, error);
  NpzReader reader;
  if (!source || !reader.open(std::move(source), error))
    return fail("'" + path + "' " + error);
  for (size_t i = 0; i < results.size(); ++i) {
    const std::string &name = function->results[i].name;
    if (!reader.contains(name))
      return fail("'" + path + "' lacks the result '" + name + "'; it has " +
                  join(reader.getNames()));
    Array expected;
    if (!reader.load(name, expected, error))
      return fail("'" + path + "' " + error);
    const Array &result = results[i];
    if (expected.shape != result.shape)
      return fail("result '" + name + "' is " + formatShape(result.shape) +
                  ", but '" + path + "' has " + formatShape(expected.shape));
    double tolerance = options.tolerance >= 0
                           ? options.tolerance
                           : getDefaultTolerance(result.type);
    Difference difference = compare(result, expected, tolerance);
    char numbers[160];
    snprintf(numbers, sizeof(numbers),
             "max abs difference %.3g, max rel difference %.3g",
             difference.maxAbs, difference.maxRel);
    if (difference.numBad == 0) {
      report("%s: %s %s: %s", name.c_str(), result.type.c_str(),
             formatShape(result.shape).c_str(), numbers);
      continue;
    }
    char values[200];
    snprintf(values, sizeof(values), "%.9g instead of %.9g, tolerance %g",
             getElement(result, difference.worst),
             getElement(expected, difference.worst), tolerance);
    fail("result '" + name + "' differs in " +
         std::to_string(difference.numBad) + " of " +
         std::to_string(result.getNumElements()) + " elements: at " +
         formatIndex(result.shape, difference.worst) + " " + values + "; " +
         numbers);
  }
  return outcome.error.empty();
}

void Runner::reportCounters() {
  for (size_t i = 0; i < groups.size(); ++i) {
    tandem_counters counters = TANDEM_COUNTERS_INIT;
    if (tandem_workspace_get_counters(groups[i].workspace, &counters))
      continue;
    report("group %s: %llu fused, %llu fallback, %llu all_reduce, %llu norm",
           function->groups[i].name.c_str(),
           static_cast<unsigned long long>(counters.fused),
           static_cast<unsigned long long>(counters.fallback),
           static_cast<unsigned long long>(counters.all_reduce),
           static_cast<unsigned long long>(counters.norm));
  }
}

bool Runner::run(const std::string &path) {
  std::string error;
  progress("loading");
  if (!module.load(path, error))
    return fail(error);
  function = module.find(options.entry, error);
  if (!function)
    return fail(error);
  for (const std::vector<ValueInfo> *values :
       {&function->arguments, &function->results})
    for (const ValueInfo &info : *values)
      if (!getElementType(info.type))
        return fail("'" + info.name + "' is of type " + info.type +
                    ", which npz files can't hold");
  if (options.isCuda && !function->runsOnDevice)
    return fail("'" + function->name +
                "' computes on the host; on a GPU only "
                "functions run that are made of tandem ops alone");
  memory = options.isCuda ? makeCudaMemory(placement.localRank, error)
                          : makeHostMemory();
  if (!memory)
    return fail(error);
  progress("reading arguments");
  if (!readArguments())
    return false;
  progress("meeting the other ranks");
  if (!makeGroups() || !placeArguments() || !makeResults())
    return false;
  progress("running");
  if (!call() || !collectResults())
    return false;
  if (options.showsCounters)
    reportCounters();
  if (options.repeat && !time())
    return false;
  progress("comparing");
  return options.expect.empty() || compareResults();
}

RankOutcome
tandem::run::runRank(const Options &options, const std::string &model,
                     const Placement &placement,
                     const std::function<void(const std::string &)> &progress) {
  Runner runner(options, placement, progress);
  runner.outcome.isOk = runner.run(model);
  return std::move(runner.outcome);
}
