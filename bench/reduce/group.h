// The processes of one system, seen from the benchmark that commands them.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "reduce/harness.h"

namespace rubato::bench {

class Group {
 public:
  // Starts separate processes: `body` is called in a child of this process for every rank.
  static std::unique_ptr<Group> fork_ranks(const std::string& label, int ranks,
                                           const std::function<void(const Group&, int)>& body);
  // One process that starts the ranks itself (mpirun); `command` receives the name of the control.
  static std::unique_ptr<Group> launch(
      const std::string& label, int ranks,
      const std::function<std::vector<std::string>(const std::string&)>& command);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  const std::string& label() const { return label_; }
  const std::string& control_name() const { return segment_.name(); }
  // A new folder of this group, removed with it.
  const std::string& folder() const { return folder_; }

  // False once it has failed to answer; then it takes no more commands.
  bool alive() const { return alive_; }
  void prepare(std::size_t floats);
  // Seconds of one all-reduce: from the moment when all ranks were ready until the last rank had
  // the whole result; the median of the iterations. Meaningless if the group is not alive
  // afterwards. Ends the program if a result is wrong.
  double round(int variant, int iterations, bool back_to_back);

 private:
  Group(std::string label, int ranks);
  Control& control() const { return *reinterpret_cast<Control*>(segment_.data()); }
  void command(Control::Command command);
  void give_up(const std::string& what);

  std::string label_;
  elastic::Segment segment_;
  std::string folder_;
  std::vector<pid_t> children_;
  bool alive_ = true;
};

// Replaces this process. The program is searched in PATH unless its name contains a slash.
[[noreturn]] void execute(const std::vector<std::string>& command);

}  // namespace rubato::bench
