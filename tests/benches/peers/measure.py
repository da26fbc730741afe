#!/usr/bin/env python3
"""Measures MCP servers over stdio, side by side.

    measure.py [--runs N] [--calls N] NAME=COMMAND NAME=COMMAND …

Every server is started anew for each run and the servers take turns, so that a slow moment of the machine meets all
of them. Each command is split as a shell would. The medians are printed, and their ratio to the first server's.
A server with a tool `echo` is called by that; `devloop serve` by `write_todolist`, with one list again and again: a
lock, a read and a comparison on real files, and nothing written. The peers of this repository:

    cargo build --release --package devloop-runtime --bin devloop --examples
    (cd tests/benches/peers/ts-echo && npm install)
    mkdir -p /tmp/measured
    tests/benches/peers/measure.py rmcp=target/release/examples/rmcp_echo face=target/release/examples/mcp_echo \\
        devloop="target/release/devloop serve --agent pm --project-dir /tmp/measured" \\
        ts="node tests/benches/peers/ts-echo/server.mjs"

`face` is this repository's MCP face in front of an echo.
"""

import argparse
import json
import shlex
import statistics
import subprocess
import time

# As many calls are in flight at once: a session lets no more wait, and refuses what comes beyond that.
WINDOW = 64

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": "init",
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "measure", "version": "1"},
    },
}


class Server:
    def __init__(self, command):
        self.process = subprocess.Popen(
            shlex.split(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )
        self.rest = b""

    def send(self, *frames):
        data = b"".join(json.dumps(frame, separators=(",", ":")).encode() + b"\n" for frame in frames)
        self.process.stdin.write(data)

    def line(self):
        while b"\n" not in self.rest:
            chunk = self.process.stdout.read(1 << 16)
            if not chunk:
                raise SystemExit(f"{self.process.args} ended early")
            self.rest += chunk
        line, _, self.rest = self.rest.partition(b"\n")
        return json.loads(line)

    def memory_kib(self):
        with open(f"/proc/{self.process.pid}/status") as status:
            for line in status:
                if line.startswith("VmRSS:"):
                    return int(line.split()[1])
        return 0

    def end(self):
        started = time.perf_counter()
        self.process.stdin.close()
        self.process.wait(10)
        return time.perf_counter() - started


ECHO = {"text": "hello, world", "n": 1}
LIST = {
    "items": [
        {"id": f"step-{n:03}", "description": f"Step {n}: write the failing test and make it pass"} for n in range(1, 21)
    ]
}


def call(number, tool):
    arguments = ECHO if tool == "echo" else LIST
    params = {"name": tool, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def run(command, calls):
    result = {}
    started = time.perf_counter()
    server = Server(command)
    server.send(INITIALIZE)
    server.line()
    server.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
    server.send({"jsonrpc": "2.0", "id": "list", "method": "tools/list"})
    names = [tool["name"] for tool in server.line()["result"]["tools"]]
    tool = "echo" if "echo" in names else "write_todolist"
    result["start to tools/list (ms)"] = (time.perf_counter() - started) * 1e3
    result["memory after start (MiB)"] = server.memory_kib() / 1024

    trips = []
    for number in range(300):
        started = time.perf_counter()
        server.send(call(number, tool))
        answer = server.line()
        assert answer["id"] == number and not answer["result"].get("isError"), answer
        trips.append(time.perf_counter() - started)
    result["round trip, median (µs)"] = statistics.median(trips[50:]) * 1e6

    frames = [json.dumps(call(n, tool), separators=(",", ":")).encode() + b"\n" for n in range(1000, 1000 + calls)]
    started = time.perf_counter()
    sent = answered = 0
    while answered < calls:
        upto = min(answered + WINDOW, calls)
        if upto > sent:
            write_all(server.process.stdin, b"".join(frames[sent:upto]))
            sent = upto
        chunk = server.process.stdout.read(1 << 20)
        if not chunk:
            raise SystemExit(f"{command} ended early")
        if b'"isError":true' in chunk:
            raise SystemExit(f"{command} refused a call")
        answered += chunk.count(b"\n")
    result["pipelined calls (1/s)"] = calls / (time.perf_counter() - started)
    result["memory after calls (MiB)"] = server.memory_kib() / 1024
    result["end of input to exit (ms)"] = server.end() * 1e3
    return result


def write_all(pipe, data):
    view = memoryview(data)
    while view:
        view = view[pipe.write(view) :]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--calls", type=int, default=5000)
    parser.add_argument("servers", nargs="+")
    options = parser.parse_args()
    servers = dict(server.split("=", 1) for server in options.servers)
    results = {name: [] for name in servers}
    for _ in range(options.runs):
        for name, command in servers.items():
            results[name].append(run(command, options.calls))
    names = list(servers)
    width = max(map(len, names)) + 2
    for metric in results[names[0]][0]:
        medians = {name: statistics.median(result[metric] for result in results[name]) for name in names}
        print(metric)
        for name in names:
            print(f"  {name:{width}}{medians[name]:12.2f}   {medians[name] / medians[names[0]]:6.2f}x")


if __name__ == "__main__":
    main()
