#!/usr/bin/env bash
# `rubato doctor` on this machine, with one thing after another taken away: programs, /proc, /dev/shm, /sys/fs/cgroup and libraries
# (in mount namespaces), the network (in a network namespace), the port, the state folder, limits. RUBATO is the program, RUBATOD the
# daemon. What cannot be taken away here is named as SKIPPED; the unit tests take it from a machine made of tables.
set -uo pipefail
[ -n "${RUBATOD:-}" ] || { echo "RUBATOD is not set"; exit 77; }
work=$(mktemp -d)
unset RUBATO_SERVER RUBATO_TOKEN_FILE RUBATO_CA_FILE ETCDCTL_ENDPOINTS LD_LIBRARY_PATH
export RUBATO_STATE=$work/state
started=()
cleanup() {
  for pid in "${started[@]}"; do kill -9 "$pid" 2>/dev/null; done
  for pid in "${started[@]}"; do wait "$pid" 2>/dev/null; done
  rm -rf "$work"
}
trap cleanup EXIT
failed=0
checks=0
skipped=0

skip() { echo "SKIPPED: $*"; skipped=$((skipped + 1)); }
complain() { echo "FAILED: $*"; failed=$((failed + 1)); }
until_true() { # at most five minutes
  local end=$((SECONDS + 300))
  until "$@" >/dev/null 2>&1; do
    [ "$SECONDS" -lt "$end" ] || { complain "never true: $*"; return 1; }
    sleep 0.05
  done
}
# finds CHECK LEVEL WORDS -- COMMAND...: the command is a doctor --json; its exit code is 1 exactly if something fails.
finds() {
  local check=$1 level=$2 words=$3
  shift 4
  checks=$((checks + 1))
  "$@" >"$work/json" 2>"$work/stderr"
  local code=$?
  python3 - "$work/json" "$check" "$level" "$words" "$code" <<'PY' || { complain "$check on: $*"; head -c 300 "$work/stderr"; }
import json, sys
path, check, level, words, code = sys.argv[1:]
report = json.load(open(path))
one = next(c for c in report["checks"] if c["check"] == check)
problems = []
if one["level"] != level: problems.append(f"level {one['level']}, expected {level}")
if words not in one["found"]: problems.append(f"no '{words}'")
for c in report["checks"]:
    if (c["remedy"] == "") != (c["level"] == "ok"): problems.append(f"remedy of {c['check']}: '{c['remedy']}'")
fails = sum(c["level"] == "fail" for c in report["checks"])
if report["ready"] != (fails == 0) or int(code) != (1 if fails else 0): problems.append(f"exit code {code} with {fails} failures")
if len(report["checks"]) != 17: problems.append(f"{len(report['checks'])} checks")
if problems: print(f"    {one}: {'; '.join(problems)}"); sys.exit(1)
PY
}
doctor=("$RUBATO" doctor --json --listen 127.0.0.1:0)
# in_namespace SCRIPT ...: runs the doctor after SCRIPT in a mount namespace of its own.
in_namespace() { unshare --mount bash -c "$1 && shift && exec \"\$@\"" bash "$@"; }

# says WORDS... -- COMMAND: a command that fails names the facts and the way to them.
says() {
  local words=() word
  while [ "$1" != -- ]; do words+=("$1"); shift; done
  shift
  checks=$((checks + 1))
  if "$@" >"$work/said" 2>&1; then complain "succeeded: $*"; fi
  for word in "${words[@]}"; do
    grep -qF -- "$word" "$work/said" || { complain "no '$word' from: $*"; head -c 500 "$work/said"; }
  done
}

# --- Text: a line per check, within 100 columns, without colours where nobody looks or wants them
"$RUBATO" doctor --listen 127.0.0.1:0 >"$work/text" 2>"$work/stderr"
code=$?
for name in gpu "gpu driver" cpu "instruction set" memory "shared memory" libtorch blas "state folder" port daemon limits "core dumps" \
  clock cgroups slurm etcd; do
  checks=$((checks + 1))
  grep -qE "^(ok  |note|warn|fail)  $name " "$work/text" || complain "no line for '$name'"
done
awk 'length > 100' "$work/text" | grep . && complain "a line is longer than 100 columns"
tail -1 "$work/text" | grep -qE '^(ready|not ready): [0-9]+ ok, [0-9]+ notes?, [0-9]+ warnings?, [0-9]+ failures?$' ||
  complain "the last line is no summary: $(tail -1 "$work/text")"
if grep -q '^fail' "$work/text"; then expected=1; else expected=0; fi
[ "$code" = "$expected" ] || complain "exit code $code, expected $expected"
in_terminal() { env "$@" python3 -c 'import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) and 0)' "$RUBATO" doctor </dev/null; }
in_terminal NO_COLOR= >"$work/terminal"
grep -q $'\x1b\\[' "$work/terminal" || complain "no colours in a terminal"
in_terminal NO_COLOR=1 >"$work/terminal"
grep -q $'\x1b' "$work/terminal" && complain "colours although NO_COLOR is set"
checks=$((checks + 4))

# --- Bad input
for words in "--program $work/nothing" "--listen here" "--listen 127.0.0.1:99999"; do
  checks=$((checks + 1))
  # shellcheck disable=SC2086
  "$RUBATO" doctor $words >"$work/stdout" 2>"$work/stderr" && complain "accepted $words"
  grep -q "^rubato: " "$work/stderr" || complain "no message for $words"
done

# --- Programs that are not there, and that are broken
finds slurm note "not installed" -- env PATH= "${doctor[@]}"
finds etcd note "not installed" -- env PATH= "${doctor[@]}"
mkdir "$work/bin"
fake() { # fake NAME SCRIPT
  printf '#!/bin/bash\n%s\n' "$2" >"$work/bin/$1"
  chmod +x "$work/bin/$1"
}
with_fakes=(env "PATH=$work/bin:$PATH" "${doctor[@]}")
fake nvidia-smi 'printf "GPU-1, NVIDIA A\nGPU-2, NVIDIA A\n"'
finds gpu ok "2 x NVIDIA A" -- "${with_fakes[@]}"
fake nvidia-smi 'printf "GPU-1, NVIDIA A\nGPU-2, NVIDIA B\n"'
finds gpu warn "different types" -- "${with_fakes[@]}"
fake nvidia-smi 'head -c 3000 /dev/urandom'
finds gpu warn "" -- "${with_fakes[@]}"
if [ ! -e /proc/driver/nvidia/version ]; then
  says "no GPU to share: no NVIDIA GPU" "--cpu-slots N" "rubato doctor" -- timeout 300 env PATH= "$RUBATOD" --isolation none
fi
fake nvidia-smi 'printf "GPU-1, NVIDIA A\nGPU-2, NVIDIA B\n"'
says "different types (NVIDIA A and NVIDIA B)" "--cpu-slots N" -- env "PATH=$work/bin:$PATH" timeout 300 "$RUBATOD" --isolation none
rm "$work/bin/nvidia-smi"
fake sinfo 'case $1 in --version) echo slurm 99.1;; *) echo 3; echo 4;; esac'
finds slurm ok "slurm 99.1, 7 nodes" -- "${with_fakes[@]}"
fake sinfo 'case $1 in --version) echo slurm 99.1;; *) echo "Unable to contact slurm controller" >&2; exit 1;; esac'
finds slurm warn "Unable to contact" -- "${with_fakes[@]}"
rm "$work/bin/sinfo"

# --- Processors and limits
taskset -c "$(taskset -pc $$ | sed 's/.*[ ,-]//')" true 2>/dev/null && one_cpu=1 || one_cpu=
if [ -n "$one_cpu" ]; then
  finds cpu ok "1 CPU:" -- taskset -c "$(taskset -pc $$ | sed 's/.*[ ,-]//')" "${doctor[@]}"
else
  skip "one CPU only: taskset does not work here"
fi
limited() { (ulimit "$1" "$2" && shift 2 && exec "$@"); }
finds limits warn "300 open files" -- limited -n 300 "${doctor[@]}"
finds limits fail "60 open files" -- limited -n 60 "${doctor[@]}"
finds "core dumps" note "off" -- limited -c 0 "${doctor[@]}"

# --- LibTorch and BLAS of a program
example=$(dirname "$RUBATO")/examples/train_mlp
finds libtorch note "does not link LibTorch" -- "${doctor[@]}" --program /bin/true
echo "not a program" >"$work/garbage"
finds libtorch fail "cannot start" -- "${doctor[@]}" --program "$work/garbage"
if [ -x "$example" ]; then
  finds libtorch ok "train_mlp" -- "${doctor[@]}"
  reference=$(find /usr/lib -path '*/blas/libblas.so.3' 2>/dev/null | head -1)
  if [ -n "$reference" ]; then
    finds blas warn "reference BLAS" -- env "LD_LIBRARY_PATH=$(dirname "$reference")" "${doctor[@]}"
  else
    skip "reference BLAS: not installed"
  fi
  mkdir "$work/lib"
  ln -s "$work/garbage" "$work/lib/$(/lib64/ld-linux-x86-64.so.2 --list "$example" | sed -n 's/^\t\(libtorch_cpu[^ ]*\) .*/\1/p')"
  finds libtorch fail "train_mlp cannot start" -- env "LD_LIBRARY_PATH=$work/lib" "${doctor[@]}"
else
  skip "LibTorch of an example: $example is not built"
fi

# --- The port and the daemon
finds daemon note "no daemon runs here" -- "${doctor[@]}"
python3 -c '
import http.server, sys
class Other(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b"{\"etcdserver\":\"3.4.0\"}" if self.path == "/version" else b"{\"info\":{\"title\":\"Other\"}}"
        self.send_response(200); self.send_header("Content-Length", str(len(body))); self.end_headers(); self.wfile.write(body)
    def log_message(self, *words): pass
server = http.server.HTTPServer(("127.0.0.1", 0), Other)
open(sys.argv[1] + ".new", "w").write(str(server.server_port))
import os; os.rename(sys.argv[1] + ".new", sys.argv[1])
server.serve_forever()' "$work/port" &
started+=($!)
until_true test -e "$work/port"
other=127.0.0.1:$(cat "$work/port")
finds port fail "used by another program" -- "$RUBATO" doctor --json --listen "$other"
finds etcd ok "3.4.0 at $other" -- env "ETCDCTL_ENDPOINTS=$other" "${doctor[@]}"
finds etcd warn "nothing answers" -- env ETCDCTL_ENDPOINTS=127.0.0.1:1 "${doctor[@]}"
finds daemon warn "no rubatod answers at http://$other" -- "${doctor[@]}" --server "http://$other"
says "another program uses this port" "rubato doctor" "--listen" -- timeout 300 "$RUBATOD" --isolation none --cpu-slots 1 --listen "$other"
rm -rf "$RUBATO_STATE"
"$RUBATOD" --isolation none --cpu-slots 4000 --listen 127.0.0.1:0 >"$work/log" 2>&1 &
daemon=$!
started+=("$daemon")
until_true test -e "$RUBATO_STATE/server.url"
url=$(cat "$RUBATO_STATE/server.url")
finds daemon ok "rubatod answers at $url" -- "${doctor[@]}"
finds port ok "used by rubatod" -- "$RUBATO" doctor --json --listen "${url#http://}"
finds port note "used by another program" -- "$RUBATO" doctor --json --listen "$other"
finds cpu warn "4000 CPU slots" -- "${doctor[@]}"
kill -9 "$daemon" && wait "$daemon" 2>/dev/null
finds daemon warn "no rubatod answers at $url" -- "${doctor[@]}"
finds port ok "is free" -- "$RUBATO" doctor --json --listen "${url#http://}"
rm -rf "$RUBATO_STATE"

# --- The state folder
finds "state folder" ok "rubatod creates it" -- "${doctor[@]}"
finds "state folder" fail "is not a folder" -- "${doctor[@]}" --state "$work/garbage/state"
says "Not a directory" "--state DIR" "rubato doctor" -- env LC_ALL=C timeout 300 "$RUBATOD" --isolation none --cpu-slots 1 --state "$work/garbage/state"
says "cannot create" "--state DIR" "rubato doctor" -- timeout 300 "$RUBATOD" --isolation none --cpu-slots 1 --state "$work/garbage"
mkdir "$work/shared" && touch "$work/shared/thesis.tex" && chmod 755 "$work/shared"
finds "state folder" fail "open to others" -- "${doctor[@]}" --state "$work/shared"

# --- Parts of the system, in namespaces
if unshare --mount true 2>/dev/null; then
  finds "shared memory" fail "free" -- in_namespace 'mount -t tmpfs -o size=1M tmpfs /dev/shm' "${doctor[@]}"
  finds "shared memory" warn "67 MB" -- in_namespace 'mount -t tmpfs -o size=64M tmpfs /dev/shm' taskset -c 0 "${doctor[@]}"
  finds "shared memory" fail "not writable" -- in_namespace 'mount -t tmpfs -o size=9G,ro tmpfs /dev/shm' "${doctor[@]}"
  finds "shared memory" fail "there is no /dev/shm" -- \
    in_namespace 'mount -t tmpfs tmpfs /dev && mknod /dev/null c 1 3' "${doctor[@]}"
  if [ -n "${RUBATO_TOY:-}" ]; then
    # Workers that could not get their board were started again for ever, and nobody was told.
    toy=(timeout 300 "$RUBATO" run --dir "$work/job" -- "$RUBATO_TOY" --steps 10)
    says "cannot reserve" "/dev/shm has" "rubato doctor" "failures in a row" -- \
      in_namespace 'mount -t tmpfs -o size=64k tmpfs /dev/shm' "${toy[@]}"
    says "no /dev/shm" "rubato doctor" -- in_namespace 'mount -t tmpfs tmpfs /dev && mknod /dev/null c 1 3' "${toy[@]}"
  fi
  finds memory note "unknown" -- in_namespace 'mount -t tmpfs tmpfs /proc' "${doctor[@]}"
  finds "instruction set" note "unknown" -- in_namespace 'mount -t tmpfs tmpfs /proc' "${doctor[@]}"
  finds cgroups note "none" -- in_namespace 'mount -t tmpfs tmpfs /sys/fs/cgroup' "${doctor[@]}"
  finds cgroups ok "version 2 (cpu memory)" -- in_namespace \
    'mount -t tmpfs tmpfs /sys/fs/cgroup && echo cpu memory >/sys/fs/cgroup/cgroup.controllers' "${doctor[@]}"
  if grep -q '^0::/$' /proc/self/cgroup; then
    finds cpu warn "limits this process to 0.5" -- in_namespace \
      'mount -t tmpfs tmpfs /sys/fs/cgroup && echo 50000 100000 >/sys/fs/cgroup/cpu.max' "${doctor[@]}"
  else
    skip "a CPU limit: this process is not in the root control group"
  fi
  mkdir "$work/readonly" "$work/small"
  finds "state folder" fail "is not writable" -- \
    in_namespace "mount -t tmpfs -o ro tmpfs '$work/readonly'" "${doctor[@]}" --state "$work/readonly/state"
  finds "state folder" fail "free" -- \
    in_namespace "mount -t tmpfs -o size=4M tmpfs '$work/small'" "${doctor[@]}" --state "$work/small/state"
  finds "state folder" fail "more files" -- \
    in_namespace "mount -t tmpfs -o size=4G,nr_inodes=9 tmpfs '$work/small'" "${doctor[@]}" --state "$work/small/state"
  if [ -d /proc/driver ] && [ ! -e /proc/driver/nvidia ]; then
    mkdir -p "$work/driver/nvidia"
    echo "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.1.2  Sat" >"$work/driver/nvidia/version"
    finds gpu warn "no /dev/nvidia0" -- in_namespace "mount --bind '$work/driver' /proc/driver" "${doctor[@]}"
    finds "gpu driver" warn "libcuda.so.1 cannot be loaded" -- \
      in_namespace "mount --bind '$work/driver' /proc/driver" "${doctor[@]}"
    finds "gpu driver" note "no NVIDIA driver" -- "${doctor[@]}"
    head -c 300 /dev/urandom >"$work/driver/nvidia/version"
    finds "gpu driver" warn "has no version" -- in_namespace "mount --bind '$work/driver' /proc/driver" "${doctor[@]}"
  else
    skip "a machine without, or with half of, an NVIDIA driver: this one has one, or no /proc/driver"
  fi
else
  skip "/dev/shm, /proc, control groups and driver: mount namespaces may not be made here"
fi
if unshare --net true 2>/dev/null; then
  finds port fail "cannot listen on 127.0.0.1:7117" -- unshare --net "$RUBATO" doctor --json
else
  skip "no network: network namespaces may not be made here"
fi
skip "the clock: setting it would change the machine's (unit test Doctor.ChecksTheClocks)"

echo "$checks checks, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
