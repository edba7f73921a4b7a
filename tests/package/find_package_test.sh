#!/usr/bin/env bash
# Builds a training program with find_package(Rubato) against an installed tree that was moved afterwards.
#   find_package_test.sh BUILD
set -euo pipefail
build=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$work/first" >/dev/null
mv "$work/first" "$work/moved" # nothing may depend on the original path
examples=$work/moved/share/doc/rubato/examples
cmake -S "$examples" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/moved" -DCMAKE_BUILD_TYPE=Release >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
cmake --build "$work/build" --target train_mlp >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }

# It trains elastically to the same bits as the installed example.
rubato=$work/moved/bin/rubato
hash_of() { python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["state_sha256"])' "$1/result.json"; }
export RUBATO_HOME=$work/home
"$rubato" run --dir "$work/a" --workers 2 --logical 4 -- "$work/build/train_mlp" --steps 100 >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
"$rubato" run --dir "$work/b" --workers 1 --logical 4 -- "$work/moved/libexec/rubato/examples/train_mlp" --steps 100 >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
[[ $(hash_of "$work/a") == "$(hash_of "$work/b")" ]] || { echo "FAILED: the bits differ"; exit 1; }
"$rubato" sim --cluster 8x4 --policy fifo --quiet >/dev/null # its bundled workload
grep -q 'stop.*jobs' "$work/moved/share/man/man8/rubatod.8"
echo "built against the installed package: $(hash_of "$work/a")"
