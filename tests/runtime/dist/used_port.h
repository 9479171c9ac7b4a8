// A port of this host at which a program listens: this one.
#pragma once
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "runtime/core/error.h"

namespace lamina::distributed::tests {

class UsedPort {
 public:
  UsedPort() : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    socklen_t length = sizeof address;
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const auto at = reinterpret_cast<sockaddr*>(&address);
    if (bind(socket_, at, length) || listen(socket_, 1) || getsockname(socket_, at, &length)) internal_error("no port is free");
    meeting = cat("127.0.0.1:", ntohs(address.sin_port));
  }
  ~UsedPort() { close(socket_); }
  UsedPort(const UsedPort&) = delete;

  std::string meeting;

 private:
  const int socket_;
};

}  // namespace lamina::distributed::tests
