#!/usr/bin/env python3
"""make_root.py ROOT DEB...: creates a Debian root with only the essential packages and the dependencies of the DEBs.

It copies the files of packages that are installed on this machine (dpkg -L), so it needs no network. A library that a
DEB uses without declaring it is missing there. The DEBs themselves are not unpacked; dpkg does that inside the root.
"""
import glob
import os
import re
import subprocess
import sys

FIELDS = ["Package", "Version", "Essential", "Depends", "Pre-Depends", "Provides"]
MERGED = re.compile(r"^/(bin|sbin|lib|lib32|lib64|libx32)(/|$)")


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def names(relation):
    """'a (>= 1) | b:any, c' -> [['a', 'b'], ['c']]"""
    return [[re.split(r"[ :(]", one.strip())[0] for one in group.split("|")]
            for group in relation.split(",") if group.strip()]


def installed_packages():
    form = "\x1f".join("${%s}" % field for field in FIELDS) + "\x1f${db:Status-Status}\x1e"
    packages, providers = {}, {}
    for record in output("dpkg-query", "-W", "-f", form).split("\x1e"):
        values = record.split("\x1f")
        if values[-1] != "installed":
            continue
        package = dict(zip(FIELDS, values))
        packages[package["Package"]] = package
        for group in names(package["Provides"]):
            providers.setdefault(group[0], package["Package"])
    return packages, providers


def closure(wanted, packages, providers):
    chosen, queue = set(), list(wanted)
    while queue:
        alternatives = queue.pop()
        found = next((n if n in packages else providers[n] for n in alternatives
                      if n in packages or n in providers), None)
        if found is None:
            sys.exit("make_root: not installed here: " + " | ".join(alternatives))
        if found not in chosen:
            chosen.add(found)
            queue += names(packages[found]["Depends"]) + names(packages[found]["Pre-Depends"])
    return chosen


def copy(root, paths):
    listing = "\0".join(sorted(path.lstrip("/") for path in paths)).encode()
    pack = subprocess.Popen(["tar", "-C", "/", "-c", "--no-recursion", "--null", "-T", "-"],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    unpack = subprocess.Popen(["tar", "-C", root, "-xp"], stdin=pack.stdout)
    pack.stdin.write(listing)
    pack.stdin.close()
    if pack.wait() != 0 or unpack.wait() != 0:
        sys.exit("make_root: tar failed")


def main():
    root, debs = os.path.abspath(sys.argv[1]), sys.argv[2:]
    packages, providers = installed_packages()
    own = {output("dpkg-deb", "-f", deb, "Package").strip() for deb in debs}
    wanted = [[p["Package"]] for p in packages.values() if p["Essential"] == "yes"]
    for deb in debs:
        wanted += [group for group in names(output("dpkg-deb", "-f", deb, "Depends"))
                   if not own.intersection(group)]
    chosen = closure(wanted, packages, providers)

    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):  # as on this machine
        if os.path.islink("/" + name):
            os.makedirs(root + "/usr/" + name, exist_ok=True)
            os.symlink("usr/" + name, root + "/" + name)
    paths = set()
    for path in output("dpkg-query", "-L", *sorted(chosen)).splitlines():
        if not path.startswith("/") or path == "/." or path.startswith(("/usr/share/doc/", "/usr/share/locale/")):
            continue
        if MERGED.match(path) and os.path.islink(path[:MERGED.match(path).end(1)]):
            path = "/usr" + path
        if os.path.lexists(path):
            paths.add(path)
    # For libraries with several providers, such as libblas.so.3, update-alternatives chooses among those in the root.
    alternatives = glob.glob("/var/lib/dpkg/alternatives/lib*")
    paths.update(alternatives)
    copy(root, paths)

    for folder in ("proc", "sys", "dev", "run", "root", "tmp", "etc", "var/lib/dpkg/info", "var/lib/dpkg/updates",
                   "var/lib/dpkg/triggers", "etc/alternatives", "var/log", "var/lib/systemd"):
        os.makedirs(f"{root}/{folder}", exist_ok=True)
    os.chmod(root + "/tmp", 0o1777)
    with open(root + "/var/lib/dpkg/status", "w", encoding="utf-8") as status:
        for entry in open("/var/lib/dpkg/status", encoding="utf-8").read().split("\n\n"):
            name = re.match(r"Package: (\S+)", entry)
            if name and name[1] in chosen and "Status: install ok installed" in entry:
                status.write(entry + "\n\n")
    control_file = re.compile(r"(:[a-z0-9]+)?\.[a-z0-9]+$")  # libc6:amd64.list
    copy(root, {"/var/lib/dpkg/info/" + name for name in os.listdir("/var/lib/dpkg/info")
                if name == "format" or control_file.sub("", name) in chosen})
    for name in ("passwd", "group"):
        with open(f"{root}/etc/{name}", "w", encoding="utf-8") as file:
            file.write(open(f"/usr/share/base-passwd/{name}.master", encoding="utf-8").read())
    for name in ("shadow", "gshadow"):
        os.close(os.open(f"{root}/etc/{name}", os.O_CREAT | os.O_WRONLY, 0o640))
    for path in alternatives:
        subprocess.run(["chroot", root, "update-alternatives", "--quiet", "--auto", os.path.basename(path)],
                       check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    print(f"make_root: {len(chosen)} packages, {len(paths)} files")


main()
