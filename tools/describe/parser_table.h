// Access to the parser's table of commands and options, from which pages and completions are
// generated. Commands and options in the empty group are internal and left out.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace rubato::cli {

std::vector<const CLI::App*> subcommands(const CLI::App& app);
// Every command has --help, so it is listed only for the program itself.
std::vector<const CLI::Option*> options_of(const CLI::App& app, bool positional);
bool takes_value(const CLI::Option& option);
// "-f", "--file"
std::vector<std::string> names_of(const CLI::Option& option);
// "rubato reserve list"
std::string full_name(const CLI::App& app);
// "rubato reserve [OPTIONS] [DEVICES]"
std::string synopsis(const CLI::App& app);
// Description, default and environment variable.
std::string help_of(const CLI::Option& option);

}  // namespace rubato::cli
