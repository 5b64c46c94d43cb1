//! Decides whether OpenSSL is loaded when it is needed: `cfg(openssl_when_needed)`, for `src/connection/openssl_library.rs`.

#![allow(clippy::print_stdout, reason = "cargo reads it")]

use std::env;

fn main() {
    println!("cargo::rustc-check-cfg=cfg(openssl_when_needed)");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=OPENSSL_STATIC");
    println!("cargo::rerun-if-env-changed=PKG_CONFIG_ALL_STATIC");
    if is_shared_openssl_3() && is_known_target() {
        println!("cargo::rustc-cfg=openssl_when_needed");
    }
}

/// Its libraries have the same names and functions in all releases of version 3. What openssl-sys found is in `DEP_OPENSSL_*`: the
/// number is hexadecimal, and the libraries derived from OpenSSL have none.
fn is_shared_openssl_3() -> bool {
    let number = env::var("DEP_OPENSSL_VERSION_NUMBER").unwrap_or_default();
    let is_set = |variable| env::var_os(variable).is_some_and(|value| value != "0");
    number.len() == 8
        && number.starts_with('3')
        && !is_set("OPENSSL_STATIC")
        && !is_set("PKG_CONFIG_ALL_STATIC")
        && !is_set("CARGO_FEATURE_VENDORED_OPENSSL")
}

/// One whose C library can load others, and for which there are jumps.
fn is_known_target() -> bool {
    let target = |what| env::var(format!("CARGO_CFG_TARGET_{what}")).unwrap_or_default();
    let is_static = target("FEATURE")
        .split(',')
        .any(|name| name == "crt-static");
    target("OS") == "linux"
        && target("ENV") == "gnu"
        && matches!(target("ARCH").as_str(), "x86_64" | "aarch64")
        && !is_static
}
