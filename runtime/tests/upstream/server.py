"""An MCP server over standard input and output that does what a test asks for, faults included.

Usage: server.py MODE [ARGUMENT]. No library but Python's own.
"""
import json
import os
import signal
import subprocess
import sys
import threading
import time

MODE = sys.argv[1] if len(sys.argv) > 1 else "good"
ARGUMENT = sys.argv[2] if len(sys.argv) > 2 else ""
LOCK = threading.Lock()
CANCELLED = {}
STATE = {"list": 0, "lists": 0, "sent": 0}
OBJECT = {"type": "object", "properties": {}}


def log(line):
    if "FAKE_LOG" in os.environ:
        with open(os.environ["FAKE_LOG"], "a") as file:
            file.write(line + "\n")


def write(text):
    with LOCK:
        sys.stdout.buffer.write(text)
        sys.stdout.buffer.flush()


def send(frame):
    write(json.dumps({"jsonrpc": "2.0", **frame}).encode() + b"\n")


def notify(method, params=None):
    send({"method": method, **({"params": params} if params is not None else {})})


def answer(id, result):
    send({"id": id, "result": result})


def text(value, **more):
    return {"content": [{"type": "text", "text": value}], **more}


def tool(name, schema=None, **more):
    return {"name": name, "description": f"Does {name}.", "inputSchema": schema or OBJECT, **more}


def tools():
    # What they take is not said: anything.
    takes = {"type": "object", "additionalProperties": True}
    names = ["echo", "env", "pid", "fail", "exit", "sleep", "big", "spawn", "steps", "noise"]
    good = [tool(name, takes) for name in names]
    if MODE == "many":
        return [tool(f"t{number}") for number in range(int(ARGUMENT))]
    if MODE == "bad-tools":
        return good + [
            tool("rooted", {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}),
            tool("x" * 300),
            tool("control\u0007"),
            {"name": "schemaless"},
            {"description": "has no name", "inputSchema": OBJECT},
            "no tool at all",
            tool("wordy", description="w" * 20_000),
            tool("huge", {"type": "object", "properties": {"a": {"type": "string", "description": "d" * 300_000}}}),
        ]
    if MODE == "says":
        claims = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}
        return [
            tool("always", takes, _meta={"anthropic/alwaysLoad": True, "anthropic/maxResultSizeChars": 90_000}),
            tool("hinted", takes, annotations=claims, _meta={"anthropic/searchHint": "ledger booking", "x.y/z": 1}),
            tool("rooted", {"type": "object", "oneOf": [OBJECT]}),
            tool("typeless", {"type": "object", "properties": {"p": {}}}),
            tool("wordy", takes, description="It says something. " * 100),
            tool("breathless", takes, description="word " * 400),
            tool("answers", takes),
        ]
    if MODE == "needs":
        fields = {"path": {"type": "string"}, "count": {"type": "integer", "minimum": 3}}
        needs = {"type": "object", "properties": fields, "required": ["path", "count"]}
        return good + [tool("needs", needs), tool("rooted", {"type": "object", "oneOf": [OBJECT]})]
    if MODE == "duplicate":
        return good + [tool("echo")]
    if MODE == "large":
        return [tool(f"t{number}", description="d" * 15_000) for number in range(300)]
    if MODE == "storm":
        return good + [tool(f"change_{STATE['list']}")]
    if MODE == "renews":
        # One tool says something else of itself after each change.
        good += [tool("renew", takes, description=f"Version {STATE['list']}.")]
        if ARGUMENT == "bad":
            good += [tool("rooted", {"type": "object", "oneOf": [OBJECT]}), tool("wordy", description="w" * 20_000)]
        if ARGUMENT == "many" and STATE["list"] > 0:
            good += [tool(f"t{number}") for number in range(1_001)]
        return good
    return good


def listed(id, params):
    STATE["lists"] += 1
    if MODE == "list-hangs":
        return
    if MODE == "list-fails":
        return send({"id": id, "error": {"code": -32603, "message": "no list today"}})
    if MODE == "endless-pages":
        return answer(id, {"tools": [], "nextCursor": "again"})
    everything = tools()
    page = int(params.get("cursor") or 0)
    size = 100 if MODE == "many" else 4
    result = {"tools": everything[page:page + size]}
    if page + size < len(everything):
        result["nextCursor"] = str(page + size)
    answer(id, result)


def storm():
    for _ in range(2):
        began = time.monotonic()
        for count in range(1, 1001):
            STATE["list"] += 1
            notify("notifications/tools/list_changed")
            ahead = began + count / 1000 - time.monotonic()
            if ahead > 0:
                time.sleep(ahead)
    STATE["sent"] = STATE["list"]


def call(id, params):
    name, arguments = params["name"], params.get("arguments") or {}
    token = params.get("_meta", {}).get("progressToken")
    if name == "echo":
        answer(id, text(json.dumps(arguments), structuredContent={"echo": arguments}))
    elif name == "env":
        answer(id, text("", structuredContent=dict(os.environ)))
    elif name == "pid":
        answer(id, text("", structuredContent={"pid": os.getpid(), **STATE, "cancelled": CANCELLED}))
    elif name == "answers":
        content = {"content": [{"type": "image", "data": "AAAA", "mimeType": "image/png"}]}
        answer(id, {**content, **arguments, "structuredContent": {"a": 1}, "_meta": {"x.y/cost": 3, "progressToken": 1}})
    elif name == "renew":
        STATE["list"] += 1
        answer(id, text("renewed"))
        notify("notifications/tools/list_changed")
    elif name == "fail":
        if arguments.get("protocol"):
            send({"id": id, "error": {"code": -32602, "message": "wrong arguments", "data": {"field": "a"}}})
        else:
            answer(id, text("it failed", isError=True))
    elif name == "exit":
        sys.stderr.write(f"about to end: token {os.environ.get('FAKE_TOKEN')}\n")
        sys.stderr.flush()
        os._exit(arguments.get("status", 1))
    elif name == "sleep":
        log("sleep")
        until = time.monotonic() + arguments["seconds"]
        while time.monotonic() < until and str(id) not in CANCELLED:
            time.sleep(0.01)
        if str(id) not in CANCELLED:
            answer(id, text("slept"))
    elif name == "big":
        size, piece = arguments["bytes"], b"x" * 65536
        with LOCK:
            out = sys.stdout.buffer
            out.write(b'{"jsonrpc":"2.0","result":{"content":[{"type":"text","text":"')
            while size > 0:
                out.write(piece[:size])
                size -= len(piece)
            out.write(b'"}]},"id":' + json.dumps(id).encode() + b"}\n")
            out.flush()
    elif name == "spawn":
        child = subprocess.Popen(["sleep", "300"])
        answer(id, text("", structuredContent={"pid": child.pid}))
    elif name == "steps":
        for done in [1, 2, 2, 1, 3]:
            notify("notifications/progress", {"progressToken": token, "progress": done, "total": 3, "message": f"step {done}"})
        answer(id, text("done"))
    elif name == "noise":
        sys.stderr.write("a word on standard error\n")
        sys.stderr.flush()
        notify("notifications/message", {"level": "warning", "logger": "noise", "data": {"a": 1}})
        notify("notifications/resources/updated", {"uri": "file:///a"})
        notify("notifications/resources/updated", {"uri": "file:///a"})
        notify("notifications/resources/list_changed")
        notify("notifications/prompts/list_changed")
        notify("notifications/tasks/status", {"taskId": "t1", "status": "working", "statusMessage": "at it"})
        write(b"this is no frame\n[1, 2\n{\"jsonrpc\": \"2.0\"}\n\n\xff\xfe\n")
        write(b"y" * arguments.get("line", 10) + b"\n")
        notify("notifications/nobody/knows", {})
        answer(id, text("made"))
    else:
        send({"id": id, "error": {"code": -32602, "message": f"no tool {name}"}})


# What each list has, by what it is known, how many, and how many on a page.
PAGED = {
    "resources/list": ("resources", "uri", 46, 10),
    "resources/templates/list": ("resourceTemplates", "uriTemplate", 25, 1),
    "prompts/list": ("prompts", "name", 23, 10),
    "tasks/list": ("tasks", "taskId", 21, 1),
}


def paged(id, method, params):
    """A page. With an argument the server fails there: `METHOD CURSOR`."""
    key, name, count, page = PAGED[method]
    cursor = params.get("cursor", "0")
    if ARGUMENT == f"{method} {cursor}":
        return send({"id": id, "error": {"code": -32603, "message": "no luck"}})
    start, end = int(cursor), min(int(cursor) + page, count)
    items = [{name: f"{key}-{number}", "name": f"{key}-{number}"} for number in range(start, end)]
    answer(id, {key: items, **({"nextCursor": str(end)} if end < count else {})})


def request(id, method, params):
    if MODE.startswith("older-") and method == "server/discover":
        log("discover")
        if MODE == "older-ends":
            sys.stderr.write(f"unknown method {method}\n")
            sys.exit(1)
        if MODE == "older-null":
            return answer(id, None)
        if MODE == "older-other-id":
            return send({"id": "x", "error": {"code": -32601, "message": "what?"}})
        return
    if method == "initialize":
        log("initialize")
        if MODE == "slow":
            time.sleep(float(ARGUMENT))
        if MODE == "exit-at-start":
            sys.stderr.write("cannot find my configuration\n")
            sys.exit(3)
        if MODE == "refuses":
            return send({"id": id, "error": {"code": -32000, "message": "not today"}})
        answer(id, {
            "protocolVersion": "1999-01-01" if MODE == "ancient" else "2025-11-25",
            "capabilities": {"tools": {"listChanged": True}, "resources": {}, "prompts": {}, "logging": {}},
            "serverInfo": {"name": "fake", "version": "1.2.3"},
            "instructions": "Use it well.",
        })
    elif method == "ping":
        answer(id, {})
    elif method == "tools/list":
        listed(id, params)
    elif method == "tools/call":
        threading.Thread(target=call, args=(id, params), daemon=True).start()
    elif MODE == "pages" and method in PAGED:
        paged(id, method, params)
    elif method == "resources/list":
        answer(id, {"resources": [{"uri": "file:///a", "name": "a"}]})
    elif method == "resources/templates/list":
        answer(id, {"resourceTemplates": []})
    elif MODE == "subscribes" and method in ("resources/subscribe", "resources/unsubscribe"):
        answer(id, {})
        if method == "resources/subscribe":
            notify("notifications/resources/updated", {"uri": params["uri"]})
    elif method == "resources/read":
        answer(id, {"contents": [{"uri": params["uri"], "text": "contents"}]})
    elif method == "prompts/list":
        answer(id, {"prompts": [{"name": "p"}]})
    elif method == "prompts/get":
        answer(id, {"messages": [{"role": "user", "content": {"type": "text", "text": json.dumps(params.get("arguments"))}}]})
    elif method.startswith("tasks/") and MODE == "says":
        send({"id": id, "error": {"code": -32601, "message": "Method not found"}})
    elif method == "tasks/list":
        answer(id, {"tasks": [{"taskId": "t1", "status": "working"}]})
    elif method in ("tasks/get", "tasks/cancel"):
        answer(id, {"taskId": params["taskId"], "status": "cancelled" if method == "tasks/cancel" else "working"})
    else:
        send({"id": id, "error": {"code": -32601, "message": f"no method {method}"}})


def main():
    if ARGUMENT == "parent":
        # Two of one group, neither of which may outlive whoever started it.
        child = subprocess.Popen(["sleep", "300"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        log(f"pids {os.getpid()} {child.pid}")
    if MODE == "hang":
        time.sleep(3600)
    if MODE == "garbage":
        write(b"Welcome to the server!\n\x1b[32mready\x1b[0m\n{\"half\": \n")
    if MODE == "chatty":
        sys.stderr.write(f"warming up with {os.environ.get('FAKE_TOKEN')}\n")
        sys.stderr.flush()
        for _ in range(50):
            notify("notifications/message", {"level": "error", "data": {"said": "the stove is cold \u202e"}})
    if MODE == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for line in sys.stdin.buffer:
        frame = json.loads(line)
        method, params = frame.get("method"), frame.get("params") or {}
        if "id" in frame and method:
            request(frame["id"], method, params)
        elif method == "notifications/cancelled":
            CANCELLED[str(params["requestId"])] = params.get("reason", "")
            log("cancelled: " + params.get("reason", ""))
        elif method == "notifications/initialized" and MODE == "storm":
            threading.Thread(target=storm, daemon=True).start()
    if MODE == "stubborn":
        time.sleep(3600)


main()
