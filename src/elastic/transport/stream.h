// A blocking, authenticated connection between two workers of a job, for bulk data: what nodes
// exchange in a step, and the state that a newcomer on a new node follows. It is opened through the
// other worker's control port (mesh.h): handshake, then a kStream message that states the purpose,
// answered by the same message. After that the bytes belong to the user of the stream.
//
// If the job encrypts, everything after that is encrypted and authenticated (sealed_records.h);
// whatever is altered on the way then looks like a broken connection. Otherwise bulk data are as
// the network delivers them: it must be trusted not to alter or reveal them.
//
// One thread sends and one receives. A third may call shut_down(), which ends both.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <utility>

#include "base/result.h"
#include "elastic/job/view.h"
#include "elastic/transport/descriptor.h"
#include "elastic/transport/handshake.h"
#include "elastic/transport/sealed_records.h"

namespace rubato::elastic {

class Stream {
 public:
  Stream() = default;
  explicit Stream(Descriptor socket) : Stream(std::move(socket), SessionKeys{}) {}  // plain
  // Of a connection after its handshake, whose keys these are.
  Stream(Descriptor socket, const SessionKeys& keys);

  // One attempt, abandoned after a second or soon after `give_up` becomes true. `purpose` is the
  // body of the kStream message. Also an error if the other side does not want such a stream (now).
  static Result<Stream> dial(const WorkerAddress& peer, const Handshake::Identity& identity,
                             const nlohmann::json& purpose, const std::atomic<bool>& give_up);

  bool valid() const { return socket_.valid(); }
  // False: the connection is broken. `more`: further bytes or a flush() follow at once.
  bool send(std::span<const std::byte> bytes, bool more = false) const;
  bool flush() const;
  bool receive(std::span<std::byte> bytes) const;
  // Ends sending; the other side reads the end of the stream after the data.
  void end_sending() const;
  void shut_down() const;

 private:
  Descriptor socket_;
  std::unique_ptr<RecordWriter> writer_;  // of an encrypted stream
  std::unique_ptr<RecordReader> reader_;
};

}  // namespace rubato::elastic
