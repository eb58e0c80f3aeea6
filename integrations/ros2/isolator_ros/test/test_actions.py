# SPDX-License-Identifier: MIT OR Apache-2.0
"""The launch actions under ROS 2's own launch service, which ISOLATOR (the program) then measures for."""

import json
import os
import pathlib
import runpy
import shlex
import shutil
import sys
import tempfile
import unittest

ROOT = str(pathlib.Path(__file__).resolve().parents[1])
sys.path.insert(0, ROOT)

try:
    from isolator_ros.actions import Measure, real_time
    from launch import LaunchContext, LaunchDescription, LaunchService
    from launch.actions import EmitEvent, ExecuteProcess, RegisterEventHandler
    from launch.event_handlers import OnProcessExit
    from launch.events import Shutdown
    MISSING = None
except ImportError as why:
    MISSING = str(why)

# Prints its policy.
TARGET = 'import os, time; print(os.sched_getscheduler(0), flush=True); time.sleep(60)'


@unittest.skipIf(MISSING, 'it needs ROS 2: %s' % MISSING)
class Actions(unittest.TestCase):
    def launch(self, *actions):
        service = LaunchService(noninteractive=True)
        service.include_launch_description(LaunchDescription(list(actions)))
        return service.run()

    def stand_in(self, folder):
        """Return a program that leaves its arguments in a file."""
        path = pathlib.Path(folder) / 'program'
        path.write_text('#!/bin/sh\nprintf "%%s\\n" "$@" >%s/arguments\n' % shlex.quote(folder), encoding='utf-8')
        path.chmod(0o755)
        return str(path)

    def test_the_monitor_is_given_the_process_and_the_options(self):
        with tempfile.TemporaryDirectory() as folder:
            target = ExecuteProcess(cmd=[sys.executable, '-c', TARGET])
            measure = Measure(target, limit='100us', threads=['servo', 'io'], prometheus='127.0.0.1:9750',
                              output='robot', arguments=['--flight'], after=0.1, program=self.stand_in(folder))

            def monitor_ended(event, _):
                # The target ends by the end of the launch, and so later.
                return [EmitEvent(event=Shutdown())] if event.action is not target else None

            self.launch(target, measure, RegisterEventHandler(OnProcessExit(on_exit=monitor_ended)))
            pid = str(target.process_details['pid'])
            given = (pathlib.Path(folder) / 'arguments').read_text(encoding='utf-8').splitlines()
            self.assertEqual(given, ['monitor', pid, '--limit', '100us', '--thread', 'servo,io', '--prometheus',
                                     '127.0.0.1:9750', '--output', 'robot', '--flight'])

    def test_the_launch_file_measures_the_node_that_it_is_given(self):
        try:
            from launch_ros.actions import Node
        except ImportError as missing:
            self.skipTest('it needs ROS 2: %s' % missing)
        path = pathlib.Path(ROOT) / 'launch' / 'measured.launch.py'
        file = runpy.run_path(str(path))
        declared = {action.name for action in file['generate_launch_description']().entities[:-1]}
        self.assertEqual(declared, set(file['ARGUMENTS']))
        context = LaunchContext()
        context.launch_configurations.update(file['ARGUMENTS'], cpus='3')
        node, measure, diagnostics = file['nodes'](context)
        self.assertIsInstance(node, Node)
        prefix = ''.join(part.perform(context) for part in node.process_description.prefix)
        self.assertEqual(prefix, 'isolator run --policy fifo --priority 80 --cpus 3 --')
        self.assertEqual(measure.command(7)[1:], ['monitor', '7', '--limit', '10%', '--prometheus', '127.0.0.1:9750'])
        self.assertIsInstance(diagnostics, Node)

    def test_a_node_is_started_in_real_time(self):
        program = os.environ.get('ISOLATOR')
        if not program or os.geteuid() != 0:
            self.skipTest('it needs root, and the program in ISOLATOR')
        target = ExecuteProcess(cmd=[sys.executable, '-c', TARGET.replace('60', '0')], cached_output=True,
                                prefix=real_time(cpus='0', priority=10, program=program))
        self.launch(target)
        self.assertEqual(target.get_stdout().split()[0], str(os.SCHED_FIFO))

    def test_the_loops_of_a_program_become_a_bundle(self):
        program, target = os.environ.get('ISOLATOR'), shutil.which('cyclictest')
        if not program or not target or os.geteuid() != 0:
            self.skipTest('it needs root, cyclictest, and the program in ISOLATOR')
        with tempfile.TemporaryDirectory() as folder:
            bundle = os.path.join(folder, 'bundle')
            target = ExecuteProcess(cmd=[target, '-q', '-t', '1', '-i', '2000', '-p', '80', '-D', '60'])
            measure = Measure(target, limit='1ms', output=bundle, arguments=['--duration', '1s'], after=0.5,
                              program=program)

            def monitor_ended(event, _):
                return [EmitEvent(event=Shutdown())] if event.action is not target else None

            self.launch(target, measure, RegisterEventHandler(OnProcessExit(on_exit=monitor_ended)))
            manifest = json.loads((pathlib.Path(bundle) / 'manifest.json').read_text(encoding='utf-8'))
            rows = [(row['probe'], row['thread']['name']) for row in manifest['rows']]
            self.assertEqual(rows, [(probe, 'cyclictest') for probe in ('loop', 'execution', 'response')])


if __name__ == '__main__':
    unittest.main()
