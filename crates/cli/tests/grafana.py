# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reads a dashboard into Grafana's own types and writes it again:  grafana.py DASHBOARD

Prints each key and value that Grafana's types do not have, as a JSON list of paths.
"""
import json
import pathlib
import sys

from grafana_foundation_sdk.cog import encoder, plugins
from grafana_foundation_sdk.models import dashboard

plugins.register_default_plugins()
given = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
kept = json.loads(encoder.JSONEncoder().encode(dashboard.Dashboard.from_json(given)))
lost = []


def compare(one, other, path):
    if isinstance(one, dict):
        for key in one:
            if not isinstance(other, dict) or key not in other:
                lost.append(path + "/" + key)
            else:
                compare(one[key], other[key], path + "/" + key)
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, (left, right) in enumerate(zip(one, other)):
            compare(left, right, "%s/%d" % (path, number))
    elif one != other:
        lost.append(path)


compare(given, kept, "")
print(json.dumps(lost))
