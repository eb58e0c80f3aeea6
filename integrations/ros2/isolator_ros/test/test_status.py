# SPDX-License-Identifier: MIT OR Apache-2.0
"""Figures of a monitor as diagnostics: read, judged, and published."""

import http.server
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

ROOT = str(pathlib.Path(__file__).resolve().parents[1])
sys.path.insert(0, ROOT)

from isolator_ros import diagnostics, status  # noqa: E402

FIGURES = '''\
# HELP isolator_latency_seconds Wakeup latencies.
# TYPE isolator_latency_seconds histogram
isolator_latency_seconds_bucket{loop="ser\\"vo}",probe="loop",load="idle",cpu="3",le="0.0001220703125"} LOW
isolator_latency_seconds_bucket{loop="ser\\"vo}",probe="loop",load="idle",cpu="3",le="0.000244140625"} COUNT
isolator_latency_seconds_bucket{loop="ser\\"vo}",probe="loop",load="idle",cpu="3",le="+Inf"} COUNT
isolator_latency_seconds_sum{loop="ser\\"vo}",probe="loop",load="idle",cpu="3"} 0.5
isolator_latency_seconds_count{loop="ser\\"vo}",probe="loop",load="idle",cpu="3"} COUNT
isolator_late_cycles_total{loop="ser\\"vo}",probe="loop",load="idle",cpu="3"} LATE
isolator_missed_periods_total{loop="ser\\"vo}",probe="loop",load="idle",cpu="3"} MISSED
isolator_lost_cycles_total{loop="ser\\"vo}",probe="loop",load="idle",cpu="3"} LOST
isolator_limit_seconds{loop="ser\\"vo}",probe="loop",load="idle",cpu="3"} 0.0001
'''


def figures(count, late=0, missed=0, lost=0):
    text = FIGURES.replace('LOW', str(max(count - 1, 0))).replace('COUNT', str(count))
    return text.replace('LATE', str(late)).replace('MISSED', str(missed)).replace('LOST', str(lost))


class OfText(unittest.TestCase):
    def test_a_row_has_what_the_text_says_of_it(self):
        [(key, row)] = status.rows(figures(1000, late=2, missed=1, lost=3)).items()
        self.assertEqual(key, ('ser"vo}', 'loop', 'idle', '3'))
        self.assertEqual((row['count'], row['within']), (1000, 0.000244140625))
        [one] = status.Judge().statuses(figures(1000, late=2, missed=1, lost=3))
        self.assertEqual(one.name, 'isolator: loop of ser"vo} under idle on cpu 3')
        self.assertEqual(one.message, '2 late, 1 missed of 1001')
        self.assertEqual(one.values, [('samples', '1000'), ('all within', '244 us'), ('late cycles', '2'),
                                      ('missed periods', '1'), ('lost cycles', '3'), ('limit', '100 us')])

    def test_a_level_is_of_what_is_new(self):
        judge = status.Judge()

        def level(**counts):
            return judge.statuses(figures(1000, **counts))[0].level

        self.assertEqual(level(), status.OK)
        self.assertEqual(level(late=1), status.ERROR)
        self.assertEqual(level(late=1), status.WARN)
        self.assertEqual(level(late=1, missed=1), status.ERROR)
        # The next run begins at 0.
        self.assertEqual(level(), status.OK)
        self.assertEqual(level(lost=1), status.WARN)

    def test_what_is_no_figure_is_passed_over(self):
        self.assertEqual(status.rows('# EOF\nother_metric{cpu="1"} 2\nisolator_x 1\nisolator_y{cpu="1} 2\n'), {})
        [one] = status.Judge().statuses(figures(0))
        self.assertEqual((one.level, one.values[1]), (status.OK, ('all within', 'no samples')))


class OfASource(unittest.TestCase):
    def test_a_file_and_an_address_are_read(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, 'figures.prom')
            pathlib.Path(path).write_text(figures(10), encoding='utf-8')
            from_file = diagnostics.statuses(path, status.Judge())
            self.assertEqual([one.level for one in from_file], [status.OK])

            class Handler(http.server.BaseHTTPRequestHandler):
                def do_GET(self):
                    self.send_response(200 if self.path == '/metrics' else 404)
                    self.end_headers()
                    self.wfile.write(figures(10).encode())

                def log_message(self, *_):
                    pass

            server = http.server.HTTPServer(('127.0.0.1', 0), Handler)
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            try:
                source = '127.0.0.1:%d' % server.server_address[1]
                self.assertEqual(diagnostics.statuses(source, status.Judge()), from_file)
            finally:
                server.shutdown()
                thread.join()
                server.server_close()
            [gone] = diagnostics.statuses(source, status.Judge())
            self.assertEqual(gone.level, status.STALE)
            self.assertIn(source, gone.message)

    def test_a_message_has_each_status(self):
        try:
            from builtin_interfaces.msg import Time
            from diagnostic_msgs.msg import DiagnosticStatus
        except ImportError:
            self.skipTest('it needs ROS 2: diagnostic_msgs')
        made = status.Judge().statuses(figures(1000, late=2)) + [status.stale('x', 'gone')]
        array = diagnostics.message(made, 'bench', Time(sec=1))
        self.assertEqual([one.level for one in array.status], [DiagnosticStatus.ERROR, DiagnosticStatus.STALE])
        first = array.status[0]
        self.assertEqual((first.hardware_id, first.name), ('bench', made[0].name))
        self.assertEqual([(value.key, value.value) for value in first.values], made[0].values)
        self.assertEqual(array.header.stamp.sec, 1)

    def test_the_node_publishes_what_the_source_has(self):
        try:
            import rclpy
            from diagnostic_msgs.msg import DiagnosticArray
        except ImportError:
            self.skipTest('it needs ROS 2: rclpy, diagnostic_msgs')
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, 'figures.prom')
            pathlib.Path(path).write_text(figures(10, late=1), encoding='utf-8')
            command = [sys.executable, '-m', 'isolator_ros.diagnostics', '--ros-args', '-p', 'source:=' + path, '-p', 'period:=0.1']
            environment = dict(os.environ, ROS_DOMAIN_ID='97', ROS_LOG_DIR=folder)
            environment['PYTHONPATH'] = os.pathsep.join(filter(None, [ROOT, environment.get('PYTHONPATH')]))
            os.environ.update(ROS_DOMAIN_ID='97', ROS_LOG_DIR=folder)
            node = subprocess.Popen(command, env=environment)
            rclpy.init()
            listener, seen = rclpy.create_node('listener'), []
            listener.create_subscription(DiagnosticArray, '/diagnostics', seen.append, 10)
            try:
                for _ in range(600):
                    if seen or node.poll() is not None:
                        break
                    rclpy.spin_once(listener, timeout_sec=0.1)
            finally:
                node.send_signal(signal.SIGINT)
                ended = node.wait(timeout=60)
                listener.destroy_node()
                rclpy.shutdown()
            self.assertEqual(ended, 0)
            [one] = seen[0].status
            # Late before it was judged first, or since.
            self.assertIn(one.level, (bytes([status.ERROR]), bytes([status.WARN])))
            self.assertEqual(one.message, '1 late, 0 missed of 10')


if __name__ == '__main__':
    unittest.main()
