//! The lease: every limit of a held lock, derived from one length of time.
//!
//! With a lease of L, and times counted from the last heartbeat that the server answered:
//!
//! | what                                                  | when                     | L = 30 s    |
//! | ----------------------------------------------------- | ------------------------ | ----------- |
//! | the next heartbeat                                    | L/6, at most 15 s        | 5 s         |
//! | it counts as unanswered, and the command gets TERM    | L/6 later                | 10 s        |
//! | KILL                                                  | the grace later, ≤ L/2   | 20 to 25 s  |
//! | the server gives up on this host and frees the lock   | L to L + 3 s             | 30 to 33 s  |
//!
//! L/6 + L/6 + L/2 < L: the command is dead before the lock is given away.

use std::time::Duration;

use crate::connection::TcpSettings;
use crate::exit::Fault;

/// How long the server may go without hearing of this host before it frees the lock.
#[derive(Clone, Copy, Debug)]
pub struct Lease {
    length: Duration,
}

/// What the server's kernel is told, in its units (PostgreSQL documentation, 20.3.2 "TCP Settings").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerKeepalive {
    pub idle_seconds: u64,
    pub interval_seconds: u64,
    pub count: u64,
    pub user_timeout_milliseconds: u128,
}

/// What to do with the command when its lock is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OnLost {
    Stop,
    Warn,
}

/// What a command's time under the lock is bound by.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Between TERM and KILL.
    pub grace: Duration,
    pub on_lost: OnLost,
}

const DEFAULT: Duration = Duration::from_secs(30);
const SHORTEST: Duration = Duration::from_secs(3);
/// What kernels take: `TCP_KEEPIDLE` is at most 32767 s on Linux.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// Proxies and load balancers close what is silent for a minute.
const LONGEST_INTERVAL: Duration = Duration::from_secs(15);
const DEFAULT_GRACE: Duration = Duration::from_secs(10);

impl ServerKeepalive {
    /// The settings of a session that bring this about.
    pub fn settings(self) -> [(&'static str, String); 4] {
        [
            ("tcp_keepalives_idle", self.idle_seconds.to_string()),
            ("tcp_keepalives_interval", self.interval_seconds.to_string()),
            ("tcp_keepalives_count", self.count.to_string()),
            (
                "tcp_user_timeout",
                self.user_timeout_milliseconds.to_string(),
            ),
        ]
    }
}

impl Lease {
    /// What was typed, or 30 s; less than 3 s or more than a day is a usage error.
    pub fn resolve(typed: Option<Duration>) -> anyhow::Result<Self> {
        let length = typed.unwrap_or(DEFAULT);
        if (SHORTEST..=LONGEST).contains(&length) {
            return Ok(Self { length });
        }
        Err(Fault::Usage.error("--lease: at least 3s and at most 24h"))
    }

    /// The time between TERM and KILL; more than half of the lease is a usage error.
    ///
    /// 10 s by default, or a third of the lease if that is less.
    pub fn grace(self, typed: Option<Duration>) -> anyhow::Result<Duration> {
        let longest = self.length / 2;
        match typed {
            None => Ok(DEFAULT_GRACE.min(self.length / 3)),
            Some(grace) if grace <= longest => Ok(grace),
            Some(grace) => Err(Fault::Usage.error(format!(
                "--grace: at most {} with a lease of {}, or the lock could be given away while the command still runs; \
                 --lease {} would fit",
                humantime::format_duration(longest),
                humantime::format_duration(self.length),
                humantime::format_duration(grace * 2).to_string().replace(' ', ""),
            ))),
        }
    }

    pub fn length(self) -> Duration {
        self.length
    }

    /// From one heartbeat to the next.
    pub fn heartbeat_interval(self) -> Duration {
        (self.length / 6).min(LONGEST_INTERVAL)
    }

    /// How long the answer to a heartbeat may take.
    pub fn heartbeat_deadline(self) -> Duration {
        self.length / 6
    }

    /// Frees the lock between the length of the lease and 3 s later.
    pub fn server_keepalive(self) -> ServerKeepalive {
        let length = whole_seconds_up(self.length);
        let idle_seconds = length / 3;
        let interval_seconds = (length / 10).clamp(1, 3);
        ServerKeepalive {
            idle_seconds,
            interval_seconds,
            count: (length - idle_seconds).div_ceil(interval_seconds),
            user_timeout_milliseconds: self.length.as_millis(),
        }
    }

    /// Closes this end's socket when the server was not heard of for a third of the lease, whoever holds it.
    pub fn client_keepalive(self) -> TcpSettings {
        let idle = whole_seconds_up(self.length / 6);
        let third = whole_seconds_up(self.length / 3);
        TcpSettings::new(
            Duration::from_secs(idle),
            Duration::from_secs(1),
            u32::try_from(third.saturating_sub(idle).max(1)).unwrap_or(u32::MAX),
            self.length / 3,
        )
    }
}

fn whole_seconds_up(length: Duration) -> u64 {
    length.as_secs() + u64::from(length.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(seconds: u64) -> Lease {
        Lease::resolve(Some(Duration::from_secs(seconds))).expect("a lease")
    }

    #[test]
    fn the_command_is_dead_before_the_server_can_give_the_lock_away() {
        for seconds in (3..=600).chain([3600, 24 * 3600]) {
            let lease = lease(seconds);
            for grace in [
                lease.grace(None).expect("fits"),
                lease.grace(Some(lease.length / 2)).expect("fits"),
            ] {
                let dead = lease.heartbeat_interval() + lease.heartbeat_deadline() + grace;
                assert!(dead < lease.length, "{seconds} {dead:?}");
            }
            let server = lease.server_keepalive();
            let gives_up = server.idle_seconds + server.interval_seconds * server.count;
            assert!(
                (seconds..=seconds + 3).contains(&gives_up),
                "{seconds} {gives_up}"
            );
            assert_eq!(server.user_timeout_milliseconds, u128::from(seconds) * 1000);
            assert!(server.idle_seconds >= 1 && server.idle_seconds <= 32767);
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_with_what_would() {
        let refusal = lease(30)
            .grace(Some(Duration::from_secs(16)))
            .expect_err("too long");
        assert_eq!(
            refusal.to_string(),
            "--grace: at most 15s with a lease of 30s, or the lock could be given away while the command still runs; \
             --lease 32s would fit"
        );
        for seconds in [0, 2, 24 * 3600 + 1] {
            assert!(Lease::resolve(Some(Duration::from_secs(seconds))).is_err());
        }
    }
}
