// Control connections among the workers of a job: a full mesh of authenticated TCP connections,
// served by one thread. It carries few, small messages. Gradients and state go through shared
// memory within a node and through streams (stream.h) between nodes; streams are opened here and
// handed over. What the connections carry is authenticated and, if the job encrypts, encrypted
// (frame_seal.h).
//
// Which peers are lost: a peer whose connection broke and whose process has ended (on another node:
// whose port is closed) is lost at once. A peer that is merely unreachable, or silent though
// connected (stopped), is lost after the failure timeout. Messages from a lost peer are never
// accepted again.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"
#include "elastic/job/view.h"
#include "elastic/transport/stream.h"

namespace rubato::elastic {

enum class Message : std::uint8_t {
  kPing = 16,  // lower numbers belong to the handshake
  kHello,      // my WorkerAddress; first message in both directions
  kJoin,       // newcomer -> leader: request to join
  kAccepted,   // leader -> newcomer
  kRefused,    // leader -> newcomer: reason
  kReady,      // newcomer -> leader: my state follows the view, or no longer does
  kPrepare,    // leader -> members of the next view: map it
  kPrepared,   // answer to kPrepare
  kFreeze,     // recovering worker -> all: publish nothing more until a view starts
  kFrozen,     // answer to kFreeze
  kStart,      // recovering or founding leader -> members: this view begins
  kLeave,      // member -> leader: request to leave
  kBye,        // I am leaving; not a failure
  kFinished,   // leader -> all: the job is done
  kBroken,     // member -> leader: the view's streams broke, or the sender lost another member
  kStream,     // first message of a connection that becomes a stream (stream.h), and its answer
};

class Mesh {
 public:
  // Called only from poll().
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void on_connected(const WorkerAddress& peer) = 0;
    virtual void on_message(int peer, Message message, const nlohmann::json& body) = 0;
    virtual void on_lost(int peer, const std::string& why) = 0;
    // Returns what takes over a stream requested by a peer; nothing if it is not wanted (now).
    virtual std::function<void(Stream)> on_stream(int peer, const nlohmann::json& purpose) = 0;
    // A connection with this peer was closed because what arrived is not what the peer sent. It is
    // opened again like one that broke.
    virtual void on_tampering(int peer, const std::string& what) = 0;
  };
  struct Options {
    std::string job;
    std::string secret;
    std::string host = "127.0.0.1";
    double failure_timeout_s = 2.0;
    bool encrypt = false;
  };

  // Listens on a free port of the host and fills in self.port. Also an error if it is to encrypt
  // and this machine cannot.
  static Result<std::unique_ptr<Mesh>> open(const Options& options, WorkerAddress self,
                                            Listener& listener);
  virtual ~Mesh() = default;

  virtual const WorkerAddress& self() const = 0;
  // Sets the board that workers of this node share, once it is known. It is part of self().
  virtual void set_board(const std::string& name) = 0;
  // Makes sure that a connection exists or soon will. Exactly one of two workers should dial: a
  // newcomer dials the members it finds; of two newcomers, the one with the higher id dials.
  virtual void want(const WorkerAddress& peer, bool dial) = 0;
  virtual bool connected(int peer) const = 0;
  // True if its process has ended or is unknown here (as on another node).
  virtual bool ended(int peer) const = 0;
  virtual void send(int peer, Message message, const nlohmann::json& body) = 0;
  // The peer is no longer of interest: its loss will not be reported.
  virtual void forget(int peer) = 0;
  // Ends the process of an excluded peer on this node, which may be merely stopped. True if it is
  // known to have ended or is on another node, where it can harm nobody here.
  virtual bool fence(int peer) = 0;
  // Waits for input at most this long and handles it.
  virtual void poll(int milliseconds) = 0;
  // Makes poll() return. Callable from any thread.
  virtual void wake() = 0;
  // Connections that were closed because of malformed or altered frames, failed authentication, or
  // no authentication in time.
  virtual std::int64_t refused() const = 0;
};

}  // namespace rubato::elastic
