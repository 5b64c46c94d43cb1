//! What pglock is held to: targets, which are aimed at, and limits, beyond which `--check` fails. All are the most that is allowed.
//!
//! A limit is what was measured and as much again as a busy machine adds; it is lowered when pglock gets better.

use crate::program::Program;
use crate::site::Way;

#[derive(Clone, Copy)]
pub struct Goal {
    pub target: Option<f64>,
    pub limit: Option<f64>,
}

/// Nothing is asked for: the figure is there to be seen.
pub const NONE: Goal = Goal {
    target: None,
    limit: None,
};

/// The wall time of a whole run, in times of `benches/floor.c`'s. The floor has no guardian (0.3 ms), shields and proves nothing
/// (0.7 ms), and starts without a runtime (0.5 ms).
const FLOOR_TARGET: f64 = 1.35;
const FLOOR_LIMIT: f64 = 1.75;
/// The static build has no libraries to load.
const STATIC_FLOOR_TARGET: f64 = 1.25;

/// The same over TLS, with SCRAM, in times of `benches/libpq_floor.c`'s, which calculates as much and sets OpenSSL up as well.
const LIBPQ_TLS_TARGET: f64 = 1.0;
const LIBPQ_TLS_LIMIT: f64 = 1.25;

/// Whoever takes the same lock on the same server by the same way is to be slower.
const PEER_TARGET: f64 = 1.0;

/// How many round trips more than the floor: none. They are measured, not counted, so that half of one is noise and more is not.
pub const TRIPS_MORE: Goal = Goal {
    target: Some(0.5),
    limit: Some(0.5),
};

/// The most memory that was ever resident, in MB, while it holds a lock.
const MEMORY_TARGET: f64 = 4.0;
const MEMORY_TLS_TARGET: f64 = 11.0;
const MEMORY_LIMIT: f64 = 6.0;
const MEMORY_TLS_LIMIT: f64 = 15.0;

/// Wake-ups of pglock and its guardian in a minute with a lock held. Each of twelve heartbeats is two, its time and the answer; there is
/// none between them. One more may fall into what is measured.
pub const WAKE_UPS: Goal = Goal {
    target: Some(28.0),
    limit: Some(40.0),
};

/// From one command's start to the next one's, in milliseconds, in the longer queues. It is 10 to 20 on two processors, most of it the
/// start of the command and the end of processes and sessions, which share them with the server.
pub const HAND_OVER: Goal = Goal {
    target: None,
    limit: Some(60.0),
};

/// The most that one who waits may ask, in statements per second, and some more: sessions report in lumps.
pub const STATEMENTS: Goal = Goal {
    target: None,
    limit: Some(1.3),
};

/// The time of `pglock list --json` in times of psql's with the same query, with many locks and with few. With ten thousand it is 1.8:
/// psql need not tell whose they are, nor make 4 MB of JSON.
pub const LIST: Goal = Goal {
    target: None,
    limit: Some(2.5),
};

/// The size of the program, in MB. The static build has OpenSSL and the C library inside.
pub fn size(program: Program) -> Goal {
    Goal {
        target: Some(2.5),
        limit: (program == Program::Pglock).then_some(4.0),
    }
}

/// What the wall time of a whole run is held to, in times of a peer's by the same way.
pub fn wall_time(ours: Program, peer: Program, way: Way) -> Goal {
    match (peer, way) {
        (Program::Floor, _) if ours == Program::Static => Goal {
            target: Some(STATIC_FLOOR_TARGET),
            limit: None,
        },
        (Program::Floor, _) => Goal {
            target: Some(FLOOR_TARGET),
            limit: Some(FLOOR_LIMIT),
        },
        (Program::LibpqFloor, Way::Tls) => Goal {
            target: Some(LIBPQ_TLS_TARGET),
            limit: Some(LIBPQ_TLS_LIMIT),
        },
        (Program::Psql | Program::Withlock | Program::Dislock, _) => Goal {
            target: Some(PEER_TARGET),
            limit: None,
        },
        (
            Program::LibpqFloor
            | Program::Flock
            | Program::Etcdctl
            | Program::Pglock
            | Program::Static,
            _,
        ) => NONE,
    }
}

/// What the peak of resident memory is held to.
pub fn memory(way: Way) -> Goal {
    let (target, limit) = match way {
        Way::Tls => (MEMORY_TLS_TARGET, MEMORY_TLS_LIMIT),
        Way::Socket | Way::Tcp | Way::Own => (MEMORY_TARGET, MEMORY_LIMIT),
    };
    Goal {
        target: Some(target),
        limit: Some(limit),
    }
}
