// What an agent remembers over its restarts, in files of its folder: its token, how often it was
// started, and whom it obeyed last.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace rubato::agent {

class AgentMemory {
 public:
  // Reads what is there and counts this start. Makes a token if there is none: it is on disk before
  // anybody hears of it.
  static Result<AgentMemory> open(const std::string& folder);

  const std::string& token() const { return token_; }
  std::int64_t start() const { return start_; }  // 1, 2, 3, ...
  // The highest epoch of a daemon that was obeyed.
  std::int64_t epoch() const { return epoch_; }
  // The identity of the daemon's log, and the life of this node in it (NodeRecord::life). Whatever
  // this machine has of jobs belongs to them.
  const std::string& store() const { return store_; }
  std::int64_t life() const { return life_; }

  Status obey(std::int64_t epoch);
  Status begin_life(const std::string& store, std::int64_t life);

 private:
  explicit AgentMemory(std::string folder) : folder_(std::move(folder)) {}
  Status write() const;

  std::string folder_;
  std::string token_;
  std::int64_t start_ = 0;
  std::int64_t epoch_ = 0;
  std::string store_;
  std::int64_t life_ = 0;
};

}  // namespace rubato::agent
