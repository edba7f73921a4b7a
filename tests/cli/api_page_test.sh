#!/usr/bin/env bash
# The commands at the top of docs/api.md work as printed, and what people get wrong over HTTP and TLS
# is answered with what to do.
source "$RUBATO_SOURCE/tests/cli/helpers.sh"
needs RUBATOD RUBATO_TOY
command -v curl >/dev/null || { echo "no curl: nothing to test"; exit 77; }

start_daemon 2
# Of the first block, all but the last command, which follows events for ever.
awk '/^```/ {n++} n == 1 && /^\$ / {print substr($0, 3)}' "$RUBATO_SOURCE/docs/api.md" | sed '$d' >"$work/commands.sh"
check "the page has commands" -- test "$(wc -l <"$work/commands.sh")" = 3
(set -e; source "$work/commands.sh") >"$work/answers" 2>&1
check "they succeed" -- test "$?" = 0
check "the job was accepted" -- grep -q '"id":"j1"' "$work/answers"
check "its reason was told" -- grep -q '"remedy"' "$work/answers"
check "nothing was refused" -- sh -c '! grep -q "\"error\"" "$1"' - "$work/answers"
exits 0 -- cancel j1

# --- A slash in a name does not lead to another path
exits 1 "there is no job j1/why" -- status j1/why
exits 0 "next: rubato status" -- submit --name timed --devices 2 -- "$RUBATO_TOY" --steps 100000000 --compute-us 5000
until_true phase_is timed running

# --- Device time includes the current run
until_true holds "j['device_s'] > 0" status timed
exits 0 "device time" -- status timed
exits 0 "cancelled" -- cancel timed
until_true nothing_held

# --- A queued job has a reason in the table
exits 0 -- reserve 2 --for 10m
exits 0 "next: rubato status" -- submit --name waits --devices 1 -- "$RUBATO_TOY"
reason_shown() { "$RUBATO" queue 2>/dev/null | awk '$2 == "waits" {exit $NF == "-" || NF < 8}'; }
until_true reason_shown
exits 2 "cannot be placed now" "waits for 1 device: 0 of 2 free, 2 reserved" -- plan --devices 1 -- "$RUBATO_TOY"
exits 1 "all 2 devices are reserved already" -- reserve 1 --for 1m
exits 0 "cancelled" -- cancel waits

# --- Tenants
exits 1 "weight" "greater than 0" -- tenants set x --weight -1
stop_daemon

# --- Options of rubatod
daemon_says() { # daemon_says WORDS -- ARGUMENTS
  local words=$1
  shift 2
  checks=$((checks + 1))
  "$RUBATOD" "$@" >"$work/stdout" 2>"$work/stderr"
  [ $? = 1 ] && grep -qF -- "$words" "$work/stderr" || failure "rubatod $*: no '$words'" "$work/stdout" "$work/stderr"
}
daemon_says "unknown option '--lsten' (did you mean '--listen'?); see 'rubatod --help'" -- --lsten=1
daemon_says "--cpu-slots: 'x' is not a number" -- --cpu-slots x
daemon_says "'0' is not a number from 1 to 4096" -- --cpu-slots 0
daemon_says "unknown command 'chek'; did you mean 'check'?" -- chek
daemon_says "--state needs a value" -- --state
daemon_says "--node a b: the name of a node may have only letters" -- --isolation none --cpu-slots 1 --node "a b"
daemon_says "--node-label: 'x'" -- --isolation none --cpu-slots 1 --node-label x

# --- TLS: the address in server.url can be used, and refusals say what is wrong
make_certificate() { # make_certificate NAME SUBJECT-ALT-NAME
  openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=test -addext "subjectAltName=$2" \
    -keyout "$work/$1.key" -out "$work/$1.pem" 2>/dev/null
}
if command -v openssl >/dev/null; then
  make_certificate local DNS:localhost
  make_certificate other DNS:elsewhere.example
  start_tls() { # start_tls NAME HOST
    rm -f "$RUBATO_STATE/server.url"
    "$RUBATOD" --cpu-slots 2 --listen "$2:0" --tls-cert "$work/$1.pem" --tls-key "$work/$1.key" >>"$work/log" 2>&1 &
    daemon=$!
    until_true test -e "$RUBATO_STATE/server.url"
  }
  start_tls local 0.0.0.0
  check "the address has a name of the certificate" -- grep -q '^https://localhost:' "$RUBATO_STATE/server.url"
  exits 0 -- --ca-file "$work/local.pem" queue --all
  exits 1 "certificate is not trusted (self-signed certificate)" "--ca-file" -- queue
  stop_daemon
  start_tls other 127.0.0.1
  exits 1 "certificate is for another name than" "--server https://NAME:PORT" -- --ca-file "$work/other.pem" queue
  stop_daemon
  daemon_says "$work/other.key is not the key of the certificate $work/local.pem" -- --cpu-slots 2 --listen 127.0.0.1:0 \
    --tls-cert "$work/local.pem" --tls-key "$work/other.key"
  daemon_says "cannot read $work/none.key: No such file" -- --cpu-slots 2 --listen 127.0.0.1:0 \
    --tls-cert "$work/local.pem" --tls-key "$work/none.key"
fi
finish
