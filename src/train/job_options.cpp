#include "train/job_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string_view>
#include <type_traits>

#include "base/text.h"
#include "elastic/job/job_folder.h"

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
  if (option == "--init") {
    options.init = text;
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

Result<bool> truth(std::string_view option, std::string_view text) {
  if (text == "true" || text == "1") return true;
  if (text == "false" || text == "0") return false;
  return invalid_input(fmt::format("{}: '{}'; expected true or false", option, text));
}

// Of the program's own.
Status set(const Flag& flag, std::string_view text) {
  if (auto* const* target = std::get_if<std::string*>(&flag.value)) {
    **target = text;
  } else if (auto* const* whole = std::get_if<std::int64_t*>(&flag.value)) {
    const auto value = parse_int(text);
    if (!value) {
      return invalid_input(fmt::format("{}: '{}' is not a whole number", flag.name, text));
    }
    **whole = *value;
  } else if (auto* const* real = std::get_if<double*>(&flag.value)) {
    const auto value = parse_double(text);
    if (!value) return invalid_input(fmt::format("{}: '{}' is not a number", flag.name, text));
    **real = *value;
  } else {
    const Result<bool> value = truth(flag.name, text);
    if (!value) return value.error();
    *std::get<bool*>(flag.value) = *value;
  }
  return ok_status();
}

const Flag* find_flag(std::span<const Flag> flags, std::string_view name) {
  const auto found =
      std::find_if(flags.begin(), flags.end(), [&](const Flag& flag) { return flag.name == name; });
  return found == flags.end() ? nullptr : &*found;
}

bool is_unknown(const Status& status) {
  return !status && status.error().message.starts_with("unknown option");
}

Status check_flags(std::span<const Flag> flags) {
  for (const Flag& flag : flags) {
    const bool named = flag.name.starts_with("--") && flag.name.size() > 2 &&
                       flag.name.find_first_of("= ") == std::string::npos;
    JobOptions unused;
    if (!named || flag.name == "--help" || !is_unknown(set(unused, flag.name, "1"))) {
      return invalid_input(fmt::format(
          "the program's flag '{}': expected a name that begins with -- and is none of the options "
          "that every program has",
          flag.name));
    }
  }
  return ok_status();
}

std::string default_text(const Flag& flag) {
  return std::visit(
      [](const auto* value) {
        if constexpr (std::is_same_v<decltype(value), const std::string*>) {
          return value->empty() ? std::string("none") : *value;
        } else {
          return fmt::format("{}", *value);
        }
      },
      flag.value);
}

}  // namespace

Result<JobOptions> parse_job_options(std::span<const char* const> arguments,
                                     const JobDefaults& defaults, std::span<const Flag> flags) {
  if (Status sound = check_flags(flags); !sound) return sound.error();
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
    }
    const Flag* const own = find_flag(flags, option);
    if (!value.empty() || arguments[i] != option) {
      // given after the '='
    } else if (own != nullptr && std::holds_alternative<bool*>(own->value)) {
      const bool said = i + 1 < arguments.size() && truth(option, arguments[i + 1]).ok();
      value = said ? arguments[++i] : "true";
    } else if (i + 1 < arguments.size()) {
      value = arguments[++i];
    } else if (Status known = set(options, option, "1"); own == nullptr && is_unknown(known)) {
      return known.error();
    } else {
      return invalid_input(fmt::format("{}: a value is missing", option));
    }
    if (own != nullptr) {
      if (Status done = set(*own, value); !done) return done.error();
      continue;
    }
    if (Status done = set(options, option, value); !done) return done.error();
  }
  return options;
}

std::string job_help(const JobDefaults& defaults, std::span<const Flag> flags) {
  std::string own;
  for (const Flag& flag : flags) {
    own += fmt::format("  {:<22} {} (default {})\n", flag.name, flag.help, default_text(flag));
  }
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
      "  --init FILE            start from this model, a state_dict such as a job's model.pt\n"
      "  --dump FILE            write the final parameters (float32) to FILE\n"
      "  --help                 show this help\n{}\n"
      "'rubato run --workers 2 -- PROGRAM ...' runs it on several workers, with the same result.\n",
      defaults.name, defaults.epochs,
      defaults.steps < 0 ? "all steps of the epochs" : std::to_string(defaults.steps),
      defaults.batch, defaults.seed, defaults.logical,
      own.empty() ? own : "\nOf this program:\n" + own);
}

}  // namespace rubato
