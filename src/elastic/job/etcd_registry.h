// A registry in an etcd cluster. For the record NAME of the registry at PREFIX there are the keys
//
//   PREFIX/newest/NAME      the newest version; etcd itself counts how often the key was written
//   PREFIX/NAME/VERSION     every version, written once
//
// One transaction compares the count of the first with `expected`, makes sure that the second does
// not exist, and writes both. So nothing is decided by reading, and etcd's compaction of old
// revisions takes no version away. A value is preceded by a line with its version and the id of
// the call that wrote it: if the answer to a transaction is lost, the repeated one fails, brings
// this line along, and thereby tells whether the first one had won.
//
// Reads are linearizable. Nothing depends on leases or on watches: a watch only says when to read.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "elastic/job/etcd_client.h"
#include "elastic/job/registry.h"

namespace rubato::elastic {

class EtcdRegistry final : public Registry {
 public:
  EtcdRegistry(const RegistryUrl& url, EtcdClient::Timing timing)
      : prefix_(url.path), client_(url.servers, timing) {}

  Result<Record> get(const std::string& name) override;
  Result<bool> compare_and_swap(const std::string& name, std::int64_t expected,
                                const std::string& value) override;
  Result<std::optional<std::string>> at(const std::string& name, std::int64_t version) override;
  bool may_be_away() const override { return true; }
  std::chrono::milliseconds look_interval() const override;
  std::unique_ptr<RegistryWatch> watch(std::function<void()> changed) override;

 private:
  std::string newest_key(const std::string& name) const { return prefix_ + "/newest/" + name; }
  std::string version_key(const std::string& name, std::int64_t version) const;
  // The only version of a key; nothing if the key does not exist.
  struct Stored {
    std::int64_t written = 0;  // how often, as etcd counts
    std::int64_t version = 0;
    std::string writer;
    std::string value;
  };
  Result<std::optional<Stored>> read(const std::string& key);
  static Result<std::optional<Stored>> stored_in(const nlohmann::json& range,
                                                 const std::string& key);

  const std::string prefix_;
  EtcdClient client_;
};

}  // namespace rubato::elastic
