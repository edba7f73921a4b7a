#!/usr/bin/env bash
# SIGTERM ends the daemon, whatever its clients do: plans in progress, open streams, requests that
# never end. Jobs keep running, and nothing that was acknowledged is lost.
source "$RUBATO_SOURCE/tests/cli/helpers.sh"
needs RUBATO_TOY RUBATOD

start_daemon 2
exits 0 "fifo" -- policy use fifo # jobs that need both devices wait behind the one that runs
exits 0 "next: rubato status" -- submit --name steady --devices 1 -- "$RUBATO_TOY" --steps 100000000 --compute-us 5000
until_true phase_is steady running

# Clients of all kinds, until the daemon ends.
cat >"$work/clients.py" <<'PYTHON'
import http.client, json, os, socket, sys, threading, urllib.parse
state, ready = sys.argv[1:]
url = urllib.parse.urlparse(open(state + "/server.url").read().strip())
token = open(state + "/admin.token").read().strip()
headers = {"Authorization": "Bearer " + token, "Content-Type": "application/json"}
begun, done = threading.Semaphore(0), []

def submit(count):
    connection = http.client.HTTPConnection(url.hostname, url.port)
    for _ in range(count):
        connection.request("POST", "/api/v1/jobs", json.dumps({"run": ["/bin/true"], "devices": "2"}), headers)
        answer = connection.getresponse()
        assert answer.status == 201, answer.read()
        answer.read()

def plan():  # again and again, until the daemon is gone
    first = True
    while True:
        try:
            connection = http.client.HTTPConnection(url.hostname, url.port, timeout=300)
            connection.request("POST", "/api/v1/plan", json.dumps({"run": ["/bin/true"], "devices": "2"}), headers)
            if first: begun.release()
            first = False
            connection.getresponse().read()
        except OSError:
            return
        except http.client.HTTPException:
            return

def stream(path):
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=300)
    connection.request("GET", path, headers={**headers, "Accept": "text/event-stream"})
    answer = connection.getresponse()
    begun.release()
    try:
        while answer.read1(65536): pass
    except (OSError, http.client.HTTPException):
        pass

def half():  # a request that never ends, and a client that reads nothing
    connection = socket.create_connection((url.hostname, url.port))
    connection.sendall(b"POST /api/v1/jobs HTTP/1.1\r\nContent-Length: 100\r\n\r\n{")
    begun.release()
    try:
        while connection.recv(65536): pass
    except OSError:
        pass

submit(200)
threads = [threading.Thread(target=plan) for _ in range(4)]
threads += [threading.Thread(target=stream, args=(path,)) for path in
            ["/api/v1/events", "/api/v1/events", "/api/v1/jobs/steady/logs?follow=1", "/api/v1/jobs/steady/events"]]
threads += [threading.Thread(target=half) for _ in range(4)]
for thread in threads: thread.start()
for _ in threads: begun.acquire()
open(ready, "w").close()
for thread in threads: thread.join()
PYTHON
timeout 600 python3 "$work/clients.py" "$RUBATO_STATE" "$work/ready" >"$work/clients" 2>&1 &
clients=$!
until_true test -e "$work/ready"
kill -TERM "$daemon"
check "the daemon ends with exit code 0" -- wait "$daemon"
daemon=
check "all clients were let go" -- wait "$clients"
check "nobody complained" -- test ! -s "$work/clients"
check "the address is gone" -- test ! -e "$RUBATO_STATE/server.url"
check "the log says so" -- grep -q "rubatod: stopping; running jobs continue" "$work/log"

# Everything is there again, and the job has not been started anew.
start_daemon 2
until_true phase_is steady running
check "no job was lost" -- holds "len([x for x in j['jobs'] if x['id'] != 'j1']) == 200" queue --all
check "the job ran on" -- holds "j['restarts'] == 0" status steady
exits 0 "cancelled" -- cancel steady

# A second signal does no harm. (It may end the daemon by its default action.)
kill -TERM "$daemon"; kill -TERM "$daemon" 2>/dev/null
wait "$daemon"
daemon=
start_daemon 2
check "no job was lost by the second signal" -- holds "len(j['jobs']) == 201" queue --all
finish
