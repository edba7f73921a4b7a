"""A copy of the first worker, from which the launcher forks later ones (src/elastic/launch/warm_parent.h).

The copy is made when everything is imported and nothing has begun, so a worker that is forked from it
need not import PyTorch again: its own copy of the user's script goes on after `import rubato`. That needs
a process without threads and without CUDA, because neither survives a fork. RUBATO_WARM=0 turns it off.
"""

import array
import ctypes
import os
import select
import signal
import socket
import sys
import time

_LONGEST_REQUEST = 1 << 20
_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15


def leave_copy():
    """In a worker that the launcher has executed. In the workers that are forked later it returns, too."""
    offer = os.environ.pop("RUBATO_WARM", "")
    if ":" not in offer:
        return
    descriptor, launcher = (int(part) for part in offer.split(":"))
    connection = socket.socket(fileno=descriptor)
    connection.set_inheritable(False)
    # A wrapper that runs Python may do something afterwards: then a copy of Python is not enough.
    if os.getppid() == launcher and _can_fork():
        _flush()
        if _fork_child_of_launcher(launcher, connection):
            with open("/proc/self/comm", "rb") as file:
                name = file.read().rstrip(b"\n")
            _prctl(_PR_SET_NAME, b"rubato-warm")  # for ps and top
            connection.send(b"ready")
            _serve(connection, launcher)  # returns in new workers only
            _prctl(_PR_SET_NAME, name)
    connection.close()


def _prctl(*arguments):
    ctypes.CDLL(None).prctl(*arguments)


def _threads():
    return len(os.listdir("/proc/self/task"))


def _can_fork():
    if _threads() > 1:
        # OpenBLAS, which NumPy starts, ends its threads before a fork and starts them when needed.
        _fork_in_vain()
    if _threads() > 1:
        return False
    for name in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{name}").startswith("/dev/nvidia"):
                return False
        except OSError:
            pass  # the descriptor of the list itself
    return True


def _fork_in_vain():
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


def _flush():
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()  # what is buffered would be written by every copy


def _fork_child_of_launcher(launcher, connection):
    """True in the new process. The one between ends at once, which makes the launcher its parent."""
    between = os.fork()
    if between > 0:
        os.waitpid(between, 0)
        return False
    try:
        if os.fork() > 0:
            os._exit(0)
        while os.getppid() != launcher:
            if select.select([connection], [], [], 0)[0]:  # nothing is expected: the launcher is gone
                os._exit(0)
            time.sleep(0.0005)
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != launcher:
            os._exit(0)
        os.setpgid(0, 0)
        return True
    except BaseException:
        os._exit(1)


def _serve(connection, launcher):
    """Forks a worker for each request. Returns in the worker; the copy itself ends here."""
    control = None
    try:
        while True:
            request, ancillary, flags, _ = connection.recvmsg(
                _LONGEST_REQUEST, socket.CMSG_SPACE(2 * array.array("i").itemsize)
            )
            if not request:
                os._exit(0)
            received = array.array("i")
            for _, _, data in ancillary:
                received.frombytes(data)
            control, log = socket.socket(fileno=received[0]), received[1]
            complete = not flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC)
            if complete and _fork_child_of_launcher(launcher, control):
                break
            control.close()
            os.close(log)
        _become_worker(request, log)
        control.send(b"here")
        if not control.recv(16):
            os._exit(0)
        control.close()
    except BaseException:
        os._exit(1)


def _become_worker(request, log):
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    for variable in request.split(b"\0"):
        if variable:
            name, value = variable.split(b"=", 1)
            os.environb[name] = value
