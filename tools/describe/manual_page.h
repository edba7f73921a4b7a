// Prints manual pages generated from a parser's table.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace rubato::cli {

struct ManualPage {
  int section = 1;
  std::string what;      // the NAME line: "rubatod - WHAT"
  std::string synopsis;  // after the program's name, in troff
  struct Section {
    std::string title;
    std::string text;  // troff
  };
  std::vector<Section> sections{};  // after the commands
};

void print_manual_page(const CLI::App& app, const ManualPage& page);
// Prints the commands as Markdown for docs/cli.md.
void print_markdown(const CLI::App& app);

}  // namespace rubato::cli
