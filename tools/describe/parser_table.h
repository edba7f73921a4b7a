// The parser's table of commands and options, as the pages and completions that are made of it see
// it. Commands and options of the empty group are internal and left out.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace rubato::cli {

std::vector<const CLI::App*> subcommands(const CLI::App& app);
// --help, which every command has, is listed with the program only.
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
