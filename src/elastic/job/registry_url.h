// Where the registry of a job is, as a URL:
//
//   file:/FOLDER                              a folder that all workers see (FileRegistry)
//   etcd:http://HOST:PORT,http://.../PREFIX   keys that begin with PREFIX in an etcd cluster, of
//                                             which any number of members are named (EtcdRegistry)
//   rubato:                                   that of a daemon, which the agent of each node asks
//                                             for the jobs there (DeskRegistry)
//
// Without a URL the registry is the folder 'registry' in the job's folder. A job whose owner names
// a place gets a registry of its own there (registry_within), and its settings name that one. So a
// place serves any number of jobs, and every other command finds the registry in the settings.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "elastic/job/job_folder.h"
#include "elastic/job/registry.h"

namespace rubato::elastic {

inline constexpr const char* kDaemonsRegistry = "rubato:";
// Whether each node has a folder of its own for the job, and nothing but the registry is common.
inline bool is_spread(const JobSettings& settings) { return settings.registry == kDaemonsRegistry; }

struct ServerAddress {
  std::string host;  // a name, an IPv4 address, or an IPv6 address without brackets
  std::uint16_t port = 0;

  std::string text() const;
  friend bool operator==(const ServerAddress&, const ServerAddress&) = default;
};

struct RegistryUrl {
  enum class Kind { kFile, kEtcd } kind = Kind::kFile;
  std::vector<ServerAddress> servers;  // etcd
  // The folder, or what every key begins with; both begin with a slash and end without one.
  std::string path;
};

Result<RegistryUrl> parse_registry_url(const std::string& url);

// The URL of a new job's registry in this place. No other job chooses the same.
std::string registry_within(const std::string& place, const std::string& job_name,
                            const std::string& token);

// Makes the folder if there is to be one.
Status create_registry(const std::string& url);
// Opening asks no server anything: the first call finds out whether it answers.
Result<std::unique_ptr<Registry>> open_registry(const std::string& url);
// That of a job. Creates no folder that the settings name: whoever looks at a job need not be the
// one who wrote its settings.
Result<std::unique_ptr<Registry>> open_registry(const JobFolder& folder,
                                                const JobSettings& settings);

}  // namespace rubato::elastic
