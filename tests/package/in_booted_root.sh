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
first_worker() { workers | sed -n 1p; } # reads to the end
step_of() { rubato status "$1" --json | json 'd["progress"].get("step", 0)'; }
step() { step_of 1; }
beyond() { [ "$(step)" -gt "$1" ]; }
job_beyond() { [ "$(step_of "$1")" -gt "$2" ]; }
answers() { rubato cluster; }
phase_is() { [ "$(rubato status "$1" --json | json 'd["phase"]')" = "$2" ]; }
no_workers() { [ -z "$(workers)" ]; }
as() { # as USER COMMAND...
  local user=$1
  shift
  (cd "/home/$user" && runuser -u "$user" -- env HOME="/home/$user" "$@")
}
log_has() { as "$1" rubato logs "$2" | grep -q -- "$3"; } # log_has USER JOB TEXT
number_of() { rubato status "$1" --json | json 'd["id"][1:]'; }
is_gone() { [ ! -e "/proc/$1" ]; }

if [ -d /sys/fs/cgroup/memory ]; then # see scripts/check-systemd
  for controller in memory cpu cpuacct pids; do mount -o remount,bind,rw "/sys/fs/cgroup/$controller"; done
  systemctl daemon-reexec
fi
export DEBIAN_FRONTEND=noninteractive
check "apt installs the packages and what they need" -- bash -c \
  'apt-get -qq update && apt-get -qq install -y --no-install-recommends /packages/rubato_*.deb /packages/rubato-examples_*.deb'
check "the unit is enabled" -- systemctl is-enabled rubatod
sed -i 's/^RUBATOD_OPTIONS=.*/RUBATOD_OPTIONS="--cpu-slots 2"/' /etc/default/rubato
check "systemd-analyze accepts the unit" -- systemd-analyze verify --man=no rubatod.service
systemctl reset-failed rubatod
check "the daemon starts" -- systemctl restart rubatod
check "root reaches it without options" -- until_true answers
check "it may change users, give files away and end processes, nothing else" -- grep -q '^CapEff:\s*00000000000000e1$' "/proc/$(main_pid)/status"
check "its state can only be passed" -- test "$(stat -c '%U %a' /var/lib/rubato)" = "root 711"
check "the administrator's token is private" -- test "$(stat -c '%U %a' /var/lib/rubato/admin.token)" = "root 600"
for user in alice bob carol; do useradd --create-home "$user"; done
chmod 700 /home/*
check "a job without a user is refused" -- bash -c "rubato submit -- /bin/true 2>&1 | grep -q 'tenants set default --user'"
check "a user without a tenant is refused" -- bash -c "cd /; runuser -u carol -- env HOME=/home/carol rubato queue 2>&1 | grep -q 'tenants set carol --user carol'"
for user in alice bob; do rubato tenants set $user --user $user >/dev/null 2>&1; done
check "a user with a tenant needs no token" -- as alice rubato queue
for user in alice carol; do # carol has no tenant
  check "rubato doctor finds nothing wrong for $user" -- bash -c "cd / && runuser -u $user -- env HOME=/home/$user rubato doctor | tee /tmp/doctor; exit \${PIPESTATUS[0]}"
  tail -1 /tmp/doctor | sed 's/^/    /'
  check "and sees the daemon" -- grep -q '^ok .*daemon' /tmp/doctor
done

as alice rubato submit --logical-workers 4 --devices 1..2 -- $examples/train_cnn --steps 2000 >/dev/null
check "a job trains" -- until_true beyond 20
workers_before=$(workers)
daemon_before=$(main_pid)
check "systemctl restart" -- systemctl restart rubatod
check "it answers again" -- until_true answers
check "a new daemon runs" -- test "$(main_pid)" != "$daemon_before"
check "they run as alice" -- test "$(stat -c %U "/proc/$(first_worker)")" = alice
check "in a service of their own" -- grep -q '/rubato.slice/rubato-j1-' "/proc/$(first_worker)/cgroup"
check "the same workers keep training" -- test -n "$(comm -12 <(echo "$workers_before" | sort) <(workers | sort))"
check "and make progress" -- until_true beyond "$(($(step) + 50))"
kill -9 "$(main_pid)"
daemon_before=$(main_pid)
check "a killed daemon is restarted automatically" -- until_true answers
check "it still knows the job" -- phase_is 1 running
systemctl stop rubatod
check "jobs keep training while the daemon is stopped" -- test -n "$(workers)"
check "stop-jobs checkpoints them" -- rubatod stop-jobs --state /var/lib/rubato
check "no worker is left" -- until_true no_workers
check "the log replays" -- rubatod check --state /var/lib/rubato
systemctl start rubatod
check "the job continues and finishes" -- until_true phase_is 1 finished
first=$(rubato status 1 --json | json 'd["result"]["state_sha256"]')
as alice rubato submit --logical-workers 4 --devices 1 -- $examples/train_cnn --steps 2000 >/dev/null
check "the same job finishes undisturbed" -- until_true phase_is 2 finished
check "with the same bits" -- test "$first" = "$(rubato status 2 --json | json 'd["result"]["state_sha256"]')"

# --- Two users share the machine
cat >/usr/local/bin/escape <<'PYTHON'
#!/usr/bin/python3
import os, sys
if os.fork():
    os.wait()
    sys.exit(0)
os.setsid()
pid = os.fork()
if pid:
    with open(sys.argv[1] + ".new", "w") as file:
        file.write(f"{pid}\n")
    os.rename(sys.argv[1] + ".new", sys.argv[1])
    os._exit(0)
os.closerange(0, 4096)
os.execve("/bin/sleep", ["sleep", "100000"], {})
PYTHON
cat >/usr/local/bin/busy <<'PYTHON'
#!/usr/bin/python3
import time
began = time.monotonic()
while time.monotonic() - began < 5:
    pass
print("too much:" if time.process_time() > 2.5 else "limited:", f"{time.process_time():.2f} s of 5 s")
PYTHON
cat >/usr/local/bin/spy <<'SHELL'
#!/bin/sh
# spy JOB WORKER: tries to read what is not its user's
for file in admin.token rubato.db rubato.db-wal "jobs/$1/supervise.json" "jobs/$1/supervisor.lock" "jobs/$1/logs/worker-0.log"; do
  if cat "/var/lib/rubato/$file" >/dev/null 2>&1; then echo "READ $file"; else echo "denied $file"; fi
done
for folder in /var/lib/rubato /var/lib/rubato/jobs "/var/lib/rubato/jobs/$1" /home/bob; do
  if ls "$folder" >/dev/null 2>&1; then echo "READ $folder"; else echo "denied $folder"; fi
done
if cat "/proc/$2/environ" >/dev/null 2>&1; then echo "READ environment"; else echo "denied environment"; fi
if kill -9 "$2" 2>/dev/null; then echo "KILLED"; else echo "denied kill"; fi
SHELL
cat >/usr/local/bin/group-says <<'SHELL'
#!/bin/sh
# group-says FILE...: the first of these files of the job's control group (v1 or v2)
for group in $(find /sys/fs/cgroup -type d -name 'rubato-j*.service' 2>/dev/null); do
  grep -qx "$PPID" "$group/cgroup.procs" || continue
  for file in "$@"; do
    if [ -r "$group/$file" ]; then cat "$group/$file" && exit; fi
  done
done
SHELL
chmod 755 /usr/local/bin/{escape,busy,spy,group-says}
# shellcheck disable=SC2016 # the job's shell expands it
as bob rubato submit --name target --devices 1 --env SECRET=hunter2 -- \
  sh -c 'escape /home/bob/escaped; exec "$0" --steps 100000000' $examples/train_mlp >/dev/null
check "bob's job runs and left a hidden process" -- until_true test -s /home/bob/escaped
hidden=$(cat /home/bob/escaped)
target=$(number_of target)
check "it lives" -- test -e "/proc/$hidden"
check "bob's job trains" -- until_true bash -c 'rubato status target --json | grep -q "\"step\": [1-9]"'
victim=$(first_worker)
# shellcheck disable=SC2016
as alice rubato submit --name spy --devices 1 -- sh -c 'spy "$1" "$2"; exec "$0" --steps 3' $examples/train_mlp "$target" "$victim" >/dev/null
check "alice's job finishes" -- until_true phase_is spy finished
check "it ran as alice" -- log_has alice spy 'denied admin.token'
as alice rubato logs spy | sed 's/^/    /'
check "it read nothing of bob's or the daemon's" -- bash -c '! runuser -u alice -- env HOME=/home/alice rubato logs spy | grep -E "READ|KILLED"'
check "all attempts were denied" -- test "$(as alice rubato logs spy | grep -c denied)" = 12
check "alice does not see bob's job" -- bash -c "! runuser -u alice -- env HOME=/home/alice rubato status j$target"
check "nor cancel it" -- bash -c "! runuser -u alice -- env HOME=/home/alice rubato cancel j$target"
# shellcheck disable=SC2016
as alice rubato submit --name hungry --devices 1 --memory 1GB -- \
  sh -c 'python3 -c "x = bytearray(2 << 30)"; echo "memory: $?"
         echo "most: $(group-says memory.peak memory.max_usage_in_bytes) bytes"; exec "$0" --steps 3' $examples/train_mlp >/dev/null
check "a job beyond its memory is ended there (1 GB; exit code 137)" -- until_true log_has alice hungry 'memory: 137'
check "and used no more" -- until_true log_has alice hungry 'most: [0-9]'
most=$(as alice rubato logs hungry | sed -n 's/.*most: \([0-9]*\) bytes/\1/p')
check "than it may ($most bytes)" -- test "$most" -le 1000000000
# shellcheck disable=SC2016
as alice rubato submit --name busy --devices 1 --cpus 0.25 -- sh -c 'busy; busy; group-says cpu.stat; echo "quota: $(group-says cpu.max cpu.cfs_quota_us)"; exec "$0" --steps 3' $examples/train_mlp >/dev/null
check "a job gets no more processors than it asked for" -- until_true log_has alice busy limited
check "a quarter of one" -- until_true log_has alice busy 'quota: 25000' # microseconds of 100000
as alice rubato logs busy | grep -E 'limited|too much|throttled|quota' | sed 's/^/    /' # a busy machine leaves it less
check "not even for a while" -- bash -c '! runuser -u alice -- env HOME=/home/alice rubato logs busy | grep -q "too much"'
check "bob's job was not disturbed" -- test -e "/proc/$victim"
check "its hidden process lives" -- test -e "/proc/$hidden"

# --- An upgrade while jobs run
daemon_before=$(main_pid)
target_step=$(step_of target)
check "apt upgrades the packages while jobs run" -- apt-get -qq install -y --no-install-recommends /packages/next/*.deb
check "to the new version ($(dpkg-query -W -f '${Version}' rubato))" -- bash -c "dpkg-query -W -f '\${Version}' rubato | grep -q next"
check "it answers again" -- until_true answers
check "another daemon runs ($daemon_before, then $(main_pid))" -- test "$(main_pid)" != "$daemon_before"
check "with the options of before" -- grep -q cpu-slots /etc/default/rubato
check "the same worker goes on" -- test -e "/proc/$victim"
check "and trains" -- until_true job_beyond target "$((target_step + 20))"
check "nothing was restarted" -- test "$(rubato status target --json | json 'd["restarts"]')" = 0
check "the hidden process lives" -- test -e "/proc/$hidden"

milliseconds() { echo $(($(date +%s%N) / 1000000)); }
began=$(milliseconds)
as bob rubato cancel target >/dev/null
until is_gone "$hidden" || [ "$(($(milliseconds) - began))" -gt 20000 ]; do sleep 0.01; done
took=$(($(milliseconds) - began))
check "the hidden process is gone within 2 s of cancel ($took ms)" -- test "$took" -le 2000
check "so is the worker" -- until_true is_gone "$victim"
no_services() { [ -z "$(systemctl list-units --plain --no-legend 'rubato-j*')" ]; }
check "no service of a job is left" -- until_true no_services
check "the daemon logs to the journal" -- bash -c 'journalctl -u rubatod | grep -q listening'
systemd-analyze security rubatod 2>/dev/null | tail -1
check "apt purge removes everything" -- apt-get -qq purge -y rubato rubato-examples
check "including the state" -- test ! -e /var/lib/rubato
check "the daemon is gone" -- bash -c '! systemctl is-active rubatod'
echo "$((checks - failed)) passed, $failed failed"
