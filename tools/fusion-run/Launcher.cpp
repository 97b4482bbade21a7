//===- Launcher.cpp - Processes, one a rank -------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Launcher.h"

#include "Compile.h"
#include "RankRunner.h"
#include "tandem/OnnxOps/PrintableText.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
// NOLINTNEXTLINE(modernize-deprecated-headers): POSIX has more than C++.
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace tandem::run;
using mlir::tandem::makePrintable;

//===----------------------------------------------------------------------===//
// Joining
//===----------------------------------------------------------------------===//

static bool readEnvironment(const char *name, int64_t &value,
                            std::string &error) {
  const char *text = getenv(name);
  if (!text)
    return false;
  char *end = nullptr;
  value = strtoll(text, &end, 10);
  if (end == text || *end || value < 0 || value > INT32_MAX)
    error = std::string("the environment's ") + name + " is '" + text +
            "', which is no rank and no number of ranks";
  return true;
}

/// The letters of `text` that names of rendezvous may have.
static std::string sanitize(const std::string &text) {
  std::string result;
  for (char c : text)
    if (result.size() < 40)
      result += isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return result;
}

bool tandem::run::findJoinedRank(JoinedRank &joined, bool &isJoined,
                                 std::string &error) {
  static const struct {
    const char *rank, *world, *local, *job;
  } launchers[] = {
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
       "OMPI_COMM_WORLD_LOCAL_RANK", "PMIX_NAMESPACE"},
      {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "PMI_JOBID"},
      {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_PORT"},
  };
  isJoined = false;
  for (const auto &launcher : launchers) {
    int64_t rank = 0, world = 0;
    bool hasRank = readEnvironment(launcher.rank, rank, error);
    bool hasWorld = readEnvironment(launcher.world, world, error);
    if (!error.empty())
      return false;
    if (!hasRank || !hasWorld)
      continue;
    if (rank >= world || world > TANDEM_MAX_WORLD) {
      error = "the environment says rank " + std::to_string(rank) + " of " +
              std::to_string(world) + " (" + launcher.rank + ", " +
              launcher.world + ")";
      return false;
    }
    int64_t local = rank;
    readEnvironment(launcher.local, local, error);
    if (!error.empty())
      return false;
    joined.rank = static_cast<int>(rank);
    joined.world = static_cast<int>(world);
    joined.localRank = static_cast<int>(local);
    // A launcher is the parent of all its ranks on a host.
    const char *job = getenv(launcher.job);
    joined.job = sanitize(job ? job : "") + "-" + std::to_string(getppid());
    isJoined = true;
    return true;
  }
  return true;
}

static bool showsProgress() { return isatty(STDERR_FILENO); }

/// Each rank has weights of its own, as a rule.
static void warnOfSharedFiles(const Options &options, int world) {
  std::string files = listFilesOfOneRank(options);
  if (world > 1 && !files.empty())
    fprintf(stderr,
            "fusion-run: warning: all %d ranks take %s; {rank} in a name "
            "stands for the rank\n",
            world, makePrintable(files).c_str());
}

static void printError(const std::string &message) {
  fprintf(stderr, "fusion-run: error: %s\n", makePrintable(message).c_str());
}

//===----------------------------------------------------------------------===//
// Temporary files and signals
//===----------------------------------------------------------------------===//

/// The first signal that asked this process to end.
static volatile sig_atomic_t endingSignal = 0;
/// Processes to end with this one; 0: none.
static std::atomic<pid_t> children[TANDEM_MAX_WORLD];

static void endChildren(int signal) {
  endingSignal = signal;
  for (std::atomic<pid_t> &child : children)
    if (pid_t pid = child.load())
      kill(pid, SIGKILL);
}

static void handleSignals(void (*handler)(int)) {
  struct sigaction action;
  memset(&action, 0, sizeof(action));
  action.sa_handler = handler;
  for (int signal : {SIGINT, SIGTERM, SIGHUP})
    sigaction(signal, &action, nullptr);
}

/// Compiles the models that need it, each once, into `folder`. `paths` are the
/// ranks' models before and what to load after.
static bool compileAll(std::vector<std::string> &paths, const Options &options,
                       TemporaryFolder &folder, std::string &error) {
  std::vector<std::pair<std::string, std::string>> made;
  for (std::string &path : paths) {
    if (!needsCompiling(path))
      continue;
    std::string result;
    for (const auto &[model, object] : made)
      if (model == path)
        result = object;
    if (result.empty()) {
      if (folder.getPath().empty() && !folder.make(error))
        return false;
      result = folder.getPath() + "/" + std::to_string(made.size()) + ".so";
      if (showsProgress())
        fprintf(stderr, "\rfusion-run: compiling %s\033[K",
                makePrintable(path).c_str());
      bool isOk = compileModel(path, result, options.compileFlags, error);
      if (showsProgress())
        fputs("\r\033[K", stderr);
      if (!isOk || endingSignal)
        return false;
      made.emplace_back(path, result);
    }
    path = result;
  }
  return true;
}

int tandem::run::runJoined(const Options &options, const JoinedRank &joined) {
  handleSignals(endChildren);
  if (joined.rank == 0)
    warnOfSharedFiles(options, joined.world);
  std::vector<std::string> models = {forRank(options.model, joined.rank)};
  TemporaryFolder folder;
  std::string error;
  if (!compileAll(models, options, folder, error)) {
    if (!error.empty())
      printError("rank " + std::to_string(joined.rank) + ": " + error);
    return 1;
  }
  handleSignals(SIG_DFL);
  Placement placement;
  placement.rank = joined.rank;
  placement.world = joined.world;
  placement.localRank = joined.localRank;
  placement.rendezvous = options.rendezvous.empty() ? "fusion-run-" + joined.job
                                                    : options.rendezvous;
  RankOutcome outcome =
      runRank(options, models.front(), placement, [](const std::string &) {});
  fputs(outcome.report.c_str(), stdout);
  if (outcome.isOk && fflush(stdout) == 0)
    return 0;
  if (!outcome.isOk)
    printError("rank " + std::to_string(joined.rank) + ": " + outcome.error);
  return 1;
}

//===----------------------------------------------------------------------===//
// Starting
//===----------------------------------------------------------------------===//

namespace {
/// What a rank tells the process that started it, in memory that both have.
struct Message {
  std::atomic<bool> isDone;
  bool isOk;
  bool isOfPeer;
  tandem_status status;
  char progress[128];
  char error[2048];
  char report[16384];
};

/// One process.
struct Rank {
  pid_t pid = 0;
  bool isRunning = false;
  bool wasEnded = false; ///< by this process, after another rank had failed
  int status = 0;
};
} // namespace

static void copyText(char *into, size_t size, const std::string &text) {
  size_t count = std::min(size - 1, text.size());
  memcpy(into, text.data(), count);
  into[count] = '\0';
}

[[noreturn]] static void runChild(const Options &options,
                                  const std::string &model,
                                  const Placement &placement, Message &message,
                                  pid_t parent) {
  // Whatever becomes of the launcher, this process doesn't outlive it.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent)
    _exit(1);
  handleSignals(SIG_DFL);
  RankOutcome outcome =
      runRank(options, model, placement, [&](const std::string &step) {
        copyText(message.progress, sizeof(message.progress), step);
      });
  message.isOk = outcome.isOk;
  message.isOfPeer = outcome.isOfPeer;
  message.status = outcome.status;
  copyText(message.error, sizeof(message.error), outcome.error);
  copyText(message.report, sizeof(message.report), outcome.report);
  message.isDone = true;
  // Nothing of the launcher's runs in here: no destructors, no buffers.
  _exit(outcome.isOk ? 0 : 1);
}

/// How much an error tells of the cause: a rank that says that another died
/// knows less than one that failed by itself.
static int getWeight(const Rank &rank, const Message &message) {
  if (!message.isDone)
    return WIFSIGNALED(rank.status) ? 3 : 2;
  switch (message.status) {
  case TANDEM_STATUS_TIMEOUT:
  case TANDEM_STATUS_PEER_DIED:
  case TANDEM_STATUS_PEER_LEFT:
    return 0;
  case TANDEM_STATUS_INVALID_ARGUMENT:
  case TANDEM_STATUS_OUT_OF_MEMORY:
    return message.isOfPeer ? 0 : 1;
  case TANDEM_STATUS_OK:
    return 2;
  default:
    return 1;
  }
}

/// Prints one error for all ranks: that of the rank that knows most.
static void reportFailure(const std::vector<Rank> &ranks,
                          const Message *messages, size_t firstFailed) {
  size_t worst = firstFailed;
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (messages[i].isDone && messages[i].isOk)
      continue;
    if (!ranks[i].wasEnded && getWeight(ranks[i], messages[i]) >
                                  getWeight(ranks[worst], messages[worst]))
      worst = i;
  }
  const Rank &rank = ranks[worst];
  std::string error = messages[worst].error;
  if (!messages[worst].isDone)
    error = WIFSIGNALED(rank.status)
                ? "was ended by signal " +
                      std::to_string(WTERMSIG(rank.status)) + " (" +
                      strsignal(WTERMSIG(rank.status)) + ") while " +
                      messages[worst].progress
                : "ended while " + std::string(messages[worst].progress);
  printError("rank " + std::to_string(worst) + ": " + error);
}

static double now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) +
         static_cast<double>(time.tv_nsec) * 1e-9;
}

int tandem::run::runRanks(const Options &options) {
  int world = std::max(options.ranks, 1);
  handleSignals(endChildren);
  warnOfSharedFiles(options, world);
  std::vector<std::string> models;
  models.reserve(static_cast<size_t>(world));
  for (int i = 0; i < world; ++i)
    models.push_back(forRank(options.model, i));
  TemporaryFolder folder;
  std::string error;
  if (!compileAll(models, options, folder, error)) {
    if (!error.empty())
      printError(error);
    return 1;
  }

  Placement placement;
  placement.world = world;
  tandem_context *context = nullptr;
  tandem_error failure = TANDEM_ERROR_INIT;
  if (tandem_context_create(nullptr, &context, &failure)) {
    printError(failure.message);
    return 1;
  }
  placement.ids.resize(8);
  for (tandem_unique_id &id : placement.ids) {
    if (tandem_unique_id_create(context, &id, &failure)) {
      printError(failure.message);
      tandem_context_destroy(context);
      return 1;
    }
  }
  tandem_context_destroy(context);

  size_t bytes = sizeof(Message) * static_cast<size_t>(world);
  void *shared = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) {
    printError(std::string("no memory for the ranks: ") + strerror(errno));
    return 1;
  }
  auto *messages = static_cast<Message *>(shared);
  std::vector<Rank> ranks(static_cast<size_t>(world));
  pid_t parent = getpid();
  fflush(nullptr);
  for (int i = 0; i < world && !endingSignal && error.empty(); ++i) {
    placement.rank = placement.localRank = i;
    pid_t pid = fork();
    if (pid == 0)
      runChild(options, models[static_cast<size_t>(i)], placement, messages[i],
               parent);
    if (pid < 0) {
      error = std::string("cannot start a process: ") + strerror(errno);
      break;
    }
    ranks[static_cast<size_t>(i)].pid = pid;
    ranks[static_cast<size_t>(i)].isRunning = true;
    children[i] = pid;
  }
  if (endingSignal || !error.empty())
    endChildren(endingSignal);

  int running = 0;
  for (const Rank &rank : ranks)
    running += rank.isRunning;
  size_t firstFailed = ranks.size();
  double begin = now(), deadline = 0, shown = 0;
  while (running) {
    bool hasChanged = false;
    for (size_t i = 0; i < ranks.size(); ++i) {
      Rank &rank = ranks[i];
      if (!rank.isRunning)
        continue;
      // The process group's others aren't ours: each by its id.
      siginfo_t info;
      memset(&info, 0, sizeof(info));
      if (waitid(P_PID, static_cast<id_t>(rank.pid), &info,
                 WEXITED | WNOHANG | WNOWAIT) != 0 ||
          info.si_pid == 0)
        continue;
      children[i] = 0; // before the id can be another process's
      waitpid(rank.pid, &rank.status, 0);
      rank.isRunning = false;
      --running;
      hasChanged = true;
      bool isOk = messages[i].isDone && messages[i].isOk &&
                  WIFEXITED(rank.status) && WEXITSTATUS(rank.status) == 0;
      if (!isOk && firstFailed == ranks.size()) {
        firstFailed = i;
        deadline = now() + 2;
      }
    }
    if (firstFailed != ranks.size() && now() > deadline)
      for (Rank &rank : ranks)
        if (rank.isRunning && !rank.wasEnded) {
          rank.wasEnded = true;
          kill(rank.pid, SIGKILL);
        }
    if (showsProgress() && now() - begin > 1 && now() - shown > 0.2) {
      shown = now();
      fprintf(stderr, "\rfusion-run: %.0f s, %s\033[K", shown - begin,
              messages[0].progress);
    }
    if (!hasChanged) {
      // Short runs end soon, long ones are not to be disturbed.
      timespec pause = {0, now() - begin < 0.1 ? 500000 : 5000000};
      nanosleep(&pause, nullptr);
    }
  }
  if (shown > 0)
    fputs("\r\033[K", stderr);

  int status = 1;
  if (endingSignal && error.empty()) {
    printError(std::string("ended by signal ") +
               std::to_string(static_cast<int>(endingSignal)));
  } else if (!error.empty()) {
    printError(error);
  } else {
    for (size_t i = 0; i < ranks.size(); ++i)
      fputs(messages[i].report, stdout);
    if (firstFailed != ranks.size())
      reportFailure(ranks, messages, firstFailed);
    else if (fflush(stdout) != 0)
      printError(std::string("cannot write to standard output: ") +
                 strerror(errno));
    else
      status = 0;
  }
  munmap(shared, bytes);
  return status;
}
