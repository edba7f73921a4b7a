#!/usr/bin/env bash
# rubato top in a pseudo-terminal: it draws, fits the window, obeys its keys, restores the terminal
# however it ends, and survives a restart of the daemon.
set -uo pipefail
[ -n "${RUBATO_TOY:-}" ] && [ -n "${RUBATOD:-}" ] || { echo "RUBATO_TOY or RUBATOD is not set"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export RUBATO_STATE=$work/state RUBATO_HOME=$work/home TERM=xterm
unset RUBATO_SERVER RUBATO_TOKEN_FILE RUBATO_CA_FILE NO_COLOR
python3 "$RUBATO_SOURCE/tests/cli/top_in_terminal.py"
