# SPDX-License-Identifier: MIT OR Apache-2.0
from setuptools import setup

NAME = 'isolator_ros'

setup(
    name=NAME,
    version='0.2.0',
    packages=[NAME],
    data_files=[
        ('share/ament_index/resource_index/packages', ['resource/' + NAME]),
        ('share/' + NAME, ['package.xml']),
        ('share/' + NAME + '/launch', ['launch/measured.launch.py']),
    ],
    install_requires=['setuptools'],
    extras_require={'test': ['pytest']},
    zip_safe=True,
    maintainer='The Isolator developers',
    maintainer_email='isolator@localhost.localdomain',
    description='Starts nodes in real time, measures their loops, and publishes diagnostics',
    license='MIT OR Apache-2.0',
    entry_points={'console_scripts': ['diagnostics = isolator_ros.diagnostics:main']},
)
