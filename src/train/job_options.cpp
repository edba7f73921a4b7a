#include "train/job_options.h"

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <string_view>

#include "base/text.h"
#include "elastic/job_folder.h"

namespace rubato {
namespace {

// A whole number in [low, high].
Result<std::int64_t> number(std::string_view option, std::string_view text, std::int64_t low,
                            std::int64_t high) {
  const auto value = parse_int(text);
  if (value && low <= *value && *value <= high) return *value;
  return invalid_input(
      fmt::format("{}: '{}' is not a whole number from {} to {}", option, text, low, high));
}

Status set(JobOptions& options, std::string_view option, std::string_view text) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const auto store = [&](auto& target, std::int64_t low, std::int64_t high) -> Status {
    const Result<std::int64_t> value = number(option, text, low, high);
    if (!value) return value.error();
    target = static_cast<std::remove_reference_t<decltype(target)>>(*value);
    return ok_status();
  };
  if (option == "--epochs") return store(options.spec.epochs, 1, 1'000'000'000);
  if (option == "--steps") return store(options.spec.steps, 0, 1'000'000'000'000);
  if (option == "--batch") return store(options.spec.batch, 1, 1'000'000'000);
  if (option == "--seed") return store(options.spec.seed, 0, kMost);
  if (option == "--logical") {
    options.logical_asked = true;
    return store(options.spec.logical, 1, elastic::kMostLogicalWorkers);
  }
  if (option == "--pace") return store(options.pace_ms, 0, 3'600'000);
  if (option == "--dump") {
    options.dump = text;
    return ok_status();
  }
  if (option == "--device") {
    if (text != "cpu" && text != "cuda") {
      return invalid_input(fmt::format("--device: '{}' is unknown; use cpu or cuda", text));
    }
    options.cuda = text == "cuda";
    return ok_status();
  }
  if (option == "--consistency") {
    const Result<elastic::Consistency> level = elastic::parse_consistency(std::string(text));
    if (!level) return invalid_input("--consistency: " + level.error().message);
    options.consistency = *level;
    return ok_status();
  }
  return invalid_input(fmt::format("unknown option '{}'; --help lists the options", option));
}

}  // namespace

Result<JobOptions> parse_job_options(std::span<const char* const> arguments,
                                     const JobDefaults& defaults) {
  JobOptions options{.spec = defaults};
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::string_view option = arguments[i];
    if (option == "--help" || option == "-h") {
      options.help = true;
      return options;
    }
    std::string_view value;
    if (const std::size_t equals = option.find('='); equals != std::string_view::npos) {
      value = option.substr(equals + 1);
      option = option.substr(0, equals);
    } else if (i + 1 < arguments.size()) {
      value = arguments[++i];
    } else if (Status known = set(options, option, "1");
               !known && known.error().message.starts_with("unknown option")) {
      return known.error();
    } else {
      return invalid_input(fmt::format("{}: a value is missing", option));
    }
    if (Status done = set(options, option, value); !done) return done.error();
  }
  return options;
}

std::string job_help(const JobDefaults& defaults) {
  return fmt::format(
      "Train the model '{}'.\n\n"
      "  --epochs N             passes over the data set (default {})\n"
      "  --steps N              end after this many steps instead (default {})\n"
      "  --batch N              samples per logical worker and step (default {})\n"
      "  --seed N               for weights, data order, dropout and augmentation (default {})\n"
      "  --logical N            logical workers; affects the result (default {})\n"
      "  --device cpu|cuda      where to train (default cpu)\n"
      "  --consistency d1|d2    d2: same bits on different processors, but slower (default d1)\n"
      "  --pace MS              a mini-batch takes at least this long, as on a slower device "
      "(default 0)\n"
      "  --dump FILE            write the final parameters (float32) to FILE\n"
      "  --help                 show this help\n\n"
      "'rubato run --workers 2 -- PROGRAM ...' runs it on several workers, with the same result.\n",
      defaults.name, defaults.epochs,
      defaults.steps < 0 ? "all steps of the epochs" : std::to_string(defaults.steps),
      defaults.batch, defaults.seed, defaults.logical);
}

}  // namespace rubato
