//! Tests of the real binary on real servers: one module for each subject.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod assets;
mod beside_flock;
mod check;
mod connection;
mod exclusion;
mod exit_codes;
mod guardian;
mod harness;
mod inheritance;
mod init;
mod interrupts;
mod job_control;
mod keys;
mod lease;
mod list;
mod lost_session;
mod many_holders;
mod parity;
mod password_prompt;
mod poolers;
mod readme;
mod regressions;
mod regressions_cancelled;
mod regressions_connection;
mod regressions_processes;
mod regressions_signals;
mod regressions_told;
mod release;
mod round_trips;
mod scope_transaction;
mod secrets;
mod server_log;
mod sharing_out;
mod signals;
mod support;
mod templates;
mod terminal;
mod terminal_signals;
mod tls;
mod tls_direct;
mod unfit_servers;
mod usage;
mod vanished_host;
mod waiting;
