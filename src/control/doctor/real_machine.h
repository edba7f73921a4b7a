// This machine, as the checks of `rubato doctor` see it.
#pragma once

#include <functional>
#include <string_view>

#include "control/doctor/machine_view.h"

namespace rubato::control::doctor {

class RealMachine final : public MachineView {
 public:
  // This layer speaks no HTTP: without `get`, no server answers.
  using Get = std::function<Answer(const std::string& url)>;
  explicit RealMachine(Get get = {}) : get_(std::move(get)) {}

  std::optional<std::string> read(const std::string& path) const override;
  FileInfo file(const std::string& path) const override;
  std::vector<std::string> list(const std::string& folder) const override;
  std::string real_path(const std::string& path) const override;
  std::optional<Space> space(const std::string& path) const override;
  std::string environment(const std::string& name) const override;
  unsigned user() const override;
  int usable_cpus() const override;
  Clocks clocks() const override;
  Limits limits() const override;
  Ran run(const std::vector<std::string>& command,
          std::chrono::milliseconds at_most) const override;
  Libraries libraries(const std::string& program) const override;
  Port port(const std::string& host, int number) const override;
  Answer get(const std::string& url) const override;

 private:
  Get get_;
};

// What `ld.so --list` printed.
Libraries parse_library_list(std::string_view text, bool succeeded);

}  // namespace rubato::control::doctor
