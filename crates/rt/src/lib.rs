// SPDX-License-Identifier: MIT OR Apache-2.0
//! Real-time set-up, clock and power management for programs with a deadline.
