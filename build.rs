//! Decides whether OpenSSL is loaded when it is needed: `cfg(openssl_when_needed)`, for `src/connection/openssl_library.rs`.

#![allow(clippy::print_stdout, reason = "cargo reads it")]

use std::env;

fn main() {
    println!("cargo::rustc-check-cfg=cfg(openssl_when_needed)");
    println!("cargo::rerun-if-changed=build.rs");
    if is_openssl_3() && !is_chosen() && is_known_target() {
        println!("cargo::rustc-cfg=openssl_when_needed");
    }
}

/// Its libraries have the same names and functions in all releases of version 3. What openssl-sys found is in `DEP_OPENSSL_*`: the
/// number is hexadecimal, and the libraries derived from OpenSSL have none.
fn is_openssl_3() -> bool {
    let number = env::var("DEP_OPENSSL_VERSION_NUMBER").unwrap_or_default();
    number.len() == 8 && number.starts_with('3')
}

/// Whether it is to be a certain one, or static: that is linked as usual.
fn is_chosen() -> bool {
    const CHOICES: [&str; 5] = [
        "OPENSSL_DIR",
        "OPENSSL_LIB_DIR",
        "OPENSSL_LIBS",
        "OPENSSL_STATIC",
        "PKG_CONFIG_ALL_STATIC",
    ];
    let target = env::var("TARGET").unwrap_or_default();
    let target = target.to_uppercase().replace('-', "_");
    let variables = CHOICES
        .into_iter()
        .flat_map(|choice| [choice.to_owned(), format!("{target}_{choice}")]);
    let mut is_chosen = env::var_os("CARGO_FEATURE_VENDORED_OPENSSL").is_some();
    for variable in variables {
        println!("cargo::rerun-if-env-changed={variable}");
        is_chosen |= env::var_os(variable).is_some();
    }
    is_chosen
}

/// One whose C library can load others, and for which there are jumps.
fn is_known_target() -> bool {
    let target = |what| env::var(format!("CARGO_CFG_TARGET_{what}")).unwrap_or_default();
    let is_static = target("FEATURE")
        .split(',')
        .any(|name| name == "crt-static");
    target("OS") == "linux"
        && target("ENV") == "gnu"
        && target("POINTER_WIDTH") == "64"
        && matches!(target("ARCH").as_str(), "x86_64" | "aarch64")
        && !is_static
}
