#!/usr/bin/env bash
# Installs the Debian packages with dpkg into a root that contains only their dependencies. Then runs a job there, an upgrade, a removal and
# a purge (in_clean_root.sh).
#   clean_root_test.sh SOURCE BUILD
set -euo pipefail
source=$1 build=$2
here=$source/tests/package
skip() { echo "SKIPPED: $*"; exit 77; }
[[ $EUID == 0 ]] || skip "needs root (chroot, dpkg)"
command -v dpkg-shlibdeps >/dev/null || skip "no dpkg-shlibdeps (package dpkg-dev)"
unshare --mount --pid --fork true 2>/dev/null || skip "not permitted to create namespaces here"

work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
"$source/scripts/make-deb" "$build" "$work/deb"
mkdir -p "$work/root/packages"
python3 "$here/make_root.py" "$work/root" "$work"/deb/rubato_*.deb "$work"/deb/rubato-examples_*.deb
cp "$work"/deb/rubato_*.deb "$work"/deb/rubato-examples_*.deb "$work/root/packages/"
cp "$here/in_clean_root.sh" "$work/root/packages/"

# Uses its own process namespace, so that everything still running ends with it.
unshare --mount --pid --fork --kill-child bash -c '
  set -e
  root=$1
  mount -t proc proc "$root/proc"
  mount --bind /dev "$root/dev"
  mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
  mount -t tmpfs run "$root/run"
  exec chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
    bash /packages/in_clean_root.sh' - "$work/root"
