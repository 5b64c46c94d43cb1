//! The one clock of a campaign: every process of this host reads it alike, and nobody can set it.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// The time since some moment in the past (`CLOCK_MONOTONIC`, `clock_gettime(2)`).
pub fn now() -> Duration {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("Linux has this clock");
    time.into()
}

/// The time that has passed since `start`.
pub fn since(start: Duration) -> Duration {
    now().saturating_sub(start)
}
