//! What one run costs: wall time, and the processor time of all its processes.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use nix::sys::prctl::set_child_subreaper;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use nix::sys::wait::wait;

#[derive(Clone, Copy)]
pub struct Usage {
    pub wall: Duration,
    /// User and system time of the program, its command and whatever else it started, on this side of the connection.
    pub processor: Duration,
}

/// From here on processes whose parents have ended are children of this one, so that their time is counted too.
pub fn adopt_orphans() -> Result<()> {
    set_child_subreaper(true).context("cannot become a subreaper")
}

/// Runs a command that has to succeed: the wall time from before its start until it is reaped, the processor time until the last of
/// its processes is (pglock's guardian ends after it). Nothing else may be a child of this process meanwhile.
pub fn run(command: &mut Command) -> Result<Usage> {
    let before = processor_time_of_children()?;
    let wall = time(command)?;
    reap_all()?;
    let processor = processor_time_of_children()?.saturating_sub(before);
    Ok(Usage { wall, processor })
}

/// The same beside other children; the processor time is that of the command itself.
pub fn run_beside_others(command: &mut Command) -> Result<Usage> {
    let before = processor_time_of_children()?;
    let wall = time(command)?;
    let processor = processor_time_of_children()?.saturating_sub(before);
    Ok(Usage { wall, processor })
}

fn time(command: &mut Command) -> Result<Duration> {
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let start = Instant::now();
    let status = command
        .status()
        .with_context(|| format!("{command:?} does not start"))?;
    let wall = start.elapsed();
    if !status.success() {
        bail!("{command:?}: {status}");
    }
    Ok(wall)
}

/// Waits until no child is left.
pub fn reap_all() -> Result<()> {
    loop {
        match wait() {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(Errno::ECHILD) => return Ok(()),
            Err(error) => return Err(error).context("cannot wait for children"),
        }
    }
}

/// Of all that were waited for, with their own children that were waited for (getrusage(2), `RUSAGE_CHILDREN`).
fn processor_time_of_children() -> Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    Ok(duration(usage.user_time()) + duration(usage.system_time()))
}

fn duration(time: TimeVal) -> Duration {
    let seconds = u64::try_from(time.tv_sec()).unwrap_or(0);
    let microseconds = u64::try_from(time.tv_usec()).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_micros(microseconds)
}
