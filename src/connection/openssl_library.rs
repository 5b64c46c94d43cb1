//! The system's OpenSSL, loaded when a connection is to be encrypted: that takes longer than all else that a run does before it connects,
//! and more memory than the rest of pglock.
//!
//! For each function of OpenSSL that pglock calls there is one of the same name here, which jumps to OpenSSL's. With that the linker has
//! found them all, and does not have the libraries loaded at the start. One that is missing here is found in the library, which is then
//! loaded at the start; all else stays as it is. So it is in builds without link-time optimisation: they refer to functions that nothing
//! calls.

use std::ffi::{CStr, c_void};
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use nix::libc;

/// OpenSSL 3 has the functions of all its releases under this name; for those of libcrypto it brings that library along.
const LIBRARY: &CStr = c"libssl.so.3";

/// Goes on at the address in `$slot`, with all arguments where they are; x16 is free between a call and the called (AAPCS64, 6.1.1).
#[cfg(target_arch = "x86_64")]
macro_rules! jump {
    ($slot:expr) => {
        concat!("jmp [rip + ", $slot, "]\n")
    };
}
#[cfg(target_arch = "aarch64")]
macro_rules! jump {
    ($slot:expr) => {
        concat!(
            "adrp x16, ",
            $slot,
            "\nldr x16, [x16, :lo12:",
            $slot,
            "]\nbr x16\n"
        )
    };
}

/// Defines the functions, and beside them the addresses where they go on.
macro_rules! functions {
    ($($name:ident)*) => {
        const NAMES: &[&str] = &[$(concat!(stringify!($name), "\0")),*];

        std::arch::global_asm!(
            ".pushsection .data",
            ".balign 8",
            ".globl pglock_openssl_addresses",
            ".hidden pglock_openssl_addresses",
            "pglock_openssl_addresses:",
            $(concat!(".Lpglock_", stringify!($name), ": .quad {not_loaded}"),)*
            ".popsection",
            ".pushsection .text",
            ".balign 4",
            $(concat!(
                ".globl ", stringify!($name), "\n",
                ".hidden ", stringify!($name), "\n",
                ".type ", stringify!($name), ", %function\n",
                stringify!($name), ":\n",
                jump!(concat!(".Lpglock_", stringify!($name))),
                ".size ", stringify!($name), ", . - ", stringify!($name),
            ),)*
            ".popsection",
            not_loaded = sym not_loaded
        );
    };
}

functions! {
    ASN1_STRING_get0_data
    ASN1_STRING_length
    ASN1_STRING_to_UTF8
    ASN1_STRING_type
    ASN1_TIME_print
    BIO_clear_flags
    BIO_ctrl
    BIO_free_all
    BIO_get_data
    BIO_meth_free
    BIO_meth_new
    BIO_meth_set_create
    BIO_meth_set_ctrl
    BIO_meth_set_destroy
    BIO_meth_set_puts
    BIO_meth_set_read
    BIO_meth_set_write
    BIO_new
    BIO_new_mem_buf
    BIO_s_mem
    BIO_set_data
    BIO_set_flags
    BIO_set_init
    CRYPTO_free
    CRYPTO_get_ex_new_index
    ERR_get_error_all
    ERR_lib_error_string
    ERR_reason_error_string
    EVP_PKEY_free
    EVP_get_digestbyname
    EVP_sha256
    GENERAL_NAME_free
    OBJ_find_sigid_algs
    OBJ_nid2sn
    OBJ_obj2nid
    OPENSSL_init_ssl
    OPENSSL_sk_free
    OPENSSL_sk_num
    OPENSSL_sk_pop
    OPENSSL_sk_value
    PEM_read_bio_PrivateKey
    PEM_read_bio_X509
    SSL_CTX_ctrl
    SSL_CTX_free
    SSL_CTX_get_cert_store
    SSL_CTX_get_ex_data
    SSL_CTX_new
    SSL_CTX_set_alpn_protos
    SSL_CTX_set_default_verify_paths
    SSL_CTX_set_ex_data
    SSL_CTX_set_options
    SSL_CTX_set_verify
    SSL_CTX_up_ref
    SSL_CTX_use_PrivateKey
    SSL_CTX_use_certificate
    SSL_connect
    SSL_ctrl
    SSL_free
    SSL_get0_alpn_selected
    SSL_get0_param
    SSL_get1_peer_certificate
    SSL_get_error
    SSL_get_ex_data
    SSL_get_ex_data_X509_STORE_CTX_idx
    SSL_get_rbio
    SSL_new
    SSL_peek_ex
    SSL_read_ex
    SSL_set_bio
    SSL_set_ex_data
    SSL_shutdown
    SSL_write_ex
    TLS_client_method
    X509_ALGOR_get0
    X509_LOOKUP_ctrl
    X509_LOOKUP_file
    X509_LOOKUP_hash_dir
    X509_NAME_ENTRY_get_data
    X509_NAME_entry_count
    X509_NAME_get_entry
    X509_NAME_get_index_by_NID
    X509_STORE_CTX_get_current_cert
    X509_STORE_CTX_get_error
    X509_STORE_CTX_get_ex_data
    X509_STORE_CTX_set_error
    X509_STORE_add_cert
    X509_STORE_add_lookup
    X509_STORE_set_flags
    X509_VERIFY_PARAM_set1_host
    X509_VERIFY_PARAM_set1_ip
    X509_VERIFY_PARAM_set_hostflags
    X509_digest
    X509_free
    X509_get0_signature
    X509_get_ext_d2i
    X509_get_subject_name
    X509_getm_notAfter
    X509_getm_notBefore
    X509_load_crl_file
    X509_verify_cert_error_string
}

unsafe extern "C" {
    /// Where the functions above go on, in the order of [`NAMES`].
    #[link_name = "pglock_openssl_addresses"]
    static ADDRESSES: [AtomicPtr<c_void>; NAMES.len()];
}

extern "C" fn not_loaded() {
    unreachable!("OpenSSL is called before it is loaded");
}

/// Has the functions of OpenSSL work: to be called before any of them is. The error says what the system lacks.
pub fn load() -> io::Result<()> {
    static LOADED: OnceLock<()> = OnceLock::new();
    if LOADED.get().is_some() {
        return Ok(());
    }
    // SAFETY: the name ends with a zero byte; what the library does when it is loaded is what it would do at the start.
    let library = unsafe { libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_NOW) };
    if library.is_null() {
        return Err(last_error());
    }
    // SAFETY: the assembler above made as many of them as there are names, aligned, each as large as an address.
    let addresses = unsafe { &ADDRESSES };
    for (name, address) in NAMES.iter().zip(addresses) {
        // SAFETY: the name ends with a zero byte, and the library stays loaded.
        let function = unsafe { libc::dlsym(library, name.as_ptr().cast()) };
        if function.is_null() {
            return Err(last_error());
        }
        address.store(function, Ordering::Release);
    }
    let _ = LOADED.set(());
    Ok(())
}

/// What the dynamic loader has to say about its last failure; it names the library.
fn last_error() -> io::Error {
    // SAFETY: there is a text after a failure, it ends with a zero byte, and it is good until this thread's next failure.
    let text = unsafe { CStr::from_ptr(libc::dlerror()) };
    io::Error::other(format!(
        "OpenSSL cannot be loaded: {}",
        text.to_string_lossy()
    ))
}
