//! Ctrl-C and its like: a campaign that is told to end does so in order, and leaves nothing stopped behind.

use std::sync::Arc;
use std::thread;

use nix::sys::signal::{SigSet, Signal};

use crate::testbed::Testbed;

/// Blocks the signals in this thread and all that it starts; std unblocks them in the programs it starts.
pub fn block() -> nix::Result<SigSet> {
    let endings: SigSet = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP]
        .into_iter()
        .collect();
    endings.thread_block()?;
    Ok(endings)
}

/// Lets the first of them end the campaign.
pub fn heed(endings: SigSet, testbed: Arc<Testbed>) {
    thread::spawn(move || {
        if endings.wait().is_ok() {
            testbed.finish();
        }
    });
}
