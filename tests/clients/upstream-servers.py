"""Real MCP servers from npm behind `devloop serve --mcp-config`, called by the client of the Python SDK."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from checks import DEVLOOP, WORK, check, equal, finish, includes, is_gone, names, project, serve
from mcp import Client, StdioServerParameters

NODE, INSTALL = sys.argv[1], Path(sys.argv[2])
PACKAGES = INSTALL / "node_modules/@modelcontextprotocol"
# Names of more than 20 characters are cut and get a hash of the original, which never changes.
LONG_RUNNING = "everything__trigger-l-z43jtoafdw"


def configuration(name):
    """Both servers, the one for files at home in a directory of its own."""
    files = Path(WORK) / name / "files"
    files.mkdir(parents=True)
    (files / "a.txt").write_text("eins zwei drei\n", encoding="utf-8")
    start = lambda package, *more: {"command": NODE, "args": [str(PACKAGES / package / "dist/index.js"), *more]}
    servers = {"everything": start("server-everything"), "files": start("server-filesystem", str(files))}
    path = Path(WORK) / f"{name}.mcp.json"
    path.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    return path, files


def processes():
    """Process ids and command lines of the servers of this run."""
    lines = subprocess.run(["ps", "-A", "-ww", "-o", "pid=,stat=,args="], capture_output=True, text=True, check=True)
    rows = [line.split(None, 2) for line in lines.stdout.splitlines()]
    return [(int(row[0]), row[2]) for row in rows if len(row) == 3 and row[1][0] != "Z" and str(PACKAGES) in row[2]]


def until(what, look):
    for _ in range(200):
        found = look()
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError(f"waited in vain: {what}")


def none_left():
    until("the end of the servers", lambda: not [one for one in processes() if one[1].startswith(NODE)])


def devloop(*arguments):
    done = subprocess.run([DEVLOOP, "mcp", *arguments], capture_output=True, text=True, check=False)
    equal((done.returncode, done.stderr), (0, ""))
    return json.loads(done.stdout)


def by_hand():
    config, files = configuration("by-hand")
    given = ["--mcp-config", str(config)]
    with check("devloop mcp list: both are connected"):
        servers = devloop("list", "--format", "json", *given)["servers"]
        equal([(one["server"], one["state"]) for one in servers], [("everything", "connected"), ("files", "connected")])
        assert all(one["tools"] > 5 and one["quarantined"] == 0 for one in servers), servers
    with check("devloop mcp tools: theirs, each under the name of its server"):
        tools = devloop("tools", "--format", "json", *given)["tools"]
        equal({tool["name"].split("__")[0] for tool in tools}, {"everything", "files"})
        longest = max(len(tool["name"]) for tool in tools)
        assert longest <= 42, f"a name of {longest} characters"
        equal([tool["name"] for tool in tools if tool["source"] == "trigger-long-running-operation"], [LONG_RUNNING])
    with check("devloop mcp call: the result as the server gives it"):
        result = devloop("call", "files__read_text_file", "--input", json.dumps({"path": str(files / "a.txt")}), *given)
        equal(result["structuredContent"], {"content": "eins zwei drei\n"})
    with check("no server is left behind"):
        none_left()


def text_of(result):
    return "".join(block.text for block in result.content if block.type == "text")


async def merged():
    config, files = configuration("merged")
    directory = project("merged")
    allowed = ["--allow", "everything__*", "--allow", "files__*"]
    server = StdioServerParameters(
        command=DEVLOOP, args=serve("pm", directory, "--mcp-config", str(config), *allowed)
    )
    async with Client(server, read_timeout_seconds=60) as client:
        listed = lambda tools: {tool.name for tool in tools.tools}
        with check("tools of servers are shown once they were searched for"):
            before = listed(await client.list_tools())
            assert "tool_search" in before and "files__read_text_file" not in before, before
            found = await client.call_tool("tool_search", {"query": "select:files__read_text_file,everything__echo"})
            assert not found.is_error, text_of(found)
            after = listed(await client.list_tools())
            equal(after - before, {"files__read_text_file", "everything__echo"})
        with check("a call goes through, with its structure"):
            result = await client.call_tool("files__read_text_file", {"path": str(files / "a.txt")})
            assert not result.is_error, text_of(result)
            includes(result.structured_content, {"content": "eins zwei drei\n"})
        with check("so does one to the other server, unloaded"):
            result = await client.call_tool("everything__get-sum", {"a": 2, "b": 3})
            assert not result.is_error, text_of(result)
            names(text_of(result), ["5"])
        with check("progress is passed on"):
            steps = []

            async def keep(done, total, message):
                steps.append(done)

            await client.call_tool(LONG_RUNNING, {"duration": 1, "steps": 3}, progress_callback=keep)
            assert len(steps) >= 2 and steps == sorted(set(steps)), steps
        with check("its own error is a result that says so"):
            result = await client.call_tool("files__read_text_file", {"path": "/etc/passwd"})
            assert result.is_error, text_of(result)
            names(text_of(result), ["denied"])
        with check("arguments that do not fit are refused before the server is asked"):
            result = await client.call_tool("everything__get-sum", {"a": "two"})
            assert result.is_error, text_of(result)
            names(text_of(result), ["b"])
        with check("kill -9 during a call: a clear error, and the other server goes on"):
            call = asyncio.create_task(client.call_tool(LONG_RUNNING, {"duration": 30, "steps": 30}))
            await asyncio.sleep(0.5)
            killed = [pid for pid, line in processes() if "server-everything" in line]
            equal(len(killed), 1)
            os.kill(killed[0], signal.SIGKILL)
            result = await call
            assert result.is_error, text_of(result)
            names(text_of(result), ["everything", "went away", "SIGKILL"])
            result = await client.call_tool("files__list_directory", {"path": str(files)})
            names(text_of(result), ["a.txt"])
        with check("and it is connected again"):
            result = await client.call_tool("everything__echo", {"message": "again"})
            assert not result.is_error, text_of(result)
            names(text_of(result), ["again"])
            running = [pid for pid, line in processes() if "server-everything" in line]
            assert len(running) == 1 and running != killed, running
    with check("no server is left behind after the session"):
        is_gone(directory)
        none_left()


class OverHttp:
    """`server-everything` over streamable HTTP, on a port of loopback that it keeps when it is started again."""

    def __init__(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        self.process = None

    def start(self):
        command = [NODE, str(PACKAGES / "server-everything/dist/index.js"), "streamableHttp"]
        environment = {**os.environ, "PORT": str(self.port)}
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until("a server over HTTP", self.answers)

    def answers(self):
        try:
            urllib.request.urlopen(self.url, timeout=5).close()
        except urllib.error.HTTPError:
            return True
        except OSError:
            assert self.process.poll() is None, f"it ended with {self.process.returncode}"
            return False
        return True

    def kill(self):
        self.process.kill()
        self.process.wait()


async def over_http():
    _, files = configuration("over-http")
    directory = project("over-http")
    remote = OverHttp()
    local = {"command": NODE, "args": [str(PACKAGES / "server-filesystem/dist/index.js"), str(files)]}
    config = Path(WORK) / "over-http.mcp.json"
    servers = {"everything": {"type": "http", "url": remote.url}, "files": local}
    config.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    allowed = ["--allow", "everything__*", "--allow", "files__*"]
    server = StdioServerParameters(
        command=DEVLOOP, args=serve("pm", directory, "--mcp-config", str(config), *allowed)
    )
    remote.start()
    try:
        with check("over HTTP: devloop mcp list says that it is connected"):
            listed = devloop("list", "--format", "json", "--mcp-config", str(config))["servers"][0]
            equal((listed["way"], listed["state"], listed["quarantined"]), ("http", "connected", 0))
            assert listed["tools"] > 5, listed
        async with Client(server, read_timeout_seconds=30) as client:
            with check("over HTTP: a call goes through"):
                result = await client.call_tool("everything__get-sum", {"a": 2, "b": 3})
                assert not result.is_error, text_of(result)
                names(text_of(result), ["5"])
            with check("over HTTP: progress is passed on"):
                steps = []

                async def keep(done, total, message):
                    steps.append(done)

                await client.call_tool(LONG_RUNNING, {"duration": 1, "steps": 3}, progress_callback=keep)
                assert len(steps) >= 2 and steps == sorted(set(steps)), steps
            with check("over HTTP: kill -9 during a call: a clear error, and the other server goes on"):
                call = asyncio.create_task(client.call_tool(LONG_RUNNING, {"duration": 60, "steps": 60}))
                await asyncio.sleep(0.5)
                remote.kill()
                result = await call
                assert result.is_error, text_of(result)
                names(text_of(result), ["everything", "went away"])
                result = await client.call_tool("files__list_directory", {"path": str(files)})
                names(text_of(result), ["a.txt"])
            with check("over HTTP: a call while it is down says why"):
                result = await client.call_tool("everything__echo", {"message": "nobody"})
                assert result.is_error, text_of(result)
                names(text_of(result), ["everything", "Connection refused", "nothing was sent"])
            with check("over HTTP: started again, it is connected again"):
                remote.start()
                result = await client.call_tool("everything__echo", {"message": "again"})
                assert not result.is_error, text_of(result)
                names(text_of(result), ["again"])
            with check("over HTTP: exchanged between two calls, it costs none"):
                remote.kill()
                remote.start()
                result = await client.call_tool("everything__echo", {"message": "once more"})
                assert not result.is_error, text_of(result)
                names(text_of(result), ["once more"])
    finally:
        remote.kill()
    with check("over HTTP: nothing is left behind after the session"):
        is_gone(directory)
        none_left()


def killed():
    config, _ = configuration("killed")
    directory = project("killed")
    command = [DEVLOOP, *serve("pm", directory, "--mcp-config", str(config))]
    host = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with check("kill -9 of devloop itself leaves no orphan"):
        until("two servers", lambda: len(processes()) == 2)
        host.kill()
        host.wait()
        none_left()
        is_gone(directory)


async def main():
    by_hand()
    with check("the session ends without an error"):
        await merged()
    with check("the session over HTTP ends without an error"):
        await over_http()
    killed()


asyncio.run(main())
finish()
