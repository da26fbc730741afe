"""An MCP server over streamable HTTP that does what a test asks for. Prints its port and serves until its input ends.

Usage: http_server.py MODE [PORT]. No library but Python's own.

Modes: good, changed (one tool more), locked (wants a token), numbered (its streams can be taken up again), forgets-404 and
forgets-400 (a session of another process is refused; no stream of its own), or a status that answers everything.
"""
import http.server
import json
import os
import queue
import sys
import threading
import uuid

SESSION = uuid.uuid4().hex
FROZEN = threading.Event()
MODE = sys.argv[1]
STREAMS = []
SEEN = {"cancelled": [], "headers": [], "handshakes": 0}
OBJECT = {"type": "object", "properties": {}}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, body=b"", kind="application/json", **headers):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def result(self, id, result, **headers):
        self.reply(200, json.dumps({"jsonrpc": "2.0", "id": id, "result": result}).encode(), **headers)

    def stream(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()

    def event(self, frame):
        if MODE == "numbered":
            self.wfile.write(b"id: " + uuid.uuid4().hex.encode() + b"\n")
        self.wfile.write(b"data: " + json.dumps({"jsonrpc": "2.0", **frame}).encode() + b"\n\n")
        self.wfile.flush()

    def do_DELETE(self):
        self.reply(200)

    def do_GET(self):
        if MODE.startswith("forgets"):
            return self.reply(405)
        if MODE.isdigit():
            return self.reply(int(MODE))
        self.stream()
        if MODE == "numbered":
            self.event({"method": "notifications/message", "params": {"level": "info", "data": "here"}})
        mine = queue.Queue()
        STREAMS.append(mine)
        try:
            while True:
                self.event(mine.get())
        except OSError:
            STREAMS.remove(mine)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if MODE == "locked" and self.headers.get("Authorization") != "Bearer open-sesame":
            return self.reply(401, b"", WWW_Authenticate="Bearer")
        if MODE.isdigit():
            page = b"<html><body>Nothing for programs.</body></html>"
            return self.reply(int(MODE), page, "text/html", Location="https://elsewhere.example/mcp")
        if FROZEN.is_set():
            return threading.Event().wait(60)
        frame = json.loads(body)
        method, params, id = frame.get("method"), frame.get("params") or {}, frame.get("id")
        if method == "server/discover" and MODE.startswith("older-"):
            if MODE == "older-500":
                return self.reply(500)
            return self.result(id, None if MODE == "older-null" else {})
        if method not in ("initialize", "server/discover") and self.headers.get("Mcp-Session-Id") != SESSION:
            if MODE == "forgets-404":
                return self.reply(404)
            if MODE == "forgets-400":
                error = {"code": -32000, "message": "Bad Request: No valid session ID provided"}
                return self.reply(400, json.dumps({"jsonrpc": "2.0", "error": error, "id": None}).encode())
        if id is None:
            if method == "notifications/cancelled":
                SEEN["cancelled"].append(params.get("reason"))
            return self.reply(202)
        if method == "initialize":
            SEEN["handshakes"] += 1
            return self.result(id, {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": "fake-http", "version": "1"},
            }, Mcp_Session_Id=SESSION)
        if method == "ping":
            return self.result(id, {})
        if method == "tools/list":
            names = ["echo", "steps", "big", "crash", "change", "wait", "seen", "hang", "breaks", "status", "freeze"]
            names += ["new"] if MODE == "changed" else []
            return self.result(id, {"tools": [{"name": name, "inputSchema": OBJECT} for name in names]})
        if method == "tools/call":
            return self.call(id, params["name"], params.get("arguments") or {}, params.get("_meta", {}))
        error = {"code": -32601, "message": f"no method {method}"}
        self.reply(200, json.dumps({"jsonrpc": "2.0", "id": id, "error": error}).encode())

    def call(self, id, name, arguments, meta):
        global MODE
        done = {"content": [{"type": "text", "text": name}]}
        if name == "echo":
            self.result(id, {**done, "structuredContent": arguments})
        elif name == "seen":
            self.result(id, {**done, "structuredContent": SEEN})
        elif name == "steps":
            self.stream()
            for step in [1, 2, 3]:
                params = {"progressToken": meta["progressToken"], "progress": step}
                self.event({"method": "notifications/progress", "params": params})
            self.event({"id": id, "result": done})
        elif name == "big":
            done["content"][0]["text"] = "x" * arguments["bytes"]
            if arguments.get("stream"):
                self.stream()
                self.event({"id": id, "result": done})
            else:
                self.result(id, done)
        elif name == "crash":
            os._exit(1)
        elif name == "hang":
            self.stream()
            self.event({"method": "notifications/message", "params": {"level": "info", "data": "begun"}})
            threading.Event().wait(60)
        elif name == "breaks":
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"ffff\r\ndata: {\"jsonrpc\": ")
            self.close_connection = True
        elif name == "status":
            self.reply(arguments["status"], b"the cupboard is bare", "text/plain")
        elif name == "freeze":
            FROZEN.set()
            self.result(id, done)
        elif name == "change":
            MODE = "changed"
            for stream in STREAMS:
                for _ in range(50):
                    stream.put({"method": "notifications/tools/list_changed"})
            self.result(id, done)
        elif name == "wait":
            threading.Event().wait(30)
            self.result(id, done)


port = int(sys.argv[2]) if len(sys.argv) > 2 else 0
server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
server.daemon_threads = True
threading.Thread(target=server.serve_forever, daemon=True).start()
print(server.server_address[1], flush=True)
sys.stdin.read()
