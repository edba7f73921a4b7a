#!/usr/bin/env bash
# Runs as root in a booted Debian 12 with the packages in /packages (scripts/check-systemd).
set -uo pipefail
failed=0
checks=0
check() { # check WHAT -- COMMAND: the command must succeed
  local what=$1
  shift 2
  checks=$((checks + 1))
  if "$@" >/tmp/check.log 2>&1; then
    echo "ok: $what"
    return
  fi
  echo "FAILED: $what: $*"
  tail -15 /tmp/check.log | sed 's/^/    /'
  failed=$((failed + 1))
}
until_true() { # at most ten minutes
  local end=$((SECONDS + 600))
  until "$@" >/dev/null 2>&1; do
    [ "$SECONDS" -lt "$end" ] || return 1
    sleep 0.1
  done
}
examples=/usr/libexec/rubato/examples
json() { python3 -c "import json,sys; d=json.load(sys.stdin); print($1)"; }
main_pid() { systemctl show -p MainPID --value rubatod; }
workers() {
  local process
  for process in /proc/[0-9]*; do
    case $(readlink "$process/exe" 2>/dev/null) in "$examples"/*) echo "${process#/proc/}" ;; esac
  done
}
step() { rubato status 1 --json | json 'd["progress"].get("step", 0)'; }
beyond() { [ "$(step)" -gt "$1" ]; }
answers() { rubato cluster; }
phase_is() { [ "$(rubato status "$1" --json | json 'd["phase"]')" = "$2" ]; }
no_workers() { [ -z "$(workers)" ]; }

export DEBIAN_FRONTEND=noninteractive
check "apt installs the packages and what they need" -- bash -c \
  'apt-get -qq update && apt-get -qq install -y --no-install-recommends /packages/rubato_*.deb /packages/rubato-examples_*.deb'
check "the unit is enabled" -- systemctl is-enabled rubatod
sed -i 's/^RUBATOD_OPTIONS=.*/RUBATOD_OPTIONS="--cpu-slots 2"/' /etc/default/rubato
check "systemd-analyze accepts the unit" -- systemd-analyze verify --man=no rubatod.service
systemctl reset-failed rubatod
check "the daemon starts" -- systemctl restart rubatod
check "root reaches it without options" -- until_true answers
check "it runs as its own user" -- test "$(ps -o user= -p "$(main_pid)" 2>/dev/null || stat -c %U "/proc/$(main_pid)")" = rubato
check "its state is private" -- test "$(stat -c '%U %a' /var/lib/rubato)" = "rubato 700"
check "the administrator's token is private" -- test "$(stat -c '%U %a' /var/lib/rubato/admin.token)" = "rubato 600"

rubato submit --dir /var/lib/rubato --logical-workers 4 --devices 1..2 -- $examples/train_cnn --steps 6000 >/dev/null
check "a job trains" -- until_true beyond 20
workers_before=$(workers)
daemon_before=$(main_pid)
check "systemctl restart" -- systemctl restart rubatod
check "it answers again" -- until_true answers
check "a new daemon runs" -- test "$(main_pid)" != "$daemon_before"
check "the same workers keep training" -- test -n "$(comm -12 <(echo "$workers_before" | sort) <(workers | sort))"
check "and make progress" -- until_true beyond "$(($(step) + 50))"
kill -9 "$(main_pid)"
daemon_before=$(main_pid)
check "a killed daemon is restarted automatically" -- until_true answers
check "it still knows the job" -- phase_is 1 running
systemctl stop rubatod
check "jobs keep training while the daemon is stopped" -- test -n "$(workers)"
check "stop-jobs checkpoints them" -- su -s /bin/sh rubato -c 'rubatod stop-jobs --state /var/lib/rubato'
check "no worker is left" -- until_true no_workers
check "the log replays" -- su -s /bin/sh rubato -c 'rubatod check --state /var/lib/rubato'
systemctl start rubatod
check "the job continues and finishes" -- until_true phase_is 1 finished
first=$(rubato status 1 --json | json 'd["result"]["state_sha256"]')
rubato submit --dir /var/lib/rubato --logical-workers 4 --devices 1 -- $examples/train_cnn --steps 6000 >/dev/null
check "the same job finishes undisturbed" -- until_true phase_is 2 finished
check "with the same bits" -- test "$first" = "$(rubato status 2 --json | json 'd["result"]["state_sha256"]')"
check "the daemon logs to the journal" -- bash -c 'journalctl -u rubatod | grep -q listening'
systemd-analyze security rubatod 2>/dev/null | tail -1
check "apt purge removes everything" -- apt-get -qq purge -y rubato rubato-examples
check "including the state" -- test ! -e /var/lib/rubato
check "the daemon is gone" -- bash -c '! systemctl is-active rubatod'
echo "$((checks - failed)) passed, $failed failed"
