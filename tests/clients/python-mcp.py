"""The client of the Python SDK, in both eras of the protocol."""

import asyncio
import importlib.metadata
import json

import jsonschema
from checks import (
    CASES, DEVLOOP, VERSION, check, equal, finish, granted, includes, is_gone, is_on_disk, names, project, serve, todo,
)
from mcp import Client, MCPError, StdioServerParameters

TOOL = CASES["tool"]
VALID = CASES["valid"]

# The client's own names for the eras, and the version that each must end in.
ERAS = {"legacy": "2025-11-25", "auto": "2026-07-28"}


def text_of(result):
    equal([block.type for block in result.content], ["text"])
    return result.content[0].text


async def drive(mode, version):
    directory = project(mode)
    unread = []

    async def keep_errors(message):
        if isinstance(message, Exception):
            unread.append(str(message))

    server = StdioServerParameters(command=DEVLOOP, args=serve("pm", directory))
    async with Client(server, mode=mode, read_timeout_seconds=30, message_handler=keep_errors) as client:
        with check(f"{version}: mode {mode} opens in this version, with a name and instructions"):
            equal(client.protocol_version, version)
            equal(client.server_info.name, "devloop")
            assert client.instructions, "there are no instructions"
            assert client.server_capabilities.tools is not None, "tools are not announced"

        schemas = {}
        with check(f"{version}: lists exactly the tools of pm, with the schemas that the repository has"):
            tools = (await client.list_tools()).tools
            schemas = {tool.name: tool.output_schema for tool in tools}
            listed = [
                {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema} for tool in tools
            ]
            by_name = lambda tool: tool["name"]
            equal(sorted(listed, key=by_name), sorted(granted("pm"), key=by_name))

        with check(f"{version}: a call gives the same JSON as structure and as text, fitting its schema"):
            result = await client.call_tool(TOOL, {"items": VALID["items"]})
            assert not result.is_error, text_of(result)
            expected = {"ok": True, "total": len(VALID["items"]), "path": "agent-state/pm-todo.json"}
            includes(result.structured_content, {**expected, "ready": VALID["ready"], "current": VALID["current"]})
            equal(json.loads(text_of(result)), result.structured_content)
            jsonschema.validate(result.structured_content, schemas[TOOL])
            is_on_disk(todo(directory, "pm"), "pm", VALID["items"], VALID["current"])

        with check(f"{version}: the same list again is answered as unchanged"):
            result = await client.call_tool(TOOL, {"items": VALID["items"]})
            includes(result.structured_content, {"ok": True, "unchanged": True})

        # This client sends what it is given, so here it is the server that must understand.
        with check(f"{version}: items sent as a JSON string are taken as the list they are"):
            items = VALID["items"][:1]
            result = await client.call_tool(TOOL, {"items": json.dumps(items)})
            assert not result.is_error, text_of(result)
            is_on_disk(todo(directory, "pm"), "pm", items, "step-001")

        with check(f"{version}: an argument that Gemini CLI adds of its own is no obstacle"):
            result = await client.call_tool(TOOL, {"items": [], "wait_for_previous": True})
            assert not result.is_error, text_of(result)
            includes(result.structured_content, {"ok": True, "total": 0, "ready": []})

        before = todo(directory, "pm")
        for one in [*CASES["invalid"], *CASES["refused_by_schema"]]:
            with check(f"{version}: {one['what']} is a result with isError that names it"):
                result = await client.call_tool(TOOL, one["arguments"])
                assert result.is_error, f"not marked as an error: {text_of(result)}"
                equal(result.structured_content, None)
                names(text_of(result), one["names"])
        with check(f"{version}: and none of them has changed the file"):
            equal(todo(directory, "pm"), before)

        with check(f"{version}: an unknown tool is the error -32602 that names the nearest"):
            unknown = CASES["unknown_tool"]
            try:
                result = await client.call_tool(unknown["name"], {})
            except MCPError as error:
                equal(error.code, -32602)
                names(error.message, [unknown["name"], unknown["nearest"]])
            else:
                raise AssertionError(f"answered with a result: {result!r}")

        with check(f"{version}: calls in flight together are each answered"):
            calls = [client.call_tool(TOOL, {"items": VALID["items"]}) for _ in range(8)]
            for result in await asyncio.gather(*calls):
                assert not result.is_error, text_of(result)

    with check(f"{version}: every line on stdout was a message"):
        equal(unread, [])
    with check(f"{version}: no server is left behind"):
        is_gone(directory)


async def main():
    with check(f"it is version {VERSION}"):
        equal(importlib.metadata.version("mcp"), VERSION)
    for mode, version in ERAS.items():
        with check(f"{version}: the session ends without an error"):
            await drive(mode, version)


asyncio.run(main())
finish()
