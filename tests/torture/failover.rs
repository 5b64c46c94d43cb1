//! The one exception that no lock of a single server can rule out: a standby is promoted while a job holds its lock.

use std::time::Duration;

use crate::clock;
use crate::support::{Pglock, Server, Shutdown, Standby, until};
use crate::testbed::{MARK, Testbed};

/// What came of the promotion.
#[derive(Debug)]
pub struct Failover {
    /// How many jobs of one key ran at the same time, which is expected.
    pub overlaps: usize,
    /// What should not have been.
    pub faults: Vec<String>,
}

impl Failover {
    /// It could not even be tried.
    pub fn failed(why: String) -> Self {
        Self {
            overlaps: 0,
            faults: vec![why],
        }
    }
}

/// Holds a lock on a primary of its own, promotes its standby, and takes the lock there.
pub fn carry_out(testbed: &Testbed) -> std::io::Result<Failover> {
    let primary = Server::start();
    let standby = Standby::of(&primary);
    let pglock = || {
        Pglock::new(&primary)
            .env(MARK, testbed.mark())
            .through(&["setsid"])
    };
    let elder = pglock()
        .args(["--lease", "3s", "--grace", "500ms"])
        .hold("failover");

    let refused = pglock()
        .envs(standby.env())
        .args(["try", "failover", "true"])
        .run();
    standby
        .client()
        .batch_execute("SELECT pg_catalog.pg_promote()")
        .map_err(std::io::Error::other)?;
    until("the end of the recovery", || {
        let row = standby
            .client()
            .query_one("SELECT pg_catalog.pg_is_in_recovery()", &[]);
        row.is_ok_and(|row| !row.get::<_, bool>(0))
    });
    let younger = pglock()
        .envs(standby.env())
        .args(["try", "failover", "true"])
        .run();
    let before = clock::now();
    primary.stop(Shutdown::Fast);
    let elder = elder.wait();
    let took = clock::since(before);

    let mut faults = Vec::new();
    if refused.code != Some(122) {
        faults.push(format!("a standby was not refused:\n{refused:?}"));
    }
    if elder.code != Some(123) || took > Duration::from_secs(3) {
        faults.push(format!("the old primary's job was not stopped:\n{elder:?}"));
    }
    if younger.code != Some(0) {
        faults.push(format!(
            "the new primary did not give the lock:\n{younger:?}"
        ));
    }
    Ok(Failover {
        overlaps: usize::from(younger.code == Some(0)),
        faults,
    })
}
