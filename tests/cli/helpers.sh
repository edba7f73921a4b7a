# What the tests of the program share. A test sources this file first:
#   $work                  a folder of its own, removed at the end; state and names of jobs lie in it
#   check, exits, refused  count what they check
#   finish                 prints the sum and ends with 0 if nothing failed
# Every wait is for a condition, at most five minutes.
set -uo pipefail
work=$(mktemp -d)
export RUBATO_STATE=$work/state
unset RUBATO_HOME RUBATO_SERVER RUBATO_TOKEN_FILE RUBATO_CA_FILE
failed=0
checks=0
daemon=
launchers=()

# needs NAME...: without these variables there is nothing to test.
needs() {
  local name
  for name in "$@"; do
    [ -n "${!name:-}" ] || { echo "$name is not set: nothing to test"; exit 77; }
  done
}

failure() { # failure TEXT [FILE...]: the files show what was printed
  echo "FAILED: $1"
  shift
  [ $# = 0 ] || sed 's/^/    /' "$@" | cut -c1-200 | tail -8
  failed=$((failed + 1))
}
finish() {
  echo "$((checks - failed)) passed, $failed failed"
  [ "$failed" = 0 ]
}

check() { # check WHAT -- COMMAND: the command must succeed
  local what=$1
  shift 2
  checks=$((checks + 1))
  "$@" >"$work/check" 2>&1 || failure "$what: $*" "$work/check"
}
# exits CODE WORDS... -- ARGUMENTS: exit code, all words on standard output or error, and nothing on standard output with code 1.
exits() {
  local code=$1 words=() word problem="" got
  shift
  while [ "$1" != -- ]; do words+=("$1"); shift; done
  shift
  checks=$((checks + 1))
  "$RUBATO" "$@" >"$work/stdout" 2>"$work/stderr"
  got=$?
  [ "$got" = "$code" ] || problem="exit code $got, expected $code"
  for word in "${words[@]}"; do
    grep -qF -- "$word" "$work/stdout" "$work/stderr" || problem="$problem; no '$word'"
  done
  [ "$code" != 1 ] || [ ! -s "$work/stdout" ] || problem="$problem; printed on standard output"
  [ -z "$problem" ] || failure "rubato $*: $problem" "$work/stdout" "$work/stderr"
}
refused() { exits 1 "$@"; }

until_true() {
  local end=$((SECONDS + 300))
  until "$@" >/dev/null 2>&1; do
    [ "$SECONDS" -lt "$end" ] || { failure "never true: $*"; return 1; }
    sleep 0.05
  done
}

# --- What commands print as JSON
field() { python3 -c "import json,sys; j=json.load(open(sys.argv[1])); print(eval(sys.argv[2]))" "$1" "$2"; }
json_of() { "$RUBATO" "$@" --json >"$work/json"; }
holds() { # holds EXPRESSION COMMAND...: of j, what the command prints
  local expression=$1
  shift
  json_of "$@" && [ "$(field "$work/json" "$expression")" = True ]
}

# --- A daemon
start_daemon() { # start_daemon SLOTS
  rm -f "$RUBATO_STATE/server.url" # a daemon that was killed leaves it
  "$RUBATOD" --isolation none --cpu-slots "$1" --listen 127.0.0.1:0 >>"$work/log" 2>&1 &
  daemon=$!
  until_true test -e "$RUBATO_STATE/server.url"
}
stop_daemon() {
  [ -n "$daemon" ] || return 0
  kill "$daemon" && wait "$daemon"
  daemon=
}
phase_is() { holds "j['phase'] == '$2'" status "$1"; }
nothing_held() { holds "j['held'] == 0" cluster; }

end_everything() {
  # A background command that gets a signal before it is executed is still this shell, with this trap.
  [ "$BASHPID" = "$$" ] || return 0
  local pid
  for pid in "${launchers[@]}"; do kill -9 "$pid" 2>/dev/null; done # their workers are tied to them
  stop_daemon
  [ -z "${RUBATOD:-}" ] || [ ! -e "$RUBATO_STATE/rubato.db" ] || "$RUBATOD" stop-jobs --patience 0 >/dev/null 2>&1
  wait
  rm -rf "$work"
}
trap end_everything EXIT
