#!/usr/bin/env bash
# Runs as root inside the clean root, with the packages in /packages.
set -uo pipefail
failed=0
checks=0
check() { # check WHAT -- COMMAND: the command must succeed
  local what=$1
  shift 2
  checks=$((checks + 1))
  "$@" >/tmp/check.log 2>&1 && return
  echo "FAILED: $what: $*"
  tail -15 /tmp/check.log | sed 's/^/    /'
  failed=$((failed + 1))
}
until_true() { # at most five minutes
  local end=$((SECONDS + 300))
  until "$@" >/dev/null 2>&1; do
    [ "$SECONDS" -lt "$end" ] || { echo "FAILED: never true: $*"; failed=$((failed + 1)); return 1; }
    sleep 0.1
  done
}
finish() {
  echo "$((checks - failed)) passed, $failed failed"
  [ "$failed" = 0 ]
  exit
}
state=/var/lib/rubato
examples=/usr/libexec/rubato/examples
setting() { sed -n "s/^$1=//p" /lib/systemd/system/rubatod.service; }

# Starts the daemon from the unit as systemd would: rights, folders, options, command.
start_daemon() {
  local folder command rights
  folder=/var/lib/$(setting StateDirectory)
  [ -d "$folder" ] || install -d -m "$(setting StateDirectoryMode)" "$folder"
  install -d "/run/$(setting RuntimeDirectory)"
  rights=$(setting CapabilityBoundingSet | sed 's/CAP_/,+/g; s/ //g' | tr '[:upper:]' '[:lower:]')
  # shellcheck disable=SC1090
  RUBATOD_OPTIONS=$(. "$(setting EnvironmentFile | sed s/^-//)" && echo "$RUBATOD_OPTIONS")
  command=$(setting ExecStart)
  # shellcheck disable=SC2086 # systemd also splits it into words
  env -i PATH="$PATH" HOME="$folder" RUNTIME_DIRECTORY="/run/$(setting RuntimeDirectory)" \
    setpriv --no-new-privs --inh-caps=-all --bounding-set="-all$rights" \
    ${command%%\$*} $RUBATOD_OPTIONS >>/tmp/rubatod.log 2>&1 &
  daemon=$!
  until_true test -e /run/rubato/server.url || { cat /tmp/rubatod.log; finish; }
}
stop_daemon() {
  kill "$daemon"
  wait "$daemon"
}
# PIDs of a job's workers, found by their executables.
workers() {
  local process
  for process in /proc/[0-9]*; do
    case $(readlink "$process/exe" 2>/dev/null) in "$examples"/*) echo "${process#/proc/}" ;; esac
  done
}
trains() { [ -n "$(workers)" ]; }
# Whether at least one of the earlier workers is still there. A busy machine may keep a worker silent for so long that it is replaced.
same_workers() { [ -n "$(comm -12 <(echo "$before" | sort) <(workers | sort))" ]; }
field() { sed -n "s/^ *\"$1\": \"\?\([^\",]*\)\"\?,\?\$/\1/p" | head -1; }
step_of() { rubato status "$1" --json | field step; }
further_than() { [ "$(step_of "$1")" -gt "$2" ]; }
as_nobody() { setpriv --reuid=65534 --regid=65534 --clear-groups env HOME=/nonexistent "$@"; }

ldconfig
check "dpkg installs the packages" -- dpkg -i /packages/rubato_*.deb /packages/rubato-examples_*.deb
check "both are installed" -- test "$(dpkg-query -W -f '${db:Status-Status} ' rubato rubato-examples)" = "installed installed "
check "the installed files match the packages" -- dpkg --verify rubato rubato-examples
for file in /usr/share/man/man1/rubato.1.gz /usr/share/man/man8/rubatod.8.gz /usr/share/rubato/openapi.json \
  /usr/share/bash-completion/completions/rubato /usr/share/zsh/vendor-completions/_rubato \
  /usr/share/fish/vendor_completions.d/rubato.fish /etc/default/rubato /usr/share/doc/rubato/copyright; do
  check "$file exists" -- test -s "$file"
done
check "the bash completion is valid bash" -- bash -n /usr/share/bash-completion/completions/rubato
check "the simulator finds its bundled data" -- rubato sim --cluster 8x4 --policy fifo --quiet

# --- A tenant's job, through the installed programs
sed -i 's/^RUBATOD_OPTIONS=.*/RUBATOD_OPTIONS="--cpu-slots 2 --listen 127.0.0.1:0"/' /etc/default/rubato
start_daemon
check "root can administer" -- rubato tenants set alice
check "a job without a user is refused" -- bash -c "rubato submit --tenant alice -- /bin/true 2>&1 | grep -q 'tenants set alice --user'"
rubato tenants set bob --user nobody 2>/dev/null >/tmp/bob.token && chown 65534 /tmp/bob.token && chmod 600 /tmp/bob.token
cd /tmp || exit 1
check "a user of no tenant is refused" -- bash -c "! setpriv --reuid=1234 --regid=1234 --clear-groups env HOME=/nonexistent rubato queue"
check "a tenant's user needs no token" -- as_nobody rubato queue
check "a user's job finishes" -- as_nobody rubato --token-file /tmp/bob.token submit --wait --json \
  --name small --devices 1..2 --logical-workers 4 -- $examples/train_mlp --steps 200
hash=$(rubato status small --json | field state_sha256)
check "the undisturbed run finishes" -- rubato run --dir /tmp/alone --workers 1 --logical 4 -- $examples/train_mlp --steps 200
check "the job has the bits of the undisturbed run ($hash)" -- test "$hash" = "$(field state_sha256 </tmp/alone/result.json)"
check "the state folder can only be passed" -- test "$(stat -c %U:%a $state)" = root:711
check "the job's folder is its user's" -- test "$(stat -c %U:%a $state/jobs/1)" = nobody:700
check "a user cannot read the token" -- bash -c "! setpriv --reuid=65534 --regid=65534 --clear-groups cat $state/admin.token"

# --- A long job survives a restart and an upgrade of the daemon
check "a long job is accepted" -- rubato submit --tenant bob --name long --devices 2 --checkpoint-every 1s -- $examples/train_mlp --steps 100000000
until_true trains
until_true further_than long 20
before=$(workers)
stop_daemon
check "its workers outlive the daemon" -- same_workers
check "dpkg upgrades with a job running" -- dpkg -i /packages/rubato_*.deb
check "its options were kept" -- grep -q cpu-slots /etc/default/rubato
start_daemon
step=$(step_of long)
until_true further_than long "${step:-0}"
check "the same workers keep training after the upgrade" -- same_workers

# --- Removal keeps the state
stop_daemon
check "dpkg removes the packages" -- dpkg -r rubato-examples rubato
check "no worker is left" -- test -z "$(workers)"
check "the state is kept" -- test -s $state/rubato.db
check "the options are kept" -- test -s /etc/default/rubato
check "dpkg installs again" -- dpkg -i /packages/rubato_*.deb /packages/rubato-examples_*.deb
start_daemon
until_true further_than long "${step:-0}"
check "the job continues where it stopped ($(step_of long) > $step)" -- further_than long "${step:-0}"

# --- Purge leaves nothing
stop_daemon
check "dpkg purges" -- dpkg -P rubato-examples rubato
check "no worker is left after the purge" -- test -z "$(workers)"
for file in $state /etc/default/rubato /usr/bin/rubato /lib/systemd/system/rubatod.service /usr/share/rubato; do
  check "$file is gone" -- test ! -e "$file"
done
finish
