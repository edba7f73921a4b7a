// Messages for command lines that the parser rejects, and option checks that say what they expect.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace rubato::cli {

// The message for an unknown command: "unknown command 'submti'; did you mean 'submit'?". Empty if
// all commands are known. Call it before parsing, because the parser only says that a command is
// missing.
std::string unknown_command(const CLI::App& app, const std::vector<std::string>& arguments);

// The parser's error in plain words, with the command whose --help says more.
std::string parse_problem(const CLI::App& app, const CLI::ParseError& error);

// --- Checks of options
CLI::Validator one_of(std::vector<std::string> names);
CLI::Validator between(double low, double high);
CLI::Validator at_least(double low);

}  // namespace rubato::cli
