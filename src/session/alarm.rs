//! A long sleep that wakes the process once, at its end.

use std::io;
use std::os::fd::OwnedFd;

use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::{self, Instant};

/// Sleeps until `moment`, as [`tokio::time::sleep_until`] does, which also wakes now and then on the way there: its clock has wheels
/// of 64 ms and of 4 s.
pub async fn sleep_in_one(moment: Instant) {
    if let Ok(alarm) = alarm(moment)
        && alarm.readable().await.is_ok()
    {
        return;
    }
    // No descriptor is left for one.
    time::sleep_until(moment).await;
}

/// Becomes readable at `moment` (`timerfd_create(2)`).
fn alarm(moment: Instant) -> io::Result<AsyncFd<OwnedFd>> {
    let flags = TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK;
    // What tokio counts by, too.
    let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?;
    let left = moment.saturating_duration_since(Instant::now());
    // Zero would switch it off.
    let left = TimeSpec::from(left.max(time::Duration::from_nanos(1)));
    timer.set(Expiration::OneShot(left), TimerSetTimeFlags::empty())?;
    // SAFETY: OwnedFd owns its descriptor and closes it only when dropped.
    #[expect(unsafe_code, reason = "tokio has no safe form for descriptors")]
    let alarm =
        unsafe { AsyncFd::register_with_interest(OwnedFd::from(timer), Interest::READABLE) }?;
    Ok(alarm)
}
