// A node on which jobs can run.
#pragma once

#include <map>
#include <string>

namespace rubato::control {

// A machine with devices of one type. A machine with two types is offered as two nodes.
struct LiveNode {
  std::string name;
  std::string device_type;
  int devices = 0;
  std::map<std::string, std::string> labels{};
  bool operator==(const LiveNode&) const = default;
};

}  // namespace rubato::control
