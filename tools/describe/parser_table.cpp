#include "describe/parser_table.h"

#include <fmt/format.h>

#include <cctype>

namespace rubato::cli {

std::vector<const CLI::App*> subcommands(const CLI::App& app) {
  std::vector<const CLI::App*> visible;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!sub->get_group().empty()) visible.push_back(sub);
  }
  return visible;
}

std::vector<const CLI::Option*> options_of(const CLI::App& app, bool positional) {
  std::vector<const CLI::Option*> found;
  for (const CLI::Option* option : app.get_options()) {
    if (option == app.get_help_ptr() && app.get_parent() != nullptr) continue;
    if (option->get_positional() == positional && !option->get_group().empty()) {
      found.push_back(option);
    }
  }
  return found;
}

bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

std::vector<std::string> names_of(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  return names;
}

std::string full_name(const CLI::App& app) {
  return app.get_parent() == nullptr ? app.get_name()
                                     : full_name(*app.get_parent()) + " " + app.get_name();
}

std::string synopsis(const CLI::App& app) {
  std::string text = full_name(app);
  if (!options_of(app, false).empty()) text += " [OPTIONS]";
  for (const CLI::Option* option : options_of(app, true)) {
    std::string name = option->get_name(true);
    for (char& c : name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    if (name == "COMMAND") name = "-- COMMAND...";
    text += option->get_required() ? " " + name : " [" + name + "]";
  }
  return text;
}

std::string help_of(const CLI::Option& option) {
  std::string text = option.get_description();
  if (!option.get_default_str().empty())
    text += fmt::format(" (default: {})", option.get_default_str());
  if (!option.get_envname().empty())
    text += fmt::format(" (environment: {})", option.get_envname());
  return text;
}

}  // namespace rubato::cli
