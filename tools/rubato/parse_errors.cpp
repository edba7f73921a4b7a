#include "parse_errors.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace rubato::cli {

namespace {

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  std::vector<const CLI::App*> commands;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!sub->get_group().empty()) commands.push_back(sub);
  }
  return commands;
}

// Also one that help does not list.
const CLI::App* command_named(const CLI::App& app, const std::string& name) {
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (sub->get_name() == name) return sub;
  }
  return nullptr;
}

bool has_positionals(const CLI::App& app) {
  const auto options = app.get_options();
  return std::any_of(options.begin(), options.end(),
                     [](const CLI::Option* option) { return option->get_positional(); });
}

// The option of this command, or of one above it, since options may stand after subcommands.
const CLI::Option* option_named(const CLI::App* app, const std::string& name) {
  for (; app != nullptr; app = app->get_parent()) {
    if (const CLI::Option* option = app->get_option_no_throw(name)) return option;
  }
  return nullptr;
}

// The innermost command that was given.
const CLI::App& innermost(const CLI::App& app) {
  const CLI::App* last = &app;
  while (!last->get_subcommands().empty()) last = last->get_subcommands().back();
  return *last;
}

std::string name_with_parents(const CLI::App& app) {
  return app.get_parent() == nullptr ? app.get_name()
                                     : name_with_parents(*app.get_parent()) + " " + app.get_name();
}

std::string text_after(const std::string& text, std::string_view mark) {
  const std::size_t at = text.find(mark);
  return at == std::string::npos ? text : text.substr(at + mark.size());
}

std::string unexpected(const CLI::App& app, const std::string& what) {
  std::string word = text_after(what, ": ");
  word = word.substr(0, word.find(' '));
  if (!word.starts_with('-')) return fmt::format("unexpected argument '{}'", word);
  std::vector<std::string> known;
  for (const CLI::App* level = &app; level != nullptr; level = level->get_parent()) {
    for (const CLI::Option* option : level->get_options()) {
      for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
    }
  }
  word = word.substr(0, word.find('='));
  return fmt::format("unknown option '{}'{}", word, did_you_mean(word, known));
}

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

// "--workers: 'x' is not a number" of "Could not convert: --workers = x".
std::string not_converted(const std::string& what) {
  const std::string rest = text_after(what, ": ");
  const std::size_t equals = rest.find(" = ");
  if (equals == std::string::npos) return what;
  return fmt::format("{}: '{}' is not a number", rest.substr(0, equals), rest.substr(equals + 3));
}

std::string in_words(const CLI::App& app, const CLI::ParseError& error) {
  const std::string what = error.what();
  const auto kind = static_cast<CLI::ExitCodes>(error.get_exit_code());
  if (kind == CLI::ExitCodes::ExtrasError) return unexpected(app, what);
  if (kind == CLI::ExitCodes::ConversionError) return not_converted(what);
  if (kind == CLI::ExitCodes::RequiredError) {
    if (what.find("ubcommand") != std::string::npos) return "say which command";
    const std::string name = what.substr(0, what.find(' '));
    return fmt::format("{} is missing", name.starts_with('-') ? name : upper(name));
  }
  if (kind == CLI::ExitCodes::ArgumentMismatch && what.find("required") != std::string::npos) {
    return fmt::format("{} needs a value", what.substr(0, what.find(':')));
  }
  return what;
}

}  // namespace

std::string unknown_command(const CLI::App& app, const std::vector<std::string>& arguments) {
  const CLI::App* level = &app;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word == "--") return "";
    if (word.starts_with('-')) {
      const CLI::Option* option = option_named(level, word.substr(0, word.find('=')));
      const bool takes_next = option != nullptr && option->get_items_expected_min() > 0 &&
                              word.find('=') == std::string::npos;
      if (takes_next) ++i;
      continue;
    }
    if (const CLI::App* next = command_named(*level, word)) {
      level = next;
      continue;
    }
    const std::vector<const CLI::App*> commands = commands_of(*level);
    if (commands.empty() || has_positionals(*level)) return "";
    std::vector<std::string> names;
    for (const CLI::App* command : commands) names.push_back(command->get_name());
    const std::string meant = nearest_name(word, names);
    return fmt::format(
        "unknown command '{}'; {}", word,
        meant.empty() ? fmt::format("'{} --help' lists the commands", name_with_parents(*level))
                      : fmt::format("did you mean '{}'?", meant));
  }
  return "";
}

std::string parse_problem(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& command = innermost(app);
  return fmt::format("{}; see '{} --help'", in_words(command, error), name_with_parents(command));
}

CLI::Validator one_of(std::vector<std::string> names) {
  std::string shown = "{" + join(names, ",") + "}";
  return {[names = std::move(names)](const std::string& given) -> std::string {
            if (std::find(names.begin(), names.end(), given) != names.end()) return "";
            return fmt::format("'{}' is not one of {}{}", given, join(names, ", "),
                               did_you_mean(given, names));
          },
          std::move(shown)};
}

CLI::Validator between(double low, double high) {
  const std::string range = fmt::format("{:.15g} to {:.15g}", low, high);
  return {[=](const std::string& given) -> std::string {
            const auto value = parse_double(given);
            if (value && *value >= low && *value <= high) return "";
            return fmt::format("'{}' is not a number from {}", given, range);
          },
          "from " + range};
}

CLI::Validator at_least(double low) {
  return {[=](const std::string& given) -> std::string {
            const auto value = parse_double(given);
            if (value && *value >= low) return "";
            return fmt::format("'{}' is not a number of at least {:.15g}", given, low);
          },
          fmt::format("at least {:.15g}", low)};
}

}  // namespace rubato::cli
