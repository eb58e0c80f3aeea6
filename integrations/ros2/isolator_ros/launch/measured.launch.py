# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Starts ros2_control's node in real time, measures its loops and publishes diagnostics.

    ros2 launch isolator_ros measured.launch.py cpus:=3 limit:=100us parameters:=robot.yaml
"""

from isolator_ros.actions import Measure, real_time
from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

ADDRESS = '127.0.0.1:9750'
ARGUMENTS = {
    'package': 'controller_manager',
    'executable': 'ros2_control_node',
    'parameters': '',
    'cpus': '',
    'priority': '80',
    'limit': '10%',
}


def nodes(context):
    """Return the nodes, of the arguments as they are now."""
    given = {name: LaunchConfiguration(name).perform(context) for name in ARGUMENTS}
    node = Node(
        package=given['package'],
        executable=given['executable'],
        parameters=[given['parameters']] if given['parameters'] else [],
        prefix=real_time(cpus=given['cpus'] or None, priority=given['priority']),
        output='both',
    )
    diagnostics = Node(package='isolator_ros', executable='diagnostics', parameters=[{'source': ADDRESS}])
    return [node, Measure(node, limit=given['limit'], prometheus=ADDRESS), diagnostics]


def generate_launch_description():
    """Return the node, its monitor, and the node of diagnostics."""
    arguments = [DeclareLaunchArgument(name, default_value=value) for name, value in ARGUMENTS.items()]
    return LaunchDescription(arguments + [OpaqueFunction(function=nodes)])
