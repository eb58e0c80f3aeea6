// SPDX-License-Identifier: MIT OR Apache-2.0
//! HTML and terminal views of evidence.
