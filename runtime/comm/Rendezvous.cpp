//===-- Rendezvous.cpp - How the ranks of a group meet --------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Rendezvous.h"

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

using namespace tandem;

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

/// How long rank 0 stays at a rendezvous that has failed, to tell ranks that
/// are still on their way.
static constexpr int64_t lingerMs = 1000;

/// How long a directory's lock is waited for. Nobody needs it for as long: who
/// has it then was stopped, or isn't one of ours.
static constexpr int64_t lockMs = 1000;

/// What a peer that waits for rank 0's word adds to its deadline, so that rank
/// 0, which knows who is missing, speaks first.
static constexpr int64_t graceMs = 500;

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

static Error randomBytes(void *out, size_t size) {
  char *p = static_cast<char *>(out);
  while (size > 0) {
    ssize_t n = getrandom(p, size, 0);
    if (n < 0 && errno != EINTR)
      return makeSystemError(errno, "getrandom");
    if (n > 0) {
      p += n;
      size -= static_cast<size_t>(n);
    }
  }
  return Error();
}

static std::string hex(const uint8_t *bytes, size_t size) {
  static const char digits[] = "0123456789abcdef";
  std::string s;
  for (size_t i = 0; i < size; ++i) {
    s += digits[bytes[i] >> 4];
    s += digits[bytes[i] & 15];
  }
  return s;
}

/// Makes the directory if asked to, and checks that nobody else may write there
/// (`othersMayRead`) or even enter.
static Error checkDirectory(const std::string &directory, bool make,
                            bool othersMayRead) {
  if (make && mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST)
    return makeSystemError(errno, "rendezvous directory '%s'",
                           directory.c_str());
  struct stat st;
  if (lstat(directory.c_str(), &st) != 0)
    return makeSystemError(errno, "rendezvous directory '%s'",
                           directory.c_str());
  mode_t forbidden = othersMayRead ? 0022 : 0077;
  if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() ||
      (st.st_mode & forbidden) != 0)
    return makeError(TANDEM_STATUS_INVALID_ARGUMENT, -1,
                     "rendezvous directory '%s' is not private: it must be a "
                     "directory of user %u with no access for others (mode "
                     "%04o, owner %u)",
                     directory.c_str(), static_cast<unsigned>(geteuid()),
                     static_cast<unsigned>(st.st_mode & 07777),
                     static_cast<unsigned>(st.st_uid));
  return Error();
}

static bool isBareName(const char *name) {
  size_t length = strlen(name);
  if (length == 0 || length > 64 || name[0] == '.')
    return false;
  return strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                      "0123456789._-") == length;
}

Error tandem::placeOfName(const char *name, const std::string &directory,
                          Place &place) {
  if (!name)
    return makeError(TANDEM_STATUS_INVALID_ARGUMENT, -1,
                     "a rendezvous needs a name");
  const char *slash = strrchr(name, '/');
  const char *base = slash ? slash + 1 : name;
  if (!isBareName(base))
    return makeError(TANDEM_STATUS_INVALID_ARGUMENT, -1,
                     "rendezvous name '%.100s' must be 1 to 64 of "
                     "[A-Za-z0-9._-] and not start with a dot",
                     base);
  place.name = base;
  if (slash) {
    place.directory.assign(name, slash == name ? 1 : slash - name);
    return checkDirectory(place.directory, /*make=*/false,
                          /*othersMayRead=*/true);
  }
  if (!directory.empty())
    place.directory = directory;
  else
    place.directory = "/tmp/tandem-" + std::to_string(geteuid());
  return checkDirectory(place.directory, /*make=*/true,
                        /*othersMayRead=*/false);
}

/// magic, version, then 16 bytes that name the socket and 16 that stay secret.
static constexpr char idMagic[9] = "TANDEMID";
static constexpr size_t idRandomAt = 16;

Error tandem::makeUniqueId(tandem_unique_id &id) {
  memset(&id, 0, sizeof(id));
  memcpy(id.bytes, idMagic, 8);
  uint32_t version = wireProtocol;
  memcpy(id.bytes + 8, &version, sizeof(version));
  return randomBytes(id.bytes + idRandomAt, 32);
}

Error tandem::placeOfUniqueId(const tandem_unique_id &id, Place &place) {
  if (memcmp(id.bytes, idMagic, 8) != 0)
    return makeError(TANDEM_STATUS_INVALID_ARGUMENT, -1,
                     "unique_id was not made by tandem_unique_id_create");
  uint32_t version;
  memcpy(&version, id.bytes + 8, sizeof(version));
  if (version != wireProtocol)
    return makeError(TANDEM_STATUS_MISMATCH, -1,
                     "unique_id is of protocol %u, this runtime of %u", version,
                     wireProtocol);
  place.directory.clear();
  place.name = "tandem-" + hex(id.bytes + idRandomAt, 16);
  memcpy(place.key.data(), id.bytes + idRandomAt + 16, 16);
  return Error();
}

/// Writes a place's address. A path too long for a socket address goes through
/// /proc/self/fd, for which `directoryFd` is opened.
static Error addressOf(const Place &place, const std::string &name,
                       sockaddr_un &address, socklen_t &length,
                       UniqueFd &directoryFd) {
  memset(&address, 0, sizeof(address));
  address.sun_family = AF_UNIX;
  std::string path = place.directory + "/" + name;
  if (place.directory.empty()) {
    path = std::string(1, '\0') + name;
  } else if (path.size() >= sizeof(address.sun_path)) {
    directoryFd.reset(
        open(place.directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!directoryFd)
      return makeSystemError(errno, "rendezvous directory '%s'",
                             place.directory.c_str());
    path = "/proc/self/fd/" + std::to_string(directoryFd.get()) + "/" + name;
  }
  if (path.size() >= sizeof(address.sun_path))
    return makeError(TANDEM_STATUS_INVALID_ARGUMENT, -1,
                     "rendezvous name '%s' is too long", name.c_str());
  memcpy(address.sun_path, path.data(), path.size());
  length =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() +
                             (place.directory.empty() ? 0 : 1));
  return Error();
}

static UniqueFd makeSocket() {
  return UniqueFd(
      socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

static bool isSameUser(int fd) {
  ucred credentials = {};
  socklen_t size = sizeof(credentials);
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0 &&
         credentials.uid == geteuid();
}

/// Connects to whoever listens at `place`; on failure `fd` is empty and `code`
/// is errno.
static Error connectTo(const Place &place, UniqueFd &fd, int &code) {
  sockaddr_un address;
  socklen_t length;
  UniqueFd directoryFd;
  if (Error e = addressOf(place, place.name, address, length, directoryFd))
    return e;
  fd = makeSocket();
  if (!fd)
    return makeSystemError(errno, "socket");
  code = 0;
  if (connect(fd.get(), reinterpret_cast<sockaddr *>(&address), length) != 0) {
    code = errno;
    fd.reset();
  }
  return Error();
}

/// A descriptor of this process, for others to watch; none before Linux 5.3.
static UniqueFd openSelf() {
  int fd = static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0));
  if (fd >= 0)
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
  return UniqueFd(fd);
}

//===----------------------------------------------------------------------===//
// The first words
//===----------------------------------------------------------------------===//

/// Says what a connection's error means before the group is made.
static Error hubIsGone(const Error &cause) {
  Error error = cause;
  if (cause.status == TANDEM_STATUS_PEER_LEFT)
    error = makeError(TANDEM_STATUS_PEER_DIED, 0,
                      "rank 0 died or gave up while the group was being made");
  error.peer = 0;
  return error;
}

/// Says who comes through `channel`, and hears rank 0's word.
static Error introduce(Channel &channel, const Place &place, int rank,
                       int world, Deadline deadline, Reply &reply) {
  UniqueFd self = openSelf();
  int selfFd = self.get();
  Hello hello = {};
  hello.magic = helloMagic;
  hello.protocol = wireProtocol;
  hello.abi = TANDEM_ABI_VERSION;
  hello.rank = rank;
  hello.world = world;
  hello.remainingMs = deadline.never() ? 0 : deadline.leftMs(INT64_MAX) + 1;
  memcpy(hello.key, place.key.data(), place.key.size());
  hello.hasPidfd = self ? 1 : 0;

  Deadline late = deadline.plus(graceMs);
  reply = Reply();
  Error error =
      channel.sendBytes(&hello, sizeof(hello), &selfFd, self ? 1 : 0, late);
  // Rank 0 may have answered and closed before it read all of ours.
  if (Error e = channel.recvBytes(&reply, sizeof(reply), nullptr, late))
    error = e;
  else
    error = Error();
  if (error.status == TANDEM_STATUS_TIMEOUT)
    return makeError(TANDEM_STATUS_TIMEOUT, 0,
                     "rank 0 did not answer at rendezvous '%s' in time",
                     place.name.c_str());
  if (error)
    return hubIsGone(error);
  if (reply.magic != helloMagic)
    return makeError(TANDEM_STATUS_MISMATCH, 0,
                     "what answers at rendezvous '%s' is not a Tandem runtime",
                     place.name.c_str());
  return Error();
}

/// The error that rank 0 tells of.
static Error errorOf(Reply &reply) {
  if (reply.status == TANDEM_STATUS_OK)
    return Error();
  reply.message[sizeof(reply.message) - 1] = '\0';
  Error error = makeError(reply.status, reply.peer, "%s", reply.message);
  error.reporter = 0;
  return error;
}

//===----------------------------------------------------------------------===//
// Rank 0
//===----------------------------------------------------------------------===//

namespace {
/// The socket that rank 0 listens at; its name goes with it.
class Listener {
public:
  ~Listener() { close(); }
  /// A second rank 0 that comes while the first still waits for its ranks is an
  /// error for both; one that comes later waits until the name is free.
  Error open(const Place &place, int world, Deadline deadline);
  void close() {
    shut();
    socket.reset();
  }
  /// Gives the name up. Nobody else can connect; who has, can be accepted.
  void shut() {
    if (!path.empty())
      unlink(path.c_str());
    path.clear();
    if (socket)
      (void)shutdown(socket.get(), SHUT_RD);
  }
  int fd() const { return socket.get(); }

private:
  Error bindAndListen(const Place &place, const std::string &name,
                      bool &isTaken);
  Error bindAside(const Place &place);
  Error takeName(const Place &place, UniqueFd &other, bool &isTaken);

  UniqueFd socket;
  std::string path;
  /// Until when to wait for the directory's lock, once somebody has it.
  Deadline patience;
};

/// A lock on a directory. Given up by name: a process that another thread forks
/// meanwhile has a copy of the descriptor.
class DirectoryLock {
public:
  explicit DirectoryLock(const std::string &directory)
      : fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {}
  DirectoryLock(const DirectoryLock &) = delete;
  DirectoryLock &operator=(const DirectoryLock &) = delete;
  ~DirectoryLock() {
    if (fd)
      (void)flock(fd.get(), LOCK_UN);
  }
  /// False where somebody else has it. Where directories can't be locked,
  /// nobody has.
  bool take() const {
    return !fd || flock(fd.get(), LOCK_EX | LOCK_NB) == 0 ||
           errno != EWOULDBLOCK;
  }

private:
  UniqueFd fd;
};
} // namespace

/// `isTaken` tells of a name that somebody else has.
Error Listener::bindAndListen(const Place &place, const std::string &name,
                              bool &isTaken) {
  sockaddr_un address;
  socklen_t length;
  UniqueFd directoryFd;
  if (Error e = addressOf(place, name, address, length, directoryFd))
    return e;
  isTaken = false;
  if (bind(socket.get(), reinterpret_cast<sockaddr *>(&address), length) != 0) {
    isTaken = errno == EADDRINUSE;
    return isTaken ? Error()
                   : makeSystemError(errno, "rendezvous '%s%s%s'",
                                     place.directory.c_str(),
                                     place.directory.empty() ? "" : "/",
                                     place.name.c_str());
  }
  if (!place.directory.empty()) {
    path = place.directory + "/" + name;
    (void)chmod(path.c_str(), 0600);
  }
  if (listen(socket.get(), 256) != 0)
    return makeSystemError(errno, "listen");
  return Error();
}

/// Listens under a name that nobody knows, to be renamed: so the name either
/// leads to a live listener or is left over from a crash.
Error Listener::bindAside(const Place &place) {
  uint8_t random[8];
  if (Error e = randomBytes(random, sizeof(random)))
    return e;
  bool isTaken = false;
  if (Error e =
          bindAndListen(place, "." + hex(random, sizeof(random)), isTaken))
    return e;
  return isTaken ? makeSystemError(EADDRINUSE, "rendezvous '%s/%s'",
                                   place.directory.c_str(), place.name.c_str())
                 : Error();
}

/// Takes the name unless somebody listens there (`isTaken`); `other` leads to
/// them, if they have room for another connection.
Error Listener::takeName(const Place &place, UniqueFd &other, bool &isTaken) {
  // Between looking and renaming nobody else may do so.
  DirectoryLock lock(place.directory);
  if (lock.take())
    patience = Deadline();
  else if (patience.never())
    patience = Deadline::in(lockMs);
  isTaken = !patience.never() && !patience.passed();
  if (isTaken)
    return Error();
  int code = 0;
  if (Error e = connectTo(place, other, code))
    return e;
  isTaken = other || code == EAGAIN;
  if (isTaken)
    return Error();
  std::string final = place.directory + "/" + place.name;
  // A socket that nobody listens at is left over; what else is there isn't
  // ours.
  struct stat st;
  if (code == EPROTOTYPE ||
      (lstat(final.c_str(), &st) == 0 && !S_ISSOCK(st.st_mode)))
    return makeError(TANDEM_STATUS_INVALID_ARGUMENT, -1,
                     "rendezvous '%s' is there and isn't a rendezvous",
                     final.c_str());
  // Only now: a process that is killed while it waits leaves nothing.
  if (Error e = bindAside(place))
    return e;
  if (rename(path.c_str(), final.c_str()) != 0)
    return makeSystemError(errno, "rendezvous '%s'", final.c_str());
  path = final;
  return Error();
}

/// Comes as rank 0 to one that listens already. One that still waits for its
/// ranks hears that there are two, and so do we; one whose ranks are all there,
/// or that has failed, lets the name go soon.
static Error meetOtherHub(UniqueFd connected, const Place &place, int world,
                          Deadline deadline) {
  if (!isSameUser(connected.get()))
    return makeError(TANDEM_STATUS_SYSTEM, -1,
                     "the process at rendezvous '%s' belongs to another user",
                     place.name.c_str());
  Channel channel(std::move(connected));
  Reply reply;
  Error gone = introduce(channel, place, /*rank=*/0, world, deadline, reply);
  // What isn't a Tandem runtime won't go by waiting.
  if (gone.status == TANDEM_STATUS_MISMATCH)
    return gone;
  return gone || reply.status == comeAgain ? Error() : errorOf(reply);
}

Error Listener::open(const Place &place, int world, Deadline deadline) {
  socket = makeSocket();
  if (!socket)
    return makeSystemError(errno, "socket");
  bool isId = place.directory.empty();
  for (;;) {
    UniqueFd other;
    bool isTaken = false;
    int code = 0;
    if (Error e = isId ? bindAndListen(place, place.name, isTaken)
                       : takeName(place, other, isTaken))
      return e;
    if (!isTaken)
      return Error();
    if (isId)
      if (Error e = connectTo(place, other, code))
        return e;
    if (other)
      if (Error e = meetOtherHub(std::move(other), place, world, deadline))
        return e;
    if (deadline.passed())
      return makeError(TANDEM_STATUS_TIMEOUT, -1,
                       "another group is being made at rendezvous '%s'",
                       place.name.c_str());
    usleep(20000);
  }
}

namespace {
/// What rank 0 knows while the ranks come in.
struct Gathering {
  int world;
  std::vector<Channel> channels;
  std::vector<UniqueFd> pidfds;
  int present = 1;
  /// Connected, but nothing said yet.
  std::vector<Channel> strangers;
  /// Ours, but with something wrong about them.
  std::vector<Channel> refused;
  /// Ranks that know, or will at once, that the attempt has failed.
  std::vector<bool> told;
  Deadline deadline;
};
} // namespace

/// Accepts whoever has connected first; false where nobody has.
static bool letIn(const Listener &listener, Gathering &g) {
  UniqueFd fd(
      accept4(listener.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!fd)
    return false;
  if (isSameUser(fd.get()))
    g.strangers.emplace_back(std::move(fd));
  return true;
}

/// Reads a newcomer's hello; false for a connection that isn't one of ours. The
/// rank is -1 where another version can't be understood any further.
static bool readHello(Channel &channel, const Place &place, Hello &hello,
                      std::vector<UniqueFd> &fds) {
  Deadline soon = Deadline::in(200);
  if (channel.recvBytes(&hello, offsetof(Hello, rank), &fds, soon) ||
      hello.magic != helloMagic)
    return false;
  hello.rank = -1;
  if (hello.protocol != wireProtocol)
    return true;
  return !channel.recvBytes(&hello.rank, sizeof(Hello) - offsetof(Hello, rank),
                            &fds, soon) &&
         memcmp(hello.key, place.key.data(), place.key.size()) == 0;
}

/// Reads a newcomer's hello and seats it. A stranger is dropped without a word.
static Error seat(Channel channel, const Place &place, Gathering &g) {
  Hello hello = {};
  std::vector<UniqueFd> fds;
  if (!readHello(channel, place, hello, fds))
    return Error();
  Error error;
  if (hello.protocol != wireProtocol)
    error = makeError(TANDEM_STATUS_MISMATCH, -1,
                      "a rank runs protocol %u (ABI %u.%u), rank 0 protocol %u "
                      "(ABI %d.%d)",
                      hello.protocol, hello.abi >> 16, hello.abi & 0xffff,
                      wireProtocol, TANDEM_ABI_MAJOR, TANDEM_ABI_MINOR);
  else if (hello.rank == 0 || (hello.rank > 0 && hello.rank < g.world &&
                               g.channels[hello.rank].fd() >= 0))
    error = makeError(TANDEM_STATUS_MISMATCH, hello.rank,
                      "two processes came as rank %d", hello.rank);
  else if (hello.world != g.world)
    error = makeError(TANDEM_STATUS_MISMATCH, hello.rank,
                      "rank %d was started with world size %d, rank 0 with %d",
                      hello.rank, hello.world, g.world);
  else if (hello.rank <= 0 || hello.rank >= g.world)
    error =
        makeError(TANDEM_STATUS_MISMATCH, hello.rank,
                  "rank %d is outside of world size %d", hello.rank, g.world);
  if (error) {
    if (hello.rank > 0 && hello.rank < g.world)
      g.told[hello.rank] = true;
    g.refused.push_back(std::move(channel));
    return error;
  }
  if (hello.remainingMs > 0)
    g.deadline = g.deadline.min(Deadline::in(hello.remainingMs));
  g.channels[hello.rank] = std::move(channel);
  if (hello.hasPidfd && !fds.empty())
    g.pidfds[hello.rank] = std::move(fds.front());
  ++g.present;
  return Error();
}

static Error missingRanks(const Gathering &g) {
  std::string missing;
  int first = -1;
  for (int r = 1; r < g.world; ++r) {
    if (g.channels[r].fd() >= 0)
      continue;
    if (first < 0)
      first = r;
    missing += (missing.empty() ? "" : ", ") + std::to_string(r);
  }
  return makeError(TANDEM_STATUS_TIMEOUT, first,
                   "rank %s of world size %d did not come to the rendezvous in "
                   "time",
                   missing.c_str(), g.world);
}

/// Accepts until everyone is there.
static Error gather(const Listener &listener, const Place &place,
                    Gathering &g) {
  while (g.present < g.world) {
    std::vector<pollfd> polled{{listener.fd(), POLLIN, 0}};
    for (Channel &c : g.strangers)
      polled.push_back({c.fd(), POLLIN, 0});
    std::vector<int> seated;
    for (int r = 1; r < g.world; ++r)
      if (g.channels[r].fd() >= 0) {
        // A seated rank says nothing more; readable means that it is gone.
        polled.push_back({g.channels[r].fd(), POLLIN, 0});
        seated.push_back(r);
      }
    int n = poll(polled.data(), polled.size(),
                 static_cast<int>(g.deadline.leftMs(1000)));
    if (n < 0 && errno != EINTR)
      return makeSystemError(errno, "poll");
    if (n <= 0) {
      if (g.deadline.passed())
        return missingRanks(g);
      continue;
    }
    size_t numStrangers = g.strangers.size();
    for (size_t i = 0; i < seated.size(); ++i)
      if (polled[1 + numStrangers + i].revents)
        return makeError(TANDEM_STATUS_PEER_DIED, seated[i],
                         "rank %d died or gave up while the group was being "
                         "made",
                         seated[i]);
    std::vector<Channel> ready, silent;
    for (size_t i = 0; i < numStrangers; ++i)
      (polled[1 + i].revents ? ready : silent)
          .push_back(std::move(g.strangers[i]));
    g.strangers = std::move(silent);
    for (Channel &c : ready)
      if (Error e = seat(std::move(c), place, g))
        return e;
    // Without a descriptor for it, it stays at the door.
    if (polled[0].revents && !letIn(listener, g))
      usleep(10000);
    if (g.present < g.world && g.deadline.passed())
      return missingRanks(g);
  }
  return Error();
}

/// Tells everybody that the attempt has failed: who is here at once, who is on
/// the way for a while longer.
static void windUp(Listener &listener, const Place &place, const Reply &reply,
                   Gathering &g) {
  auto tell = [](Channel &channel, const Reply &word) {
    (void)channel.sendBytes(&word, sizeof(word), nullptr, 0, Deadline::in(100));
  };
  for (Channel &c : g.refused)
    tell(c, reply);
  for (int r = 1; r < g.world; ++r)
    if (g.channels[r].fd() >= 0) {
      tell(g.channels[r], reply);
      g.told[r] = true;
    }
  g.told[0] = true;
  Reply again = reply;
  again.status = comeAgain;
  std::vector<Channel> early;
  Deadline end = g.deadline.min(Deadline::in(lingerMs));
  auto allTold = [&] {
    for (bool told : g.told)
      if (!told)
        return false;
    return true;
  };
  // Answers those strangers who have said who they are.
  auto answer = [&](const std::vector<pollfd> &polled) {
    std::vector<Channel> silent;
    for (size_t i = 0; i < g.strangers.size(); ++i) {
      Channel channel = std::move(g.strangers[i]);
      Hello hello = {};
      std::vector<UniqueFd> fds;
      if (!polled[1 + i].revents) {
        silent.push_back(std::move(channel));
      } else if (readHello(channel, place, hello, fds)) {
        bool known = hello.rank >= 0 && hello.rank < g.world;
        // Where the ranks were left unset, more than two come as rank 0.
        bool isOneMore = hello.rank == 0 && reply.peer == 0;
        if (known && g.told[hello.rank] && !isOneMore) {
          early.push_back(std::move(channel));
          continue;
        }
        tell(channel, reply);
        if (known)
          g.told[hello.rank] = true;
      }
    }
    g.strangers = std::move(silent);
  };
  auto pollAll = [&](int64_t waitMs) {
    std::vector<pollfd> polled{{listener.fd(), POLLIN, 0}};
    for (Channel &c : g.strangers)
      polled.push_back({c.fd(), POLLIN, 0});
    if (poll(polled.data(), polled.size(), static_cast<int>(waitMs)) <= 0)
      polled.clear();
    return polled;
  };
  while (!allTold() && !end.passed()) {
    std::vector<pollfd> polled = pollAll(end.leftMs(1000));
    if (polled.empty())
      continue;
    answer(polled);
    if (polled[0].revents)
      (void)letIn(listener, g);
  }
  // Those who come again must not find this attempt again, and who came just
  // now is answered, too.
  listener.shut();
  while (letIn(listener, g))
    ;
  std::vector<pollfd> polled = pollAll(0);
  if (!polled.empty())
    answer(polled);
  for (Channel &c : early)
    tell(c, again);
  for (Channel &c : g.strangers)
    tell(c, again);
}

static Error meetAsHub(const Place &place, int world, Deadline deadline,
                       Meeting &meeting) {
  Listener listener;
  if (Error e = listener.open(place, world, deadline))
    return e;
  Gathering g;
  g.world = world;
  g.deadline = deadline;
  g.channels.resize(world);
  g.pidfds.resize(world);
  g.told.resize(world);
  Error error = gather(listener, place, g);
  Reply reply = {};
  reply.magic = helloMagic;
  reply.protocol = wireProtocol;
  reply.status = error.status;
  reply.peer = error.peer;
  error.clearRest();
  memcpy(reply.message, error.message, sizeof(reply.message));
  if (error) {
    windUp(listener, place, reply, g);
    error.reporter = 0;
    return error;
  }
  // Closed before anybody is told: whoever comes to this name from now on
  // belongs to the next group.
  listener.close();

  UniqueFd self = openSelf();
  std::string known;
  std::vector<int> fds;
  for (int r = 0; r < world; ++r) {
    int fd = r == 0 ? self.get() : g.pidfds[r].get();
    known += fd >= 0 ? '1' : '0';
    if (fd >= 0)
      fds.push_back(fd);
  }
  // A rank that dies now is a death in a group that is made: some may have
  // heard so already, and all find it at their next collective or call.
  Deadline soon = Deadline::in(2000);
  for (int r = 1; r < world; ++r)
    if (!g.channels[r].sendBytes(&reply, sizeof(reply), nullptr, 0, soon))
      (void)g.channels[r].send(0, 0, known, fds, soon);
  meeting.channels = std::move(g.channels);
  meeting.pidfds = std::move(g.pidfds);
  return Error();
}

//===----------------------------------------------------------------------===//
// The other ranks
//===----------------------------------------------------------------------===//

/// Connects to rank 0, which may not be there yet.
static Error connectToHub(const Place &place, Deadline deadline,
                          Channel &channel) {
  useconds_t pause = 500;
  for (;;) {
    UniqueFd fd;
    int code = 0;
    if (Error e = connectTo(place, fd, code))
      return e;
    if (fd) {
      if (!isSameUser(fd.get()))
        return makeError(TANDEM_STATUS_SYSTEM, 0,
                         "the process at rendezvous '%s' belongs to another "
                         "user",
                         place.name.c_str());
      channel = Channel(std::move(fd));
      return Error();
    }
    if (code != ENOENT && code != ECONNREFUSED && code != EAGAIN &&
        code != EINTR)
      return makeSystemError(code, "rendezvous '%s'", place.name.c_str());
    if (deadline.passed())
      return makeError(TANDEM_STATUS_TIMEOUT, 0,
                       "rank 0 did not come to rendezvous '%s' in time",
                       place.name.c_str());
    usleep(pause);
    pause = pause < 10000 ? pause * 2 : pause;
  }
}

/// Comes to rank 0 and hears its word.
static Error present(const Place &place, int rank, int world, Deadline deadline,
                     Channel &channel, Reply &reply) {
  if (Error e = connectToHub(place, deadline, channel))
    return e;
  return introduce(channel, place, rank, world, deadline, reply);
}

static Error meetAsSpoke(const Place &place, int rank, int world,
                         Deadline deadline, Meeting &meeting) {
  Channel channel;
  Reply reply = {};
  do {
    if (Error e = present(place, rank, world, deadline, channel, reply))
      return e;
  } while (reply.status == comeAgain);
  if (Error e = errorOf(reply))
    return e;
  Frame frame;
  if (Error e = channel.recv(frame, deadline.plus(graceMs)))
    return hubIsGone(e);
  if (frame.body.size() != static_cast<size_t>(world))
    return makeError(TANDEM_STATUS_INTERNAL, 0, "a welcome of the wrong size");
  meeting.pidfds.resize(world);
  size_t next = 0;
  for (int r = 0; r < world; ++r) {
    if (frame.body[r] != '1' || next >= frame.fds.size())
      continue;
    UniqueFd fd = std::move(frame.fds[next++]);
    if (r != rank)
      meeting.pidfds[r] = std::move(fd);
  }
  meeting.channels.clear();
  meeting.channels.push_back(std::move(channel));
  return Error();
}

Error tandem::meet(const Place &place, int rank, int world, Deadline deadline,
                   Meeting &meeting) {
  Error error = rank == 0 ? meetAsHub(place, world, deadline, meeting)
                          : meetAsSpoke(place, rank, world, deadline, meeting);
  if (error && error.reporter < 0)
    error.reporter = rank;
  return error;
}
