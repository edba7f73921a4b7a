// rubato completion, manpage: generated from the parser's table, like --help.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/text.h"
#include "commands.h"
#include "describe/manual_page.h"
#include "describe/parser_table.h"

namespace rubato::cli {

namespace {

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
  // The variable is not called `path`, because zsh ties that name to $PATH.
  fmt::print(
      "#compdef rubato\n"
      "# zsh completion of rubato: install it as _rubato in a folder of $fpath.\n"
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
  fmt::print("# fish completion of rubato: install it as ~/.config/fish/completions/rubato.fish\n");
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

ManualPage manual_page() {
  return {.section = 1,
          .what = "elastic deep-learning training",
          .synopsis = "[\\fIOPTIONS\\fR] \\fICOMMAND\\fR ...",
          .sections = {
              {"EXIT STATUS",
               "0: success. 1: failure; standard error says why. 2: possible, but not now (plan)."},
              {"FILES",
               ".TP\n\\fI$RUBATO_STATE\\fR, \\fI~/.local/state/rubato\\fR, "
               "\\fI/var/lib/rubato\\fR\nState folder of the local daemon. If no server is given, "
               "the address (server.url) and the administrator's token (admin.token) are read "
               "from there."},
              {"SEE ALSO", "rubatod(8)"}}};
}

}  // namespace

void add_describe_commands(CLI::App& app, Command& chosen) {
  CLI::App* completion = app.add_subcommand("completion", "Print a shell's completion script");
  auto shell = std::make_shared<std::string>();
  completion->add_option("shell", *shell, "bash, zsh or fish")
      ->required()
      ->check(one_of({"bash", "zsh", "fish"}));
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
  manpage->add_flag("--markdown", *markdown, "As Markdown, the commands in docs/cli.md");
  manpage->callback([&app, &chosen, markdown] {
    chosen = [&app, markdown] {
      if (*markdown) {
        print_markdown(app);
      } else {
        print_manual_page(app, manual_page());
      }
      return 0;
    };
  });
}

}  // namespace rubato::cli
