// libFuzzer: feeds hostile bytes to everything that the daemon reads of a job's folder. Whatever
// the bytes are, nothing throws, what is returned is bounded, and what a check accepted can be
// stored.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "base/check.h"
#include "base/file.h"
#include "base/json_text.h"
#include "control/event_tail.h"
#include "control/job_files.h"
#include "control/job_progress.h"
#include "control/job_registry.h"
#include "control/job_schemas.h"
#include "elastic/job/job_folder.h"

namespace {

using namespace rubato;
using namespace rubato::control;

// A job's folder in memory if the machine has /dev/shm.
const std::string& job_folder() {
  static const std::string kFolder = [] {
    std::string path = "/dev/shm/rubato-fuzz-XXXXXX";
    if (mkdtemp(path.data()) == nullptr) {
      path = "/tmp/rubato-fuzz-XXXXXX";
      RUBATO_CHECK(mkdtemp(path.data()) != nullptr, "cannot create a folder");
    }
    RUBATO_CHECK(make_directories(path + "/registry").ok(), "cannot create a folder");
    return path;
  }();
  return kFolder;
}

void check_storable(const nlohmann::json& value) {
  const std::string text = value.dump();  // throws if it is not UTF-8
  RUBATO_CHECK(parse_json(text).is_object(), "an accepted object is not JSON any more");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  const std::string& folder = job_folder();
  static constexpr const char* kNames[] = {"events.jsonl", "status.json",     "result.json",
                                           "job.json",     "registry/view.1", "registry/target.1"};
  const std::string name = kNames[data[0] % 6];
  std::ofstream(folder + "/" + name, std::ios::binary | std::ios::trunc) << text;

  EventTail tail(folder, name, data[0] / 6, kMostLineBytes);
  for (bool more = true; more;) {
    const EventTail::Piece piece = tail.read();
    RUBATO_CHECK(piece.bytes <= 4 * kMostLineBytes, "a piece is too large");
    for (const EventTail::Line& line : piece.lines) {
      if (line_problem(line.value).empty()) check_storable(line.value);
    }
    more = piece.more;
  }
  const auto object = read_job_object(folder, name, kMostResultBytes);
  if (object.ok()) {
    if (status_problem(*object).empty()) check_storable(*object);
    if (result_problem(*object).empty()) check_storable(*object);
    static_cast<void>(elastic::parse_settings(*object, name));
  }
  static_cast<void>(nlohmann::json(last_line_of(folder, name)).dump());
  JobRegistry registry(folder);
  const auto view = elastic::newest_view(registry);
  RUBATO_CHECK(!view.ok() || view->logical_workers() <= elastic::kMostLogicalWorkers,
               "a view has too many logical workers");
  static_cast<void>(elastic::newest_target(registry));
  JobProgress progress(folder);
  static_cast<void>(progress.look(registry));
  static_cast<void>(progress.body().dump());
  return 0;
}
