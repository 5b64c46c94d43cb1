//! What this end's kernel does to find out whether the other end is still there.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};

use super::given::Given;
use crate::lease::TcpTimes;

/// libpq's parameters (PostgreSQL documentation, 34.1.2); zero stands for the system's default.
#[derive(Clone, Copy, Debug)]
pub struct TcpSettings {
    keepalives: bool,
    idle_seconds: Option<u64>,
    interval_seconds: Option<u64>,
    count: Option<u64>,
    user_timeout_milliseconds: Option<u64>,
}

impl TcpSettings {
    pub fn resolve(given: &mut Given) -> anyhow::Result<Self> {
        let mut number = |name| {
            let number = given.number(name)?;
            Ok::<_, anyhow::Error>(number.map(|number| u64::try_from(number).unwrap_or(0)))
        };
        Ok(Self {
            keepalives: number("keepalives")? != Some(0),
            idle_seconds: number("keepalives_idle")?,
            interval_seconds: number("keepalives_interval")?,
            count: number("keepalives_count")?,
            user_timeout_milliseconds: number("tcp_user_timeout")?,
        })
    }

    /// The same, and `times` where nothing was given.
    pub fn or(self, times: TcpTimes) -> Self {
        Self {
            keepalives: self.keepalives,
            idle_seconds: self.idle_seconds.or(Some(times.idle_seconds)),
            interval_seconds: self.interval_seconds.or(Some(times.interval_seconds)),
            count: self.count.or(Some(times.count)),
            user_timeout_milliseconds: self
                .user_timeout_milliseconds
                .or(Some(times.user_timeout_milliseconds)),
        }
    }

    /// Has them count for a TCP socket.
    pub fn apply(self, socket: &impl AsFd) -> io::Result<()> {
        let socket = SockRef::from(socket);
        if self.keepalives {
            let mut keepalive = TcpKeepalive::new();
            if let Some(idle) = positive(self.idle_seconds) {
                keepalive = keepalive.with_time(Duration::from_secs(idle));
            }
            if let Some(interval) = positive(self.interval_seconds) {
                keepalive = keepalive.with_interval(Duration::from_secs(interval));
            }
            if let Some(count) = positive(self.count) {
                keepalive = keepalive.with_retries(count.try_into().unwrap_or(u32::MAX));
            }
            socket.set_keepalive(true)?;
            socket.set_tcp_keepalive(&keepalive)?;
        }
        if let Some(timeout) = positive(self.user_timeout_milliseconds) {
            socket.set_tcp_user_timeout(Some(Duration::from_millis(timeout)))?;
        }
        Ok(())
    }
}

fn positive(number: Option<u64>) -> Option<u64> {
    number.filter(|number| *number > 0)
}
