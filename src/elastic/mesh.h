// Control connections among the workers of a job: a full mesh of authenticated TCP connections,
// served by one thread. It carries few and small messages; gradients and state go through shared
// memory within a node and through streams (stream.h) between nodes, which are opened here and
// handed over.
//
// Who is gone: a peer whose connection broke and whose process has ended (on another node: whose
// port is closed) is lost at once; one that is merely unreachable, or silent though connected
// (stopped), is lost after the failure timeout. Who was lost is never listened to again.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"
#include "elastic/descriptor.h"
#include "elastic/view.h"

namespace rubato::elastic {

enum class Message : std::uint8_t {
  kPing = 16,  // lower numbers belong to the handshake
  kHello,      // who I am (WorkerAddress); first message in both directions
  kJoin,       // newcomer -> leader: let me in
  kAccepted,   // leader -> newcomer
  kRefused,    // leader -> newcomer: reason
  kReady,      // newcomer -> leader: my state follows yours
  kPrepare,    // leader -> members of the next view: map it
  kPrepared,   // the answer
  kFreeze,     // recovering worker -> all: publish nothing more until a view starts
  kFrozen,     // the answer
  kStart,      // recovering or founding leader -> members: this view is on
  kLeave,      // member -> leader: I want to go
  kBye,        // I am going; not a failure
  kFinished,   // leader -> all: the job is done
  kBroken,     // member -> leader: the streams of the view broke, or another member is lost here
  kStream,     // first message of a connection that is to become a stream (stream.h); the answer
};

class Mesh {
 public:
  // Called from poll() only.
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void on_connected(const WorkerAddress& peer) = 0;
    virtual void on_message(int peer, Message message, const nlohmann::json& body) = 0;
    virtual void on_lost(int peer, const std::string& why) = 0;
    // Who takes a stream that a peer asks for; nothing when it is not wanted (now).
    virtual std::function<void(Descriptor)> on_stream(int peer, const nlohmann::json& purpose) = 0;
  };
  struct Options {
    std::string job;
    std::string secret;
    std::string host = "127.0.0.1";
    double failure_timeout_s = 2.0;
  };

  // Listens on a free port of the host; self.port is filled in.
  static Result<std::unique_ptr<Mesh>> open(const Options& options, WorkerAddress self,
                                            Listener& listener);
  virtual ~Mesh() = default;

  virtual const WorkerAddress& self() const = 0;
  // The board that workers of this node share, as soon as it is known: part of self().
  virtual void set_board(const std::string& name) = 0;
  // Makes sure there is, or soon will be, a connection. Exactly one of two workers should dial: a
  // newcomer dials the members it finds; of two newcomers the one with the higher id.
  virtual void want(const WorkerAddress& peer, bool dial) = 0;
  virtual bool connected(int peer) const = 0;
  // Its process has ended, or it never had one that is known here (as on another node).
  virtual bool ended(int peer) const = 0;
  virtual void send(int peer, Message message, const nlohmann::json& body) = 0;
  // The peer is no longer of interest: its loss will not be reported.
  virtual void forget(int peer) = 0;
  // Ends the process of a peer on this node (it was excluded, but may only be stopped). True when
  // it is known to have ended, or is on another node: there it can harm nobody here.
  virtual bool fence(int peer) = 0;
  // Waits for input at most this long and handles what came.
  virtual void poll(int milliseconds) = 0;
  // Makes poll() return; from any thread.
  virtual void wake() = 0;
  // Connections that were closed because of malformed frames, failed authentication, or because
  // nothing was proven in time.
  virtual std::int64_t refused() const = 0;
};

}  // namespace rubato::elastic
