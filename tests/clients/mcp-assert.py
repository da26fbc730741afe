"""mcp-assert: its lint of the tool definitions, its audit, and a short run of its fuzzer."""

import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path

from checks import DEVLOOP, VERSION, WORK, check, equal, finish, granted, project

# Warnings that are not taken up; every other one is a failure.
NOT_TAKEN_UP = {
    "E107": "takes a tool that a text names for one that must be called before",
    "W109": "wants examples inside the schema; ours stand beside it, as not every provider takes them there",
    "W110": "wants the names of parameters in the description, where the schema says them with a text of their own",
    "W103": "counts verbs in a description and takes four of them for four purposes",
    "W111": "wants 500 characters; up to 2,048 reach every client whole",
    "W115": "counts the output schema, too, which clients do not show their models",
    "W116": "looks for the word `returns`; what comes back is the outputSchema's to say",
}

# Fixed, so that two runs of one program send the same inputs.
FUZZ = ["--runs", "100", "--seed", "42"]


def run(what, directory, *options):
    # It cuts the server's command at every space, so both paths are given as seen from the working directory.
    work = Path(WORK)
    program = work / "devloop"
    if not program.exists():
        program.symlink_to(DEVLOOP)
    command = f"./devloop serve --agent pm --project-dir {directory.relative_to(work)}"
    done = subprocess.run(
        [sys.executable, "-m", "mcp_assert", what, "--server", command, "--json", *options],
        cwd=work, env={**os.environ, "HOME": WORK}, capture_output=True, text=True, timeout=120, check=False,
    )
    try:
        return done.returncode, json.loads(done.stdout)
    except json.JSONDecodeError:
        raise AssertionError(f"status {done.returncode}, no JSON: {done.stdout}{done.stderr}") from None


def files(directory):
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())


with check(f"it is version {VERSION}"):
    equal(importlib.metadata.version("mcp-assert"), VERSION)

with check("lint: no error, and no warning but those that are not taken up"):
    status, report = run("lint", project("lint"), "--call-tools")
    for finding in report["findings"]:
        if finding["code"] in NOT_TAKEN_UP:
            print(f"        {finding['tool']}: {finding['code']} not taken up: {NOT_TAKEN_UP[finding['code']]}")
    serious = [finding for finding in report["findings"] if finding["code"] not in NOT_TAKEN_UP]
    equal(serious, [])
    equal((status, report["tools"]), (0, len(granted("pm"))))

with check("audit: every tool of pm, called with inputs made from its schema, is healthy"):
    status, report = run("audit", project("audit"), "--include-writes")
    found = {result["tool"]: (result["status"], result["detail"]) for result in report["results"]}
    equal(sorted(found), sorted(tool["name"] for tool in granted("pm")))
    equal({name: verdict for name, verdict in found.items() if verdict[0] != "healthy"}, {})
    equal((status, report["score"]), (0, 100))

with check("fuzz: no input makes the server crash, hang or answer out of form"):
    directory = project("fuzz")
    status, report = run("fuzz", directory, *FUZZ)
    equal([failure for tool in report["tools"] for failure in tool.get("failures") or []], [])
    equal((status, len(report["tools"])), (0, len(granted("pm"))))

with check("fuzz: and nothing is written but state, the timeline and memories of the agent"):
    kept = ("agent-state/", "timeline.ndjson", "memory/devloop/pm/")
    equal([path for path in files(directory) if not path.startswith(kept)], [])

finish()
