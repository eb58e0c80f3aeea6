# SPDX-License-Identifier: MIT OR Apache-2.0
"""
What a launch file needs to start a node in real time and to measure it.

    node = Node(package='robot', executable='controller', prefix=real_time(cpus='3', priority=80))
    LaunchDescription([node, Measure(node, limit='100us', prometheus='127.0.0.1:9750')])
"""

import shutil

from launch.action import Action
from launch.actions import ExecuteProcess, RegisterEventHandler, TimerAction
from launch.event_handlers import OnProcessStart


def real_time(cpus=None, priority=80, policy='fifo', program='isolator'):
    """
    Return the `prefix` of a node that runs with this policy, on these CPUs.

    The program executes the node in its place, so that both have one process number. The user needs
    the right to such priorities: see `isolator setup-user`.
    """
    words = [program, 'run', '--policy', policy]
    if policy in ('fifo', 'rr'):
        words += ['--priority', str(priority)]
    if cpus is not None:
        words += ['--cpus', str(cpus)]
    return ' '.join(words + ['--'])


def monitor_program():
    """Return the copy that `isolator setup-user --capabilities bpf` makes, or else the program."""
    return 'isolator-realtime' if shutil.which('isolator-realtime') else 'isolator'


class Measure(Action):
    """
    Runs `isolator monitor` beside a node from its start to its end, or to the end of the launch.

    :param target: the node, or any other action that executes a process
    :param limit: the largest latency of its loops, as '100us' or '10%'
    :param threads: names of threads to follow; by default all real-time ones
    :param prometheus: an address with a port, or a file, for the figures: what the node
        `diagnostics` of this package reads
    :param output: the folder of the bundle, which must not hold one yet
    :param arguments: more options of `isolator monitor`
    :param after: seconds to wait, since a node's loops begin some time after its process
    :param program: the program to run
    """

    def __init__(self, target, *, limit=None, threads=(), prometheus=None, output=None, arguments=(),
                 after=5.0, program=None, **kwargs):
        super().__init__(**kwargs)
        self.__target = target
        self.__after = after
        self.__program = program or monitor_program()
        self.__options = []
        named = [('--limit', limit), ('--thread', ','.join(threads) or None),
                 ('--prometheus', prometheus), ('--output', output)]
        for name, value in named:
            self.__options += [] if value is None else [name, str(value)]
        self.__options += [str(argument) for argument in arguments]

    def command(self, pid):
        """Return the command that follows the process `pid`."""
        return [self.__program, 'monitor', str(pid)] + self.__options

    def __on_start(self, event, context):
        # At its end it writes a bundle and the report.
        monitor = ExecuteProcess(cmd=self.command(event.pid), name='isolator', output='both',
                                 sigterm_timeout='60', sigkill_timeout='30')
        return [TimerAction(period=self.__after, actions=[monitor])]

    def execute(self, context):
        """Wait for the start of the target."""
        handler = OnProcessStart(target_action=self.__target, on_start=self.__on_start)
        return [RegisterEventHandler(handler)]
