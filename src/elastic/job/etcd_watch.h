// Follows keys of an etcd cluster at the member that its client prefers, and connects anew when
// the connection breaks or the client prefers another member.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <thread>

#include "elastic/job/etcd_client.h"
#include "elastic/job/registry.h"
#include "elastic/transport/descriptor.h"

namespace rubato::elastic {

class EtcdWatch final : public RegistryWatch {
 public:
  // Follows all keys that begin with `prefix`. `client` must live longer.
  EtcdWatch(const EtcdClient& client, std::string prefix, std::function<void()> changed);
  EtcdWatch(const EtcdWatch&) = delete;
  EtcdWatch& operator=(const EtcdWatch&) = delete;
  ~EtcdWatch() override;

 private:
  void run();
  void follow(std::size_t member);
  bool take_lines(std::string& text);
  bool pause();

  const EtcdClient& client_;
  const std::string prefix_;
  const std::function<void()> changed_;
  const Descriptor stop_;  // readable when this object ends
  std::thread thread_;
};

}  // namespace rubato::elastic
