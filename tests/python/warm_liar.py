"""For warm_test.py: a worker that says "I am a copy" when it is none, then trains."""

import os
import runpy
import socket
import sys
import time

lie = sys.argv.pop(1)
offer = os.environ.pop("RUBATO_WARM", "")
if offer:
    connection = socket.socket(fileno=int(offer.split(":")[0]))
    if lie == "itself":
        connection.send(b"ready")
        connection.set_inheritable(False)
        sys.argv.append("keeps the connection")
    else:
        if os.fork() == 0:
            if os.fork() > 0:
                os._exit(0)
            while os.getppid() != int(offer.split(":")[1]):
                time.sleep(0.001)
            connection.send(b"ready")
            if lie == "orphan":  # answers a request itself
                _, ancillary, _, _ = connection.recvmsg(1 << 20, 64)
                descriptors = ancillary[0][2]
                control = socket.socket(fileno=int.from_bytes(descriptors[:4], sys.byteorder))
                control.send(b"here")
            time.sleep(1e9)
        connection.close()
sys.argv[0] = os.path.join(os.path.dirname(os.path.abspath(__file__)), "warm_program.py")
runpy.run_path(sys.argv[0], run_name="__main__")
