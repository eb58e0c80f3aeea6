// SPDX-License-Identifier: MIT OR Apache-2.0
//! The system calls of storms that no safe library offers. All `unsafe` of the crate is here.
