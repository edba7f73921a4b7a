"""Called by top_test.sh. RUBATO, RUBATOD, RUBATO_TOY and RUBATO_STATE define what is tested."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

RUBATO = os.environ["RUBATO"]
STATE = os.environ["RUBATO_STATE"]
PATIENCE = 300
AWAY = "does not answer"


def check(what, holds):
    if not holds:
        sys.exit(f"FAILED: {what}")


def start_daemon():
    url = os.path.join(STATE, "server.url")
    if os.path.exists(url):
        os.remove(url)
    log = open(os.path.join(os.path.dirname(STATE), "log"), "ab")
    daemon = subprocess.Popen(
        [os.environ["RUBATOD"], "--cpu-slots", "2", "--policy", "fifo", "--listen", "127.0.0.1:0"], stdout=log, stderr=log
    )
    end = time.monotonic() + PATIENCE
    while not os.path.exists(url):
        check("the daemon starts", time.monotonic() < end and daemon.poll() is None)
        time.sleep(0.02)
    return daemon


class Terminal:
    """`rubato top` in its own terminal."""

    def __init__(self, **environment):
        self.master, self.slave = pty.openpty()
        self.resize(30, 120)
        self.before = termios.tcgetattr(self.slave)
        self.shown = ""
        self.process = subprocess.Popen(
            [RUBATO, "top", "--every", "0.1"],
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
            start_new_session=True,
            env={**os.environ, **environment},
        )

    def resize(self, rows, columns):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, seconds):
        if not select.select([self.master], [], [], seconds)[0]:
            return False
        self.shown += os.read(self.master, 1 << 16).decode()
        return True

    def frames(self):
        """The complete screens drawn since the last forget()."""
        return self.shown.split("\x1b[H")[1:-1]

    def forget(self):
        self.shown = ""

    def until(self, what, condition):
        end = time.monotonic() + PATIENCE
        while not condition():
            check(f"{what}; shown was:\n{self.shown[-2000:]!r}", time.monotonic() < end)
            check(f"{what}: it ended with {self.process.poll()}", self.process.poll() is None)
            self.read(0.1)

    def until_drawn(self, what, condition):
        """Waits for a complete screen, begun from now on, that fulfils the condition."""
        self.forget()
        self.until(what, lambda: any(condition(frame) for frame in self.frames()))

    def ends(self, how):
        check(f"{how} ends it with 0", self.process.wait(PATIENCE) == 0)
        while self.read(0):
            pass
        check(f"{how}: the screen is restored", self.shown.endswith("\x1b[?25h\x1b[?1049l"))
        after = termios.tcgetattr(self.slave)
        check(f"{how}: the terminal settings are restored: {self.before} {after}", after == self.before)
        os.close(self.master)
        os.close(self.slave)


def fits(frame, rows, columns):
    lines = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line).strip("\r") for line in frame.split("\n")]
    bold_ends = all(line.count("\x1b[1m") == line.count("\x1b[0m") for line in frame.split("\n"))
    return len(lines) <= rows and all(len(line) <= columns for line in lines) and bold_ends


def check_scrolling(top):
    """More jobs than lines: it says how many, and every one can be shown."""
    for i in range(24):
        submit(f"queued-{i:02}")
    top.resize(12, 120)
    top.until_drawn("it says what is left out", lambda frame: "jobs 1 to 5 of 25" in frame and fits(frame, 12, 120))
    os.write(top.master, b"\x1b[B")
    top.until_drawn("down", lambda frame: "jobs 2 to 6 of 25" in frame and "watched" not in frame)
    os.write(top.master, b"\x1b[6~")
    top.until_drawn("page down", lambda frame: "jobs 7 to 11 of 25" in frame)
    os.write(top.master, b"\x1b[F")
    top.until_drawn("to the end", lambda frame: "jobs 21 to 25 of 25" in frame and "queued-23" in frame)
    os.write(top.master, b"\x1b[B")
    os.write(top.master, b"\x1b[5~")
    top.until_drawn("page up", lambda frame: "jobs 16 to 20 of 25" in frame)
    os.write(top.master, b"\x1b[H")
    top.until_drawn("to the beginning", lambda frame: "jobs 1 to 5 of 25" in frame and "watched" in frame)
    os.write(top.master, b"\x1b[A")
    top.resize(60, 120)
    top.until_drawn("all of them", lambda frame: "queued-23" in frame and "of 25" not in frame)
    for i in range(24):
        subprocess.run([RUBATO, "cancel", f"queued-{i:02}"], capture_output=True)
    top.resize(30, 120)


def submit(name):
    job = subprocess.run(
        [RUBATO, "submit", "--name", name, "--devices", "2" if name != "watched" else "1..2", "--",
         os.environ["RUBATO_TOY"], "--steps", "1000000", "--compute-us", "5000"],
        capture_output=True, text=True,
    )
    check(f"a job is taken: {job.stderr}", job.returncode == 0)


def run():
    daemon = start_daemon()
    try:
        submit("watched")

        top = Terminal()
        top.until("it shows the job", lambda: any("watched" in f for f in top.frames()))
        check("it uses the whole screen", "\x1b[?1049h\x1b[?25l" in top.shown)
        check("keys are read without Enter", not termios.tcgetattr(top.slave)[3] & (termios.ICANON | termios.ECHO))
        check("it says how to quit", "q quits" in top.shown)
        check("it fits", all(fits(frame, 30, 120) for frame in top.frames()))
        top.resize(6, 40)
        top.until_drawn("it fits a small window", lambda frame: fits(frame, 6, 40))
        top.resize(30, 120)
        top.until_drawn("and a large one again", lambda frame: "watched" in frame)

        os.write(top.master, b"x\x1b[Z")
        for _ in range(5):
            top.until_drawn("other keys are ignored", lambda frame: "q quits" in frame)

        check_scrolling(top)

        daemon.kill()
        daemon.wait()
        top.until_drawn("it says that the daemon does not answer", lambda frame: AWAY in frame and "watched" in frame)
        daemon = start_daemon()
        top.until_drawn("it finds the next daemon", lambda frame: AWAY not in frame and "watched" in frame)
        os.write(top.master, b"q")
        top.ends("q")

        for number in (signal.SIGINT, signal.SIGTERM):
            top = Terminal()
            top.until("it draws", lambda: "q quits" in top.shown)
            top.process.send_signal(number)
            top.ends(number.name)

        top = Terminal(NO_COLOR="1")
        top.until("it draws without colours", lambda: len(top.frames()) > 0)
        check("NO_COLOR is honoured", "\x1b[1m" not in top.shown)
        os.close(top.slave)
        os.close(top.master)
        top.process.wait(PATIENCE)  # the terminal was closed: it must not run forever

        # Without a terminal it prints once, without control characters.
        plain = subprocess.run([RUBATO, "top"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        check("it prints once", plain.returncode == 0 and "watched" in plain.stdout)
        check("as plain text", "\x1b" not in plain.stdout)
    finally:
        subprocess.run([RUBATO, "cancel", "watched"], capture_output=True)
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            seen = subprocess.run([RUBATO, "cluster", "--json"], capture_output=True, text=True).stdout
            if '"held": 0' in seen or not seen:
                break
            time.sleep(0.05)
        daemon.terminate()
        daemon.wait()


run()
print("rubato top behaves in a terminal")
