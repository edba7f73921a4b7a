// The command line of a training program: defaults, and options of its own.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

namespace rubato {

struct JobDefaults {
  std::string name = "train";
  std::int64_t epochs = 1;
  std::int64_t steps = -1;  // -1: as many steps as the epochs have
  std::int64_t batch = 32;  // samples per logical worker and step
  std::uint64_t seed = 1;
  // Logical workers, each with its own share of a step: they decide the result, and a job can use
  // at most as many devices.
  int logical = 4;
};

// An option of the program's own. The variable holds the default and gets what the command line
// says:
//   std::string data = "images";
//   rubato::Job job(argc, argv, {.name = "resnet"}, {{"--data", "folder with the images", &data}});
struct Flag {
  std::string name;  // "--data"
  std::string help;
  std::variant<std::string*, std::int64_t*, double*, bool*>
      value;  // bool: "--flag" or "--flag=false"
};

}  // namespace rubato
