// SPDX-License-Identifier: MIT OR Apache-2.0
//! Background loads on housekeeping CPUs, verified, and gone after the run.
