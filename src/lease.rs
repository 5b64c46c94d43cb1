//! The lease: every limit of a held lock, derived from one length of time.
//!
//! With a lease of L, and times counted from the last heartbeat that the server answered:
//!
//! | what                                                  | when                     | L = 30 s    |
//! | ----------------------------------------------------- | ------------------------ | ----------- |
//! | the next heartbeat                                    | L/6, at most 15 s        | 5 s         |
//! | it counts as unanswered, and the command gets TERM    | L/6 later                | 10 s        |
//! | KILL                                                  | the grace later, ≤ L/2   | 20 to 25 s  |
//! | the server gives up on this host and frees the lock   | L + 1 s to L + 2 s       | 31 to 32 s  |
//!
//! L/6 + L/6 + L/2 < L: the command is dead before the lock is given away. So it is where pglock was killed and its
//! guardian alone looks on: this end's socket gives up L/3 after the server was last heard of, in whole seconds, and
//! the grace follows.

use std::time::Duration;

use crate::exit::Fault;

/// How long the server may go without hearing of this host before it frees the lock.
#[derive(Clone, Copy, Debug)]
pub struct Lease {
    length: Duration,
}

/// When one end of a connection gives the other up (tcp(7); PostgreSQL documentation, 20.3.2 "TCP Settings").
///
/// Where nothing is under way, after `idle` and as many `interval`s as `count`; where something is not acknowledged,
/// after the user timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpTimes {
    pub idle_seconds: u64,
    pub interval_seconds: u64,
    pub count: u64,
    pub user_timeout_milliseconds: u64,
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

/// The most probes that Linux sends (tcp(7), `TCP_KEEPCNT`).
const MOST_PROBES: u64 = 127;

impl TcpTimes {
    /// Gives up after exactly `limit`, with the last probe, having waited for about `idle` and probed about every
    /// `interval`.
    fn of(limit: u64, idle: u64, interval: u64, user_timeout: Duration) -> Self {
        let probed = limit.saturating_sub(idle).max(1);
        let interval_seconds = interval.max(probed.div_ceil(MOST_PROBES));
        let count = (probed / interval_seconds).max(1);
        Self {
            idle_seconds: limit.saturating_sub(interval_seconds * count).max(1),
            interval_seconds,
            count,
            user_timeout_milliseconds: user_timeout.as_millis().try_into().unwrap_or(u64::MAX),
        }
    }

    /// The settings of a session that bring this about at the server's end.
    pub fn settings(self) -> [(&'static str, u64); 4] {
        [
            ("tcp_keepalives_idle", self.idle_seconds),
            ("tcp_keepalives_interval", self.interval_seconds),
            ("tcp_keepalives_count", self.count),
            ("tcp_user_timeout", self.user_timeout_milliseconds),
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

    /// The server frees the lock between 1 s and 2 s after the lease.
    pub fn at_the_server(self) -> TcpTimes {
        let limit = whole_seconds_up(self.length) + 2;
        TcpTimes::of(
            limit,
            limit / 3,
            (limit / 10).clamp(1, 3),
            self.length + Duration::from_secs(1),
        )
    }

    /// This end's socket fails when the server was not heard of for a third of the lease, whoever holds it.
    pub fn at_this_end(self) -> TcpTimes {
        let limit = whole_seconds_up(self.length / 3).max(2);
        TcpTimes::of(limit, limit / 2, 1, self.length / 3)
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
            let gives_up = |times: TcpTimes| {
                assert!(
                    (1..=MOST_PROBES).contains(&times.count),
                    "{seconds} {times:?}"
                );
                // The most that Linux takes, as for the count.
                assert!(
                    (1..=32767).contains(&times.idle_seconds),
                    "{seconds} {times:?}"
                );
                assert!(
                    (1..=32767).contains(&times.interval_seconds),
                    "{seconds} {times:?}"
                );
                times.idle_seconds + times.interval_seconds * times.count
            };
            let (server, client) = (lease.at_the_server(), lease.at_this_end());
            assert_eq!(gives_up(server), seconds + 2);
            assert_eq!(server.user_timeout_milliseconds, (seconds + 1) * 1000);
            let without_pglock = Duration::from_secs(gives_up(client)) + lease.length / 2;
            let free = Duration::from_secs(seconds + 1);
            assert!(without_pglock < free, "{seconds} {without_pglock:?}");
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
