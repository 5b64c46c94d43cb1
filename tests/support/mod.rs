//! The test harness: real servers, the real binary, and what lies between them; shared by all tests.

#![allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "each crate that includes this module uses its own part of it, and a panic is how a test fails"
)]

mod authorities;
mod child;
mod fifo;
mod finished;
mod installation;
pub mod look_alike;
mod machine;
pub mod network;
mod pglock;
mod pooler;
mod process;
mod proxy;
mod pty;
mod server;
mod server_log;
mod server_tls;
mod sessions;
mod shell;
mod side_by_side;
mod site;
mod standby;
mod stream;
mod sys;
mod traps;
mod wait;
mod waiter;
mod watchdog;

pub use authorities::Authorities;
pub use child::Running;
pub use fifo::write_to_reader;
pub use finished::Finished;
pub use installation::program;
pub use machine::{LIMIT, Machine};
pub use pglock::{Pglock, binary};
pub use pooler::{PoolMode, Pooler};
pub use process::{child_named, children_of, process_state};
pub use proxy::Proxy;
pub use pty::{Pty, open_terminal};
pub use server::{Server, Shutdown};
pub use sessions::{
    assert_free, await_heartbeats, await_solitude, backend_pid, holders, stop_in_a_try,
    terminate_holder, tickets, waiters,
};
pub use shell::{Interactive, on_terminal};
pub use side_by_side::{Case, Place, compare};
pub use site::Site;
pub use standby::Standby;
pub use traps::{await_look, counting, name_of};
pub use wait::{until, within};
pub use waiter::Waiter;
pub use watchdog::Watchdog;
