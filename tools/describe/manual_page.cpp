#include "describe/manual_page.h"

#include <fmt/format.h>

#include <string_view>

#include "base/text.h"
#include "describe/parser_table.h"

namespace rubato::cli {

namespace {

std::string troff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  if (out.starts_with('.') || out.starts_with('\'')) out.insert(0, "\\&");
  return out;
}

void print_man_options(const CLI::App& app) {
  for (const bool positional : {true, false}) {
    for (const CLI::Option* option : options_of(app, positional)) {
      const std::string name = positional ? option->get_name(true) : join(names_of(*option), ", ");
      fmt::print(".TP\n\\fB{}\\fR{}\n{}\n", troff(name),
                 !positional && takes_value(*option) ? " \\fIVALUE\\fR" : "",
                 troff(help_of(*option)));
    }
  }
}

void print_man_command(const CLI::App& app) {
  fmt::print(".SS {}\n{}.\n", troff(synopsis(app)), troff(app.get_description()));
  print_man_options(app);
  for (const CLI::App* sub : subcommands(app)) print_man_command(*sub);
}

void print_markdown_command(const CLI::App& app, int level) {
  fmt::print("\n{:#<{}} {}\n\n    {}\n\n{}.\n", "", level, full_name(app), synopsis(app),
             app.get_description());
  bool first = true;
  for (const bool positional : {true, false}) {
    for (const CLI::Option* option : options_of(app, positional)) {
      if (first) fmt::print("\n| | |\n|---|---|\n");
      first = false;
      const std::string name = positional ? option->get_name(true) : join(names_of(*option), ", ");
      std::string help = help_of(*option);
      for (std::size_t at = help.find('|'); at != std::string::npos; at = help.find('|', at + 2)) {
        help.insert(at, "\\");
      }
      fmt::print("| `{}{}` | {} |\n", name, !positional && takes_value(*option) ? " VALUE" : "",
                 help);
    }
  }
  for (const CLI::App* sub : subcommands(app)) print_markdown_command(*sub, level + 1);
}

}  // namespace

void print_manual_page(const CLI::App& app, const ManualPage& page) {
  std::string title = app.get_name();
  for (char& c : title) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  fmt::print(".TH {} {} \"\" \"rubato {}\" \"{}\"\n", title, page.section, RUBATO_VERSION,
             page.section == 8 ? "System Administration" : "User Commands");
  fmt::print(".SH NAME\n{} \\- {}\n", app.get_name(), troff(page.what));
  fmt::print(".SH SYNOPSIS\n\\fB{}\\fR {}\n", app.get_name(), page.synopsis);
  fmt::print(".SH DESCRIPTION\n{}\n", troff(app.get_description()));
  fmt::print(".SH OPTIONS\n");
  print_man_options(app);
  fmt::print(".SH COMMANDS\n");
  for (const CLI::App* sub : subcommands(app)) print_man_command(*sub);
  for (const ManualPage::Section& section : page.sections) {
    fmt::print(".SH {}\n{}\n", section.title, section.text);
  }
}

void print_markdown(const CLI::App& app) {
  for (const CLI::App* sub : subcommands(app)) print_markdown_command(*sub, 2);
}

}  // namespace rubato::cli
