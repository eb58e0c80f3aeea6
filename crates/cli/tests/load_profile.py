# SPDX-License-Identifier: MIT OR Apache-2.0
"""Loads the profile NAME below FOLDER as TuneD does, and prints its units as JSON:  load_profile.py FOLDER NAME

Fails where a plugin is not known, or says that it does not know an option. Applies nothing.
"""
import importlib
import inspect
import json
import logging
import sys
import types

import tuned.logs
from tuned import profiles
from tuned.plugins import base
from tuned.utils.commands import commands

# TuneD before 2.25 cannot do without this module, which Debian 12 does not have. Here it measures nothing.
sys.modules.setdefault("perf", types.ModuleType("perf"))
complaints = []
handler = logging.Handler()
handler.emit = lambda record: complaints.append(record.getMessage())
handler.setLevel(logging.WARNING)
log = tuned.logs.get()
log.handlers = [handler]

folder, name = sys.argv[1:]
variables = profiles.variables.Variables()
loader = profiles.Loader(profiles.Locator([folder]), profiles.Factory(), profiles.Merger(), None, variables)
units = {}
for unit in loader.load(name).units.values():
    module = importlib.import_module("tuned.plugins.plugin_" + unit.type)
    classes = [value for value in vars(module).values() if inspect.isclass(value)]
    [plugin] = [value for value in classes if issubclass(value, base.Plugin) and value.__module__ == module.__name__]
    # Made without its constructor, which looks at the machine.
    made = plugin.__new__(plugin)
    made._has_dynamic_options = "self._has_dynamic_options = True" in inspect.getsource(plugin)
    made._variables, made._cmd = variables, commands()
    # An option of every unit in some versions.
    priority = unit.options.pop("priority", None) or getattr(unit, "priority", None)
    options = made._get_effective_options(unit.options)
    units[unit.name] = {"priority": priority, "options": {key: options[key] for key in options if options[key] is not None}}
if complaints:
    sys.exit("\n".join(complaints))
print(json.dumps(units))
