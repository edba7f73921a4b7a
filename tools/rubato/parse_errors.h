// What the parser says to a command line that it does not understand, and checks whose messages say
// what was expected.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace rubato::cli {

// A word that stands where a command is expected and is none: "unknown command 'submti'; did you
// mean 'submit'?". Empty: every command is known. Asked before parsing, since the parser only says
// that a command is missing.
std::string unknown_command(const CLI::App& app, const std::vector<std::string>& arguments);

// The parser's error in the words of a person, with the command whose --help has more.
std::string parse_problem(const CLI::App& app, const CLI::ParseError& error);

// --- Checks of options
CLI::Validator one_of(std::vector<std::string> names);
CLI::Validator between(double low, double high);
CLI::Validator at_least(double low);

}  // namespace rubato::cli
