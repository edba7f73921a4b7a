#!/usr/bin/env bash
# Completions for zsh and fish, read by those shells. (That of bash: daemon_test.sh.) Shells that are
# not installed are named; without any the test counts as skipped.
source "$RUBATO_SOURCE/tests/cli/helpers.sh"
checked=0 # shells

if command -v zsh >/dev/null; then
  checked=$((checked + 1))
  mkdir "$work/zsh"
  "$RUBATO" completion zsh >"$work/zsh/_rubato"
  check "the zsh completion is valid zsh" -- zsh -fn "$work/zsh/_rubato"
  # compinit finds it in fpath by its first line, and it can be loaded.
  check "the zsh completion begins with #compdef" -- grep -q '^#compdef rubato' "$work/zsh/_rubato"
  check "zsh loads it" -- zsh -fc "fpath=($work/zsh \$fpath); autoload -Uz _rubato && autoload +X _rubato"
else
  echo "zsh is not installed: not checked"
fi

if command -v fish >/dev/null; then
  checked=$((checked + 1))
  "$RUBATO" completion fish >"$work/rubato.fish"
  export HOME=$work XDG_CONFIG_HOME=$work XDG_DATA_HOME=$work
  completed() { # completed LINE WORD: the line is completed with this word, among others
    fish --no-config -c "source $work/rubato.fish; complete -C '$1'" | cut -f1 | grep -qxF -- "$2"
  }
  check "the fish completion is valid fish" -- fish --no-config -n "$work/rubato.fish"
  check "fish completes subcommands" -- completed "rubato sub" submit
  check "fish completes subcommands of subcommands" -- completed "rubato reserve re" release
  check "fish completes options" -- completed "rubato submit --prio" --priority
else
  echo "fish is not installed: not checked"
fi

[ "$checked" -gt 0 ] || exit 77
echo "$checked of 2 shells, $failed failed"
[ "$failed" = 0 ]
