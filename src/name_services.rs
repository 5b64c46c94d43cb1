//! What a statically linked C library asks for the names of hosts and users (nsswitch.conf(5)).

/// Keeps it to what it can do by itself: `/etc/hosts`, DNS and `/etc/passwd`, whatever `/etc/nsswitch.conf` says.
///
/// For anything else (LDAP, `resolve`, `myhostname` …) it would load libraries of the system's C library, and those fit only the very
/// same version of it: with another the process crashes. To be called before anything looks a name up.
#[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
#[expect(unsafe_code, reason = "no crate has this function of glibc")]
pub fn keep_to_built_in() {
    use std::ffi::{CStr, c_char, c_int};

    unsafe extern "C" {
        // In <nss.h>.
        fn __nss_configure_lookup(database: *const c_char, services: *const c_char) -> c_int;
    }

    const SERVICES: [(&CStr, &CStr); 2] = [(c"hosts", c"files dns"), (c"passwd", c"files")];
    for (database, services) in SERVICES {
        // SAFETY: both end with a zero byte, and glibc keeps neither. It fails only for lack of memory or for words that it does not know.
        unsafe { __nss_configure_lookup(database.as_ptr(), services.as_ptr()) };
    }
}

/// A shared C library loads what `/etc/nsswitch.conf` says.
#[cfg(not(all(target_env = "gnu", target_feature = "crt-static")))]
pub fn keep_to_built_in() {}
