// SPDX-License-Identifier: MIT OR Apache-2.0
//! The shared library's name for programs that were linked with it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|libc| libc == "gnu") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libisolator.so.0");
    }
}
