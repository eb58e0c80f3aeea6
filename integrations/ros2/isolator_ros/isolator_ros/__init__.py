# SPDX-License-Identifier: MIT OR Apache-2.0
"""Isolator in ROS 2: `actions` for launch files, `status` and `diagnostics` of what is measured."""
