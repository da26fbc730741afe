"""Counts checks and holds what the scripts in Python share. A check that raises has failed; the next one still runs."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

try:
    CLIENT, VERSION, DEVLOOP, WORK = (os.environ[name] for name in ("CLIENT", "VERSION", "DEVLOOP", "WORK"))
except KeyError as missing:
    sys.exit(f"{missing} is not set: start this script through tests/clients/run")

HERE = Path(__file__).resolve().parent
CASES = json.loads((HERE / "cases.json").read_text(encoding="utf-8"))

_counts = {"passed": 0, "failed": 0}


@contextmanager
def check(what):
    try:
        yield
    except Exception as error:  # A client may raise anything; whatever it is, this check has failed.
        _counts["failed"] += 1
        print(f"  FAIL  {what}")
        for line in (str(error) or repr(error)).splitlines():
            print(f"        {line}")
    else:
        _counts["passed"] += 1
        print(f"  ok    {what}", flush=True)


def finish():
    print(f"{CLIENT} {VERSION}: {_counts['passed']} passed, {_counts['failed']} failed", flush=True)
    # Not sys.exit: a client that has left a thread behind must not hold the run up.
    os._exit(1 if _counts["failed"] else 0)


def _too_long(_signal, _frame):
    with check("it ends"):
        raise AssertionError("no end after 180 s")
    finish()


# Nothing here takes long; a client that waits for an answer that never comes must not hold the run up.
signal.signal(signal.SIGALRM, _too_long)
signal.alarm(180)


def project(name):
    """An empty project directory."""
    directory = Path(WORK) / name / "data/companies/acme/projects/shop"
    directory.mkdir(parents=True)
    return directory


def serve(agent, directory, *more):
    """The arguments of `devloop` that serve one agent."""
    return ["serve", "--agent", agent, "--project-dir", str(directory), *more]


# Every agent has them, without a grant. What reaches upstream servers is served only where there are some.
FOR_ALL = ("read_artifact", "tool_search")


def granted(agent):
    """What an agent's model is given: by the repository's word, and what all have, by the program's."""
    path = HERE.parents[1] / f"generated/agents/devloop-{agent}/tools.json"
    printed = subprocess.run([DEVLOOP, "tools", "--format", "anthropic"], capture_output=True, text=True, check=True)
    for_all = [tool for tool in json.loads(printed.stdout)["tools"] if tool["name"] in FOR_ALL]
    return json.loads(path.read_text(encoding="utf-8"))["tools"] + for_all


def todo(directory, key):
    """The todo list on disk; None when there is none."""
    path = directory / f"agent-state/{key}-todo.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def equal(found, expected):
    assert found == expected, f"found    {found!r}\nexpected {expected!r}"


def includes(found, expected):
    """Outputs are open: a field more breaks nobody, so only the expected ones are looked at."""
    assert isinstance(found, dict), f"not an object: {found!r}"
    equal({key: found.get(key) for key in expected}, expected)


def is_on_disk(file, agent, sent, current):
    """That a file holds the items that were sent, none begun."""
    includes(file, {"agent": agent, "current": current, "progress_pct": 0})
    shape = lambda item, status: (item["id"], item["description"], item.get("depends_on", []), status)
    equal([shape(item, item["status"]) for item in file["items"]], [shape(item, "todo") for item in sent])


def names(text, wanted):
    for word in wanted:
        assert word in text, f"the text does not name {word}: {text}"


def is_gone(directory):
    """That no server of this project outlives its client."""

    def left():
        lines = subprocess.run(["ps", "-A", "-ww", "-o", "args="], capture_output=True, text=True, check=True).stdout
        return [line for line in lines.splitlines() if " serve " in line and str(directory) in line]

    for _ in range(50):
        if not left():
            break
        time.sleep(0.1)
    equal(left(), [])
