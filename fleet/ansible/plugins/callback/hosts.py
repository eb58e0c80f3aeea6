# SPDX-License-Identifier: MIT OR Apache-2.0
"""What becomes of each machine: a line on the screen as it changes, and a JSON line for the program isolator."""

import json

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
    name: hosts
    type: stdout
    short_description: what becomes of each machine
    description:
        - Prints a line where a machine does something, fails or is not reached, and writes the same as JSON lines
          to the file named by E(ISOLATOR_EVENTS).
    options:
        events:
            description: The file.
            env: [{name: ISOLATOR_EVENTS}]
            type: path
            default: ""
"""

# Characters of a machine's words: more hides what other machines said.
LONGEST = 4096


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "isolator.rt.hosts"

    def _tell(self, kind, result, **more):
        host, task = _of(result, "host").get_name(), _of(result, "task").get_name().split(" : ")[-1]
        said = {"host": host, "task": task, "kind": kind, **more}
        if kind in ("changed", "failed", "unreachable"):
            words = [host, task if kind == "changed" else f"{kind}: {task}", (more.get("message") or "").split("\n")[0]]
            self._display.display(_clean(": ".join(word for word in words if word)))
        path = self.get_option("events")
        if path:
            with open(path, "a", encoding="utf-8") as out:
                out.write(json.dumps(said) + "\n")

    def v2_runner_on_ok(self, result):
        found = _of(result, "result")
        data = found.get("ansible_stats", {}).get("data")
        if data:
            self._tell("told", result, data=data)
        if found.get("changed"):
            self._tell("changed", result)

    def v2_runner_on_failed(self, result, ignore_errors=False):
        self._tell("failed", result, message=_why(_of(result, "result")))

    def v2_runner_on_unreachable(self, result):
        self._tell("unreachable", result, message=_why(_of(result, "result")))


def _of(result, name):
    """Ansible before 2.19 has these under their private names alone."""
    return getattr(result, name, None) or getattr(result, "_" + name)


def _clean(text):
    """Without what steers a terminal: a machine's words come from elsewhere."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


def _why(found):
    """The reason in one line: our program's last line, where it spoke."""
    said = [line for line in str(found.get("stderr") or "").splitlines() if line.strip()]
    said = said or [line for line in str(found.get("module_stderr") or "").splitlines() if line.strip()]
    return (said[-1] if said else str(found.get("msg") or "")).strip()[:LONGEST]
