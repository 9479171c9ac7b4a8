// For LD_PRELOAD: what a process sends over TCP goes as over a link of 1 Mbit/s that loses one packet in twenty. TCP sends a lost packet
// again after 200 ms, so that is what a loss does to those who read the stream.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { kPacket = 1448, kMicrosecondsPerByte = 8, kLost = 20, kAgain = 200000 };

static int is_link(int descriptor) {
  struct sockaddr_storage address;
  socklen_t length = sizeof address;
  const int before = errno, failed = getsockname(descriptor, (struct sockaddr*)&address, &length);
  errno = before;
  return !failed && address.ss_family == AF_INET;
}

static void travel(ssize_t bytes) {
  static __thread unsigned draws = 0;
  const int before = errno;
  if (draws == 0) draws = (unsigned)getpid();
  if (bytes > 0) usleep((unsigned)bytes * kMicrosecondsPerByte + (rand_r(&draws) % kLost == 0 ? kAgain : 0));
  errno = before;
}

static size_t of_one_packet(size_t bytes) { return bytes < kPacket ? bytes : kPacket; }

ssize_t send(int descriptor, const void* data, size_t bytes, int flags) {
  static ssize_t (*real)(int, const void*, size_t, int);
  if (!real) real = (ssize_t (*)(int, const void*, size_t, int))dlsym(RTLD_NEXT, "send");
  if (!is_link(descriptor)) return real(descriptor, data, bytes, flags);
  const ssize_t sent = real(descriptor, data, of_one_packet(bytes), flags);
  travel(sent);
  return sent;
}

ssize_t writev(int descriptor, const struct iovec* pieces, int count) {
  static ssize_t (*real)(int, const struct iovec*, int);
  if (!real) real = (ssize_t (*)(int, const struct iovec*, int))dlsym(RTLD_NEXT, "writev");
  if (!is_link(descriptor)) return real(descriptor, pieces, count);
  int first = 0;
  while (first < count && pieces[first].iov_len == 0) ++first;
  if (first == count) return 0;
  return send(descriptor, pieces[first].iov_base, pieces[first].iov_len, 0);
}
