// rubato completion, manpage: made of the parser's own table, as --help is.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/text.h"
#include "commands.h"

namespace rubato::cli {

namespace {

std::vector<const CLI::App*> subcommands(const CLI::App& app) {
  std::vector<const CLI::App*> visible;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!sub->get_group().empty()) visible.push_back(sub);
  }
  return visible;
}

// --help, which every command has, is listed with the program only.
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

// "rubato reserve list"
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

// --- The manual page -------------------------------------------------------------------------

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

void print_manpage(const CLI::App& app) {
  fmt::print(".TH RUBATO 1 \"\" \"rubato {}\" \"User Commands\"\n", RUBATO_VERSION);
  fmt::print(".SH NAME\nrubato \\- {}\n", troff("elastic deep-learning training"));
  fmt::print(".SH SYNOPSIS\n\\fBrubato\\fR [\\fIOPTIONS\\fR] \\fICOMMAND\\fR ...\n");
  fmt::print(".SH DESCRIPTION\n{}\n", troff(app.get_description()));
  fmt::print(".SH OPTIONS\n");
  print_man_options(app);
  fmt::print(".SH COMMANDS\n");
  for (const CLI::App* sub : subcommands(app)) print_man_command(*sub);
  fmt::print(
      ".SH EXIT STATUS\n0: done. 1: failed; standard error says why. 2: possible, but not now "
      "(plan).\n"
      ".SH FILES\n.TP\n\\fI$RUBATO_STATE\\fR, \\fI~/.local/state/rubato\\fR, "
      "\\fI/var/lib/rubato\\fR\n"
      "State of the local daemon; its address (server.url) and the administrator's token "
      "(admin.token) are read from there when no server is named.\n"
      ".SH SEE ALSO\nrubatod(8)\n");
}

// --- docs/cli.md -----------------------------------------------------------------------------

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

void print_markdown(const CLI::App& app) {
  for (const CLI::App* sub : subcommands(app)) print_markdown_command(*sub, 2);
}

// --- Completion --------------------------------------------------------------------------------

std::string words_after(const CLI::App& app) {
  std::vector<std::string> words;
  for (const CLI::App* sub : subcommands(app)) words.push_back(sub->get_name());
  for (const CLI::App* level = &app; level != nullptr; level = level->get_parent()) {
    for (const CLI::Option* option : options_of(*level, false)) {
      for (std::string& name : names_of(*option)) {
        if (std::find(words.begin(), words.end(), name) == words.end()) {
          words.push_back(std::move(name));
        }
      }
    }
  }
  return join(words, " ");
}

// Calls `each` for the program and all its subcommands, parents first.
template <typename Each>
void walk(const CLI::App& app, const Each& each) {
  each(app);
  for (const CLI::App* sub : subcommands(app)) walk(*sub, each);
}

void print_bash(const CLI::App& app) {
  fmt::print(
      "# bash completion of rubato: source it, or install it as "
      "/usr/share/bash-completion/completions/rubato\n"
      "_rubato() {{\n"
      "  local current=${{COMP_WORDS[COMP_CWORD]}} path=rubato word words i\n"
      "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
      "    word=${{COMP_WORDS[i]}}\n"
      "    [[ $word == -- ]] && {{ COMPREPLY=($(compgen -f -- \"$current\")); return; }}\n"
      "    case \"$path $word\" in\n");
  walk(app, [](const CLI::App& one) {
    if (one.get_parent() != nullptr)
      fmt::print("      '{}') path+=\" $word\" ;;\n", full_name(one));
  });
  fmt::print("    esac\n  done\n  case $path in\n");
  walk(app, [](const CLI::App& one) {
    fmt::print("    '{}') words='{}' ;;\n", full_name(one), words_after(one));
  });
  fmt::print(
      "  esac\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
      "  ((${{#COMPREPLY[@]}})) || COMPREPLY=($(compgen -f -- \"$current\"))\n"
      "}}\n"
      "complete -o filenames -F _rubato rubato\n");
}

void print_zsh(const CLI::App& app) {
  // Not `path`: zsh ties that name to $PATH.
  fmt::print(
      "#compdef rubato\n"
      "# zsh completion of rubato: put it as _rubato into a folder of $fpath.\n"
      "local at=rubato word i\n"
      "for ((i = 2; i < CURRENT; i++)); do\n"
      "  word=$words[i]\n"
      "  [[ $word == -- ]] && {{ _files; return }}\n"
      "  case \"$at $word\" in\n");
  walk(app, [](const CLI::App& one) {
    if (one.get_parent() != nullptr) fmt::print("    '{}') at+=\" $word\" ;;\n", full_name(one));
  });
  fmt::print("  esac\ndone\nlocal -a choices\ncase $at in\n");
  walk(app, [](const CLI::App& one) {
    fmt::print("  '{}') choices=({}) ;;\n", full_name(one), words_after(one));
  });
  fmt::print("esac\n_alternative \"words:word:($choices)\" 'files:file:_files'\n");
}

std::string fish_quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

void print_fish(const CLI::App& app) {
  fmt::print("# fish completion of rubato: put it into ~/.config/fish/completions/rubato.fish\n");
  walk(app, [&](const CLI::App& one) {
    std::string condition = "__fish_use_subcommand";
    if (one.get_parent() != nullptr) {
      condition = "__fish_seen_subcommand_from " + one.get_name();
      if (one.get_parent()->get_parent() != nullptr) {
        condition += "; and __fish_seen_subcommand_from " + one.get_parent()->get_name();
      }
    }
    for (const CLI::App* sub : subcommands(one)) {
      fmt::print("complete -c rubato -n {} -a {} -d {}\n", fish_quoted(condition), sub->get_name(),
                 fish_quoted(sub->get_description()));
    }
    for (const CLI::Option* option : options_of(one, false)) {
      std::string line = fmt::format("complete -c rubato -n {}", fish_quoted(condition));
      for (const std::string& name : option->get_snames()) line += " -s " + name;
      for (const std::string& name : option->get_lnames()) line += " -l " + name;
      if (takes_value(*option)) line += " -r";
      fmt::print("{} -d {}\n", line, fish_quoted(option->get_description()));
    }
  });
}

}  // namespace

void add_describe_commands(CLI::App& app, Command& chosen) {
  CLI::App* completion = app.add_subcommand("completion", "Print the completion of a shell");
  auto shell = std::make_shared<std::string>();
  completion->add_option("shell", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  completion->callback([&app, &chosen, shell] {
    chosen = [&app, shell] {
      if (*shell == "bash") {
        print_bash(app);
      } else if (*shell == "zsh") {
        print_zsh(app);
      } else {
        print_fish(app);
      }
      return 0;
    };
  });
  CLI::App* manpage = app.add_subcommand("manpage", "Print the manual page rubato(1)");
  auto markdown = std::make_shared<bool>(false);
  manpage->add_flag("--markdown", *markdown, "As the command part of docs/cli.md");
  manpage->callback([&app, &chosen, markdown] {
    chosen = [&app, markdown] {
      if (*markdown) {
        print_markdown(app);
      } else {
        print_manpage(app);
      }
      return 0;
    };
  });
}

}  // namespace rubato::cli
