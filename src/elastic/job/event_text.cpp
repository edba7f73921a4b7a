#include "elastic/job/event_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/json_text.h"

namespace rubato::elastic {

std::string describe_event(std::string_view json_line) {
  const nlohmann::json event = parse_json(json_line);
  if (!event.is_object()) return std::string(json_line);
  try {
    const std::string type = event.value("type", "");
    if (type == "view") {
      const auto workers = event.value("workers", 0);
      return fmt::format(
          "view {:<3} {:<9} {} worker{} from step {}: batch {}, prepared in {:.2f} s, survivors "
          "stalled {:.2f} ms, steps redone {}",
          event.value("view", 0), event.value("cause", ""), workers, workers == 1 ? "" : "s",
          event.value("step", 0), event.value("batch", std::int64_t{0}),
          event.value("prepare_s", 0.0), event.value("stall_ms", 0.0),
          event.value("steps_redone", 0));
    }
    if (type == "started") {
      return fmt::format("leader   from step {} of {}", event.value("step", std::int64_t{0}),
                         event.value("total_steps", std::int64_t{0}));
    }
    if (type == "lost") {
      return fmt::format("lost     worker {}: {}", event.value("worker", -1),
                         event.value("reason", ""));
    }
    if (type == "refused") {
      return fmt::format("refused  worker {}: {}", event.value("worker", -1),
                         event.value("reason", ""));
    }
    if (type == "warning") return fmt::format("warning  {}", event.value("message", ""));
    if (type == "failed") {
      const std::string who =
          event.contains("worker") ? fmt::format("worker {}: ", event.value("worker", -1)) : "";
      return fmt::format("failed   {}{}", who, event.value("reason", ""));
    }
    if (type == "metrics") {
      std::string text;
      const nlohmann::json values = event.value("values", nlohmann::json::object());
      for (const auto& [name, value] : values.items()) {
        text += fmt::format(" {} {}", name,
                            value.is_number() ? fmt::format("{:.6g}", value.get<double>())
                                              : value.get<std::string>());
      }
      return fmt::format("metrics  step {}:{}", event.value("step", std::int64_t{0}), text);
    }
    if (type == "audit") {
      const int workers = event.value("workers", 0);
      return event.value("same", false)
                 ? fmt::format("audit    step {}: {} worker{}, all bits equal",
                               event.value("step", std::int64_t{0}), workers,
                               workers == 1 ? "" : "s")
                 : fmt::format("audit    FAILED: {}", event.value("message", ""));
    }
    if (type == "recovered") {
      return fmt::format("recovered worker {}: no longer slow", event.value("worker", -1));
    }
    if (type == "straggler") {
      return fmt::format("slow     worker {}: {:.2f} times the median for 10 steps",
                         event.value("worker", -1), event.value("slowdown", 0.0));
    }
  } catch (const nlohmann::json::exception&) {
    return std::string(json_line);
  }
  return std::string(json_line);
}

}  // namespace rubato::elastic
