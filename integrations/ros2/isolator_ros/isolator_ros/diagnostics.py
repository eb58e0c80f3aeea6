# SPDX-License-Identifier: MIT OR Apache-2.0
"""A node that publishes the figures of `isolator monitor --prometheus` on /diagnostics."""

import socket
import urllib.request

from isolator_ros import status

# No answer of a monitor is longer.
LONGEST = 4 << 20


def read(source):
    """Return the text at `source`: the path of a file, or ADDRESS:PORT, or the address of a page."""
    if source.startswith('/'):
        with open(source, encoding='utf-8') as file:
            return file.read(LONGEST)
    page = source if '://' in source else 'http://%s/metrics' % source
    with urllib.request.urlopen(page, timeout=1) as answer:
        return answer.read(LONGEST).decode('utf-8')


def statuses(source, judge):
    """Return the statuses of a source, or that it cannot be read."""
    try:
        return judge.statuses(read(source))
    except (OSError, ValueError) as why:
        return [status.stale(source, why)]


def message(made, hardware, stamp):
    """Return statuses as diagnostic_msgs/DiagnosticArray."""
    from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
    array = DiagnosticArray()
    array.header.stamp = stamp
    for one in made:
        values = [KeyValue(key=key, value=value) for key, value in one.values]
        array.status.append(DiagnosticStatus(level=bytes([one.level]), name=one.name, message=one.message,
                                             hardware_id=hardware, values=values))
    return array


def main():
    """Publish until the node is shut down."""
    import rclpy
    from diagnostic_msgs.msg import DiagnosticArray
    from rclpy.executors import ExternalShutdownException

    rclpy.init()
    node = rclpy.create_node('isolator_diagnostics')
    source = node.declare_parameter('source', '127.0.0.1:9750').value
    period = node.declare_parameter('period', 1.0).value
    publisher = node.create_publisher(DiagnosticArray, '/diagnostics', 1)
    judge, hardware = status.Judge(), socket.gethostname()

    def publish():
        stamp = node.get_clock().now().to_msg()
        publisher.publish(message(statuses(source, judge), hardware, stamp))

    node.create_timer(period, publish)
    try:
        rclpy.spin(node)
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    finally:
        node.destroy_node()
        rclpy.try_shutdown()


if __name__ == '__main__':
    main()
