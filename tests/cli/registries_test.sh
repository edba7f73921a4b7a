#!/usr/bin/env bash
# The commands of docs/registries.md, with a real etcd on a free port.
source "$RUBATO_SOURCE/tests/cli/helpers.sh"
needs RUBATO_TOY
for program in etcd etcdctl python3; do
  command -v "$program" >/dev/null || { echo "$program is not installed: nothing was tested"; exit 77; }
done

read -r port peer < <(python3 - <<'PY'
import socket
ports = [socket.socket() for _ in range(2)]
for one in ports: one.bind(("127.0.0.1", 0))
print(*(one.getsockname()[1] for one in ports))
PY
)
here=http://127.0.0.1:$port
etcd --data-dir "$work/etcd" --listen-client-urls "$here" --advertise-client-urls "$here" \
  --listen-peer-urls "http://127.0.0.1:$peer" --initial-advertise-peer-urls "http://127.0.0.1:$peer" \
  --initial-cluster "default=http://127.0.0.1:$peer" >"$work/etcd.log" 2>&1 &
launchers+=($!)
export ETCDCTL_API=3
for _ in $(seq 300); do
  etcdctl --endpoints "$here" endpoint health >"$work/health" 2>&1 && break
  sleep 0.1
done
check "etcd runs" -- etcdctl --endpoints "$here" endpoint health

cd "$work" || exit 1
check "a job with its registry in etcd" -- "$RUBATO" run --registry "etcd:$here/rubato" --workers 2 --logical 4 --dir mnist -- \
  "$RUBATO_TOY" --steps 20
check "the same without" -- "$RUBATO" run --workers 1 --logical 4 --dir plain -- "$RUBATO_TOY" --steps 20
check "they have the same bits" -- test "$(field mnist/result.json 'j["state_sha256"]')" = "$(field plain/result.json 'j["state_sha256"]')"
"$RUBATO" ps mnist --json >ps.json
check "ps finds it" -- test "$(field ps.json 'j["view"] > 0')" = True
url=$(field mnist/job.json 'j["registry"]')
prefix=/rubato/${url##*/}
check "its settings name it" -- test "${url%/*}" = "etcd:$here/rubato"
etcdctl --endpoints "$here" get --prefix "$prefix/newest/" >newest.txt
check "its state is text" -- grep -q '"members"' newest.txt
check "its history is there" -- test -n "$(etcdctl --endpoints "$here" get "$prefix/view/1")"
etcdctl --endpoints "$here" del --prefix "$prefix/" >deleted
check "it can be removed" -- test "$(cat deleted)" -gt 4
check "nothing is left" -- test -z "$(etcdctl --endpoints "$here" get --prefix /rubato)"

refused "etcd at 127.0.0.1:1" -- run --registry etcd:http://127.0.0.1:1/x --workers 1 --dir nobody-there -- "$RUBATO_TOY"
check "no job was made of it" -- test ! -e nobody-there/job.json
finish
