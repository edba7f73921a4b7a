// A blocking, authenticated connection between two workers of a job, for bulk data: what nodes
// exchange in a step, and the state that a newcomer on a new node follows. It is opened through the
// other worker's control port (mesh.h): handshake, then a kStream message that says what the
// connection is for, answered by the same message; after that the bytes are the user's.
//
// One thread sends and one receives; shut_down() may be called by a third and ends both.
#pragma once

#include <atomic>
#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "base/result.h"
#include "elastic/descriptor.h"
#include "elastic/handshake.h"
#include "elastic/view.h"

namespace rubato::elastic {

class Stream {
 public:
  Stream() = default;
  explicit Stream(Descriptor socket);

  // One attempt, given up after a second, or soon after `give_up` has become true. `purpose` is the
  // body of the kStream message. An error also when the other side does not want such a stream
  // (now).
  static Result<Stream> dial(const WorkerAddress& peer, const Handshake::Identity& identity,
                             const nlohmann::json& purpose, const std::atomic<bool>& give_up);

  bool valid() const { return socket_.valid(); }
  // False: the connection is broken. `more`: further bytes follow at once, or a flush().
  bool send(std::span<const std::byte> bytes, bool more = false) const;
  bool flush() const;
  bool receive(std::span<std::byte> bytes) const;
  // Nothing more will be sent; the other side reads an end after what was sent.
  void end_sending() const;
  void shut_down() const;

 private:
  Descriptor socket_;
};

}  // namespace rubato::elastic
