//===- Compile.cpp - MODEL to a shared object -----------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Compile.h"

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
// NOLINTNEXTLINE(modernize-deprecated-headers): POSIX has more than C++.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace tandem::run;

bool tandem::run::needsCompiling(const std::string &model) {
  for (const char *suffix : {".onnx", ".mlir", ".mlirbc"}) {
    size_t length = strlen(suffix);
    if (model.size() > length &&
        model.compare(model.size() - length, length, suffix) == 0)
      return true;
  }
  return false;
}

TemporaryFolder::~TemporaryFolder() {
  if (path.empty())
    return;
  if (DIR *folder = opendir(path.c_str())) {
    while (dirent *entry = readdir(folder))
      if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
        unlinkat(dirfd(folder), entry->d_name, 0);
    closedir(folder);
  }
  rmdir(path.c_str());
}

bool TemporaryFolder::make(std::string &error) {
  const char *parent = getenv("TMPDIR");
  std::string name = parent && *parent ? parent : "/tmp";
  name += "/fusion-run.XXXXXX";
  if (!mkdtemp(&name[0])) {
    error = "cannot make a folder '" + name + "': " + strerror(errno);
    return false;
  }
  path = name;
  return true;
}

/// The compiler beside this program; its bare name where none lies there.
static std::string findCompiler() {
  char own[PATH_MAX];
  ssize_t length = readlink("/proc/self/exe", own, sizeof(own));
  if (length > 0 && length < static_cast<ssize_t>(sizeof(own))) {
    std::string path(own, static_cast<size_t>(length));
    path.resize(path.rfind('/') + 1);
    path += "fusion-translate";
    // One that can't be executed is not passed over: it may be another's.
    if (access(path.c_str(), F_OK) == 0)
      return path;
  }
  return "fusion-translate";
}

bool tandem::run::compileModel(const std::string &model,
                               const std::string &output,
                               const std::vector<std::string> &flags,
                               std::string &error) {
  std::string compiler = findCompiler();
  std::vector<std::string> words = {compiler, "--compile", model, "-o", output};
  words.insert(words.end(), flags.begin(), flags.end());
  std::vector<char *> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string &word : words)
    arguments.push_back(&word[0]);
  arguments.push_back(nullptr);

  // Closed by an exec that goes well; else it carries the reason.
  int reason[2];
  if (pipe2(reason, O_CLOEXEC) != 0) {
    error = std::string("cannot start a process: ") + strerror(errno);
    return false;
  }
  pid_t parent = getpid(), child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
      _exit(1);
    execvp(arguments[0], arguments.data());
    int code = errno;
    (void)!write(reason[1], &code, sizeof(code));
    _exit(1);
  }
  int code = child < 0 ? errno : 0;
  close(reason[1]);
  if (child > 0)
    while (read(reason[0], &code, sizeof(code)) < 0 && errno == EINTR)
      ;
  close(reason[0]);
  if (child < 0) {
    error = std::string("cannot start a process: ") + strerror(code);
    return false;
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR)
      break;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
    return true;
  if (code == ENOENT)
    error = "'" + model +
            "' has to be compiled, and there is no "
            "fusion-translate beside this program nor on the PATH; compile it "
            "where there is one: fusion-translate --compile " +
            model + " -o model.so";
  else if (code)
    error = "'" + model + "' has to be compiled, and '" + compiler +
            "' cannot be executed: " + strerror(code);
  else if (WIFSIGNALED(status))
    error = "fusion-translate was ended by signal " +
            std::to_string(WTERMSIG(status));
  return false;
}
