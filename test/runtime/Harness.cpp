//===-- Harness.cpp - Groups of real processes for tests ------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Harness.h"

#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dirent.h>
#include <exception>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#define TANDEM_TEST_LEAKS
#endif

using namespace tandem::test;

bool tandem::test::fullTests() {
  const char *text = getenv("TANDEM_TEST_FULL");
  return text && strcmp(text, "1") == 0;
}

std::string tandem::test::freshName() {
  static int count = 0;
  return "test-" + std::to_string(getpid()) + "-" + std::to_string(++count);
}

int64_t tandem::test::nowMs() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/// Whether this process has lost memory, where a sanitizer can tell. A rank
/// ends without the exit handlers that would ask.
static bool leaks() {
#if defined(TANDEM_TEST_LEAKS)
  return __lsan_do_recoverable_leak_check() != 0;
#else
  return false;
#endif
}

Ranks::Ranks(int world, const RankBody &body) {
  for (int rank = 0; rank < world; ++rank) {
    int ends[2];
    if (pipe(ends) != 0)
      abort();
    fflush(nullptr);
    int pid = fork();
    if (pid == 0) {
      // A rank must not outlive a test that was killed.
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      close(ends[0]);
      std::string said;
      try {
        said = body(rank);
      } catch (const std::exception &e) {
        said = std::string("exception: ") + e.what();
      }
      for (size_t at = 0; at < said.size();) {
        ssize_t n = write(ends[1], said.data() + at, said.size() - at);
        if (n <= 0)
          break;
        at += static_cast<size_t>(n);
      }
      close(ends[1]);
      _exit(leaks() ? 77 : 0);
    }
    close(ends[1]);
    children.push_back({pid, ends[0], std::string()});
  }
}

Ranks::~Ranks() {
  for (Child &child : children) {
    if (child.pid > 0) {
      kill(child.pid, SIGKILL);
      waitpid(child.pid, nullptr, 0);
    }
    if (child.out >= 0)
      close(child.out);
  }
}

void Ranks::signal(int rank, int number) { kill(children[rank].pid, number); }

std::vector<std::string> Ranks::join(int patienceSeconds) {
  int64_t until = nowMs() + int64_t(patienceSeconds) * 1000;
  std::vector<std::string> all;
  for (Child &child : children) {
    bool late = false;
    for (;;) {
      int64_t left = until - nowMs();
      pollfd p = {child.out, POLLIN, 0};
      int n = poll(&p, 1, left > 0 ? static_cast<int>(left) : 0);
      if (n < 0 && errno == EINTR)
        continue;
      if (n == 0) {
        kill(child.pid, SIGKILL);
        late = true;
        break;
      }
      char buffer[4096];
      ssize_t got = read(child.out, buffer, sizeof(buffer));
      if (got <= 0)
        break;
      child.said.append(buffer, static_cast<size_t>(got));
    }
    close(child.out);
    child.out = -1;
    int status = 0;
    waitpid(child.pid, &status, 0);
    child.pid = -1;
    if (late)
      child.said =
          "still running after " + std::to_string(patienceSeconds) + " s";
    else if (WIFSIGNALED(status))
      child.said = "killed by signal " + std::to_string(WTERMSIG(status));
    else if (WEXITSTATUS(status) != 0)
      child.said += "exit status " + std::to_string(WEXITSTATUS(status));
    all.push_back(child.said);
  }
  return all;
}

std::vector<std::string> tandem::test::runRanks(int world, const RankBody &body,
                                                int patienceSeconds) {
  Ranks ranks(world, body);
  return ranks.join(patienceSeconds);
}

//===----------------------------------------------------------------------===//
// Members
//===----------------------------------------------------------------------===//

void Member::reset() {
  tandem_workspace_destroy(workspace);
  tandem_comm_destroy(comm);
  tandem_context_destroy(context);
  workspace = nullptr;
  comm = nullptr;
  context = nullptr;
}

tandem_status Member::join(const std::string &name, int rank, int world,
                           int64_t timeoutMs) {
  if (!context)
    if (tandem_status status = tandem_context_create(nullptr, &context, &error))
      return status;
  tandem_comm_desc desc = TANDEM_COMM_DESC_INIT;
  desc.rank = rank;
  desc.world = world;
  desc.name = name.c_str();
  desc.timeout_ms = timeoutMs;
  return tandem_comm_create(context, &desc, &comm, &error);
}

tandem_status Member::makeWorkspace(int64_t maxTokens, int64_t hidden,
                                    tandem_dtype dtype, const char *signature,
                                    uint32_t flags, int64_t tokenLimit) {
  tandem_workspace_desc desc = TANDEM_WORKSPACE_DESC_INIT;
  desc.max_tokens = maxTokens;
  desc.hidden = hidden;
  desc.dtype = dtype;
  desc.flags = flags;
  desc.token_limit = tokenLimit;
  desc.signature = signature;
  desc.signature_length = signature ? strlen(signature) : 0;
  return tandem_workspace_create(comm, &desc, &workspace, &error);
}

tandem_status Member::failure() {
  return tandem_workspace_get_failure(workspace, &error);
}

PlainCall::PlainCall(int rank, int64_t tokens, int64_t hidden)
    : args(TANDEM_NORM_ARGS_INIT) {
  size_t n = static_cast<size_t>(tokens * hidden);
  input.assign(n, static_cast<float>(rank + 1));
  residual.assign(n, 1.0f);
  gamma.assign(static_cast<size_t>(hidden), 1.0f);
  normOut.assign(n, -1.0f);
  residualOut.assign(n, -1.0f);
  args.tokens = tokens;
  args.hidden = hidden;
  args.input.data = input.data();
  args.residual.data = residual.data();
  args.norm.gamma = gamma.data();
  args.norm.epsilon = 0.0;
  args.norm_out.data = normOut.data();
  args.residual_out.data = residualOut.data();
}

std::string PlainCall::check(int world) const {
  float sum = static_cast<float>(world * (world + 1) / 2 + 1);
  for (size_t i = 0; i < normOut.size(); ++i)
    if (residualOut[i] != sum || std::fabs(normOut[i] - 1.0f) > 1e-6f)
      return "element " + std::to_string(i) + ": residual " +
             std::to_string(residualOut[i]) + " not " + std::to_string(sum) +
             ", norm " + std::to_string(normOut[i]) + " not 1";
  return std::string();
}

//===----------------------------------------------------------------------===//
// What a process holds
//===----------------------------------------------------------------------===//

int tandem::test::countFds() {
  int count = 0;
  DIR *dir = opendir("/proc/self/fd");
  while (dir && readdir(dir))
    ++count;
  if (dir)
    closedir(dir);
  return count;
}

std::vector<std::string> tandem::test::listShm() {
  std::vector<std::string> names;
  DIR *dir = opendir("/dev/shm");
  while (dirent *entry = dir ? readdir(dir) : nullptr)
    if (strstr(entry->d_name, "tandem"))
      names.emplace_back(entry->d_name);
  if (dir)
    closedir(dir);
  return names;
}

long tandem::test::residentKb() {
  long pages = 0, resident = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (!file || fscanf(file, "%ld %ld", &pages, &resident) != 2)
    resident = -1;
  if (file)
    fclose(file);
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}
