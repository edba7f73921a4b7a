#!/usr/bin/env bash
# The commands of docs/slurm.md with a real Slurm of four nodes, which is started here and removed: pilots grow with the queue and go away,
# one is preempted, and a job outlives the time limits of its pilots with its bits and no step lost.
source "$RUBATO_SOURCE/tests/cli/helpers.sh" || exit 1
needs RUBATOD RUBATO_TOY
for program in slurmctld slurmd munged sbatch python3; do
  command -v "$program" >/dev/null || { echo "$program is not installed: nothing was tested"; exit 77; }
done
[ "$(id -u)" = 0 ] || { echo "only root can start a Slurm of its own: nothing was tested"; exit 77; }
PATH=$(dirname "$RUBATO"):$PATH
export HOME=$work/home RUBATO_ISOLATION=none TMPDIR=$work/tmp
mkdir -p "$HOME" "$TMPDIR" "$work/project"

# --- A Slurm
readonly nodes=4
mapfile -t ports < <(python3 - $((nodes + 3)) <<'PY'
import socket, sys
ports = [socket.socket() for _ in range(int(sys.argv[1]))]
for one in ports: one.bind(("127.0.0.1", 0))
for one in ports: print(one.getsockname()[1])
PY
)
slurm=$work/slurm
mkdir -p "$slurm"/{state,spool,log,run}
chmod 755 "$work" "$slurm" "$slurm/run"
head -c 1024 /dev/urandom >"$slurm/munge.key"
chmod 400 "$slurm/munge.key"
{
  cat <<CONF
ClusterName=test
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=${ports[0]}
SlurmdPort=${ports[1]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$slurm/run/munge.sock
CryptoType=crypto/munge
StateSaveLocation=$slurm/state
SlurmdSpoolDir=$slurm/spool/%n
SlurmctldPidFile=$slurm/run/slurmctld.pid
SlurmdPidFile=$slurm/run/slurmd.%n.pid
SlurmctldLogFile=$slurm/log/slurmctld.log
SlurmdLogFile=$slurm/log/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=2,sched_min_interval=100000
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
KillWait=5
MinJobAge=30
InactiveLimit=0
ReturnToService=2
SlurmctldTimeout=30
SlurmdTimeout=30
SlurmdParameters=config_overrides
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
JobCompType=jobcomp/none
PartitionName=low Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=CANCEL GraceTime=20
PartitionName=high Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
CONF
  for i in $(seq $nodes); do
    echo "NodeName=s$i NodeHostname=localhost NodeAddr=127.0.0.1 Port=${ports[$((i + 2))]} CPUs=4 Boards=1 SocketsPerBoard=1 CoresPerSocket=4 ThreadsPerCore=1 RealMemory=1000"
  done
} >"$slurm/slurm.conf"
export SLURM_CONF=$slurm/slurm.conf
munged --force --key-file="$slurm/munge.key" --socket="$slurm/run/munge.sock" --pid-file="$slurm/run/munged.pid" \
  --log-file="$slurm/log/munged.log" --seed-file="$slurm/run/munged.seed" 2>"$work/out"
until_true test -S "$slurm/run/munge.sock"
end_slurm() {
  local file
  scancel --name=pilot,rival 2>/dev/null
  for file in "$slurm"/run/slurmd.*.pid "$slurm/run/slurmctld.pid" "$slurm/run/munged.pid"; do
    [ -s "$file" ] && kill "$(cat "$file")" 2>/dev/null
  done
  # A slurmd that could not register ignores SIGTERM for long.
  for file in "$slurm"/run/slurmd.*.pid; do
    [ -s "$file" ] && { sleep 0.2; kill -9 "$(cat "$file")" 2>/dev/null; }
  done
}
trap 'end_slurm; end_everything' EXIT
slurmctld -f "$SLURM_CONF"
for i in $(seq $nodes); do slurmd -f "$SLURM_CONF" -N "s$i"; done
idle_nodes() { sinfo --noheader --partition=low --states=idle --format=%D | head -1; }
all_idle() { [ "$(idle_nodes)" = $nodes ]; }
until_true all_idle
check "Slurm has four idle nodes" -- all_idle

# --- The five lines of the document
mapfile -t lines < <(sed -n '/^<!-- slurm:/,/^<!-- \/slurm/p' "$RUBATO_SOURCE/docs/slurm.md" | sed -n 's/^login\$  //p')
check "the document has five commands" -- test "${#lines[@]}" = 5
here() { sed "s/0\.0\.0\.0:7117/127.0.0.1:${ports[2]}/; s/login:7117/127.0.0.1:${ports[2]}/" <<<"${1% &}"; }
# This Slurm has no GPUs, its jobs last a minute at least, and nobody wants to wait for hours.
small() { sed 's/--devices 4 --gres gpu:4 --time 4h/--devices 2 --cpu --time 1m --leave-before 25s --successor 25s --idle 6s --every 1s --sbatch=--exclusive/' <<<"$1"; }
begin() { # begin VARIABLE COMMAND
  # shellcheck disable=SC2086 # words of a command line
  $2 >>"$work/log" 2>&1 &
  printf -v "$1" %s "$!"
  launchers+=("$!")
}
begin head "$(here "${lines[0]}")"
until_true test -e "$RUBATO_STATE/join.token"
until_true "$RUBATO" nodes
begin pilots "$(small "$(here "${lines[1]}")")"
running() { squeue --noheader --name=pilot --states=RUNNING --format=%i | wc -l; }
there() { squeue --noheader --name=pilot --format=%i | wc -l; }
has() { [ "$("$1")" "$2" "$3" ]; }

# --- Pilots grow with the queue and go away
checks=$((checks + 1))
[ "$(there)" = 0 ] || failure "there are pilots without jobs"
cp "$RUBATO_TOY" "$work/project/toy"
cd "$work/project" || exit 1
printf '#!/bin/sh\nexec ./toy --steps 200 --compute-us 100000\n' >train
chmod +x train
check "a job is taken" -- bash -c "${lines[2]/submit/submit --logical-workers 16 --name wide}"
until_true has running = 4
until_true holds "len(j['held_nodes']) >= 2" status wide
check "squeue shows them" -- bash -c "${lines[3]} | grep -q pilot"

# --- A pilot is preempted: the others lose less than a step
views_before=$(json_of status wide && field "$work/json" "j['resizes']")
sbatch --parsable --partition=high --job-name=rival --nodes=1 --exclusive --time=1 --chdir=/tmp --output=/dev/null --wrap 'sleep 15' >"$work/rival"
until_true has running -lt 4
# A successor finds no free node.
told_why() { "$RUBATO" why wide | grep -q 'wait.* in Slurm'; }
until_true told_why
exits 0 -- wait wide
"$RUBATO" events wide --json >"$work/events"
check "no worker was lost" -- python3 - "$work/events" <<'PY'
import json, sys
views = [e["body"] for e in map(json.loads, open(sys.argv[1])) if e["type"] == "view" and e["body"].get("type") == "view"]
assert any(v["cause"] in ("leave", "migrate") for v in views), "nobody left"
assert all(v["cause"] in ("start", "join", "leave", "migrate") and v["steps_redone"] == 0 for v in views), views
PY
same_bits() { # same_bits JOB LOGICAL STEPS
  json_of status "$1" && cp "$work/json" "$work/$1.json"
  "$RUBATO" run --workers 1 --logical "$2" --dir "$work/alone-$1" -- ./toy --steps "$3" >"$work/out" 2>&1
  check "$1 has the bits of one worker" -- test "$(field "$work/$1.json" "j['result']['state_sha256']")" = "$(field "$work/alone-$1/result.json" "j['state_sha256']")"
}
same_bits wide 16 200
check "it was resized" -- test "$(field "$work/wide.json" "j['resizes']")" -ge "${views_before:-0}"
until_true has there = 0
until_true holds "j['nodes'] == []" nodes

# --- Five times the time limit
readonly limits=${RUBATO_SLURM_LIMITS:-2} # make slurm: 5
steps=$((limits * 60 * 5))
printf '#!/bin/sh\nexec ./toy --steps %s --compute-us 100000\n' "$steps" >train
exits 0 -- submit --upload --devices 1..4 --logical-workers 8 --name long -- ./train
exits 0 -- wait long
same_bits long 8 "$steps"
"$RUBATO" events long --json >"$work/events"
check "it lasted longer than $limits limits and lost no step" -- python3 - "$work/events" "$limits" "$work/long.json" <<'PY'
import json, sys
events = list(map(json.loads, open(sys.argv[1])))
views = [e["body"] for e in events if e["type"] == "view" and e["body"].get("type") == "view"]
job = json.load(open(sys.argv[3]))
assert job["ended_at"] - job["started_at"] > 60 * int(sys.argv[2]), job["ended_at"] - job["started_at"]
assert all(v["cause"] in ("start", "join", "leave", "migrate") and v["steps_redone"] == 0 for v in views), views
nodes = {n["node"] for e in events if e["type"] == "held" for n in e["body"].get("nodes", [])}
print(len(nodes), "pilots,", len(views), "views, longest stall", max(v["stall_ms"] for v in views), "ms")
PY
sed -n 's/^/long: /p' "$work/check"

# --- The end
check "the pilots leave" -- bash -c "$(here "${lines[4]}") --every 1s --join-token-file $RUBATO_STATE/join.token"
until_true all_idle
check "Slurm has nothing left" -- test -z "$(squeue --noheader --name=pilot)"
check "no folder of a pilot is left" -- test -z "$(find "$TMPDIR" -name 'rubato-pilot-*')"
check "no process of a pilot is left" -- bash -c "! pgrep -f '$TMPDIR/[r]ubato-pilot'"
# shellcheck disable=SC2154 # begin sets them
kill "$pilots" "$head"
wait "$pilots" "$head" 2>/dev/null
finish
