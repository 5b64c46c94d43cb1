//! The programs that are measured, and how each is told to run a command under a lock.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::options::Options;
use crate::site::{Place, Site, Way};

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// What `scripts/build` has built.
    Pglock,
    /// The build that `--static` names.
    Static,
    /// `benches/floor.c`: the wire protocol and nothing else.
    Floor,
    /// `benches/libpq_floor.c`: PostgreSQL's own client library.
    LibpqFloor,
    /// psql, with the lock taken and freed by SQL and the command by `\!`.
    Psql,
    /// npm's advisory-lock.
    Withlock,
    /// `PyPI`'s dislock, by its lease: it holds no advisory lock, but a row that it renews.
    Dislock,
    /// flock(1) on a file.
    Flock,
    /// etcd's own client, which holds a key with a lease.
    Etcdctl,
}

/// What runs under the lock.
#[derive(Clone, Copy)]
pub enum Work {
    /// true(1).
    Nothing,
    /// Says its process ID, and then waits until its input ends.
    Stay,
}

pub const ALL: [Program; 9] = [
    Program::Pglock,
    Program::Static,
    Program::Floor,
    Program::LibpqFloor,
    Program::Psql,
    Program::Withlock,
    Program::Dislock,
    Program::Flock,
    Program::Etcdctl,
];

/// The ways on which programs are compared; each peer runs on those that it knows.
pub const WAYS: [Way; 4] = [Way::Socket, Way::Tcp, Way::Tls, Way::Own];

/// Of those that take tens of times as long as the floor, one run for so many of the others.
const SELDOM: u32 = 10;

/// In the shell that psql starts `exec` makes it the command itself, as it is for the others.
const STAY: &str = "echo $$; exec cat";
/// etcdctl keeps its input for itself.
const STAY_BY_PARENT: &str = "echo $$; exec cat </proc/$PPID/fd/0";

impl Program {
    /// The programs that are there.
    pub fn present(site: &Site, options: &Options) -> Vec<Self> {
        let is_there = |program: &Self| match program {
            Self::Static => options.other_build.is_some(),
            Self::Withlock | Self::Dislock => site.peers.is_some(),
            Self::Etcdctl => site.etcd.is_some(),
            Self::Pglock | Self::Floor | Self::LibpqFloor | Self::Psql | Self::Flock => true,
        };
        ALL.into_iter().filter(is_there).collect()
    }

    pub fn label(self) -> &'static str {
        match self {
            Self::Pglock => "pglock",
            Self::Static => "pglock (static)",
            Self::Floor => "floor.c",
            Self::LibpqFloor => "libpq_floor.c",
            Self::Psql => "psql",
            Self::Withlock => "withlock (npm)",
            Self::Dislock => "dislock (PyPI)",
            Self::Flock => "flock",
            Self::Etcdctl => "etcdctl lock",
        }
    }

    pub fn is_pglock(self) -> bool {
        matches!(self, Self::Pglock | Self::Static)
    }

    pub fn knows(self, way: Way) -> bool {
        match self {
            Self::Floor => matches!(way, Way::Socket | Way::Tcp),
            Self::Flock | Self::Etcdctl => way == Way::Own,
            Self::Pglock
            | Self::Static
            | Self::LibpqFloor
            | Self::Psql
            | Self::Withlock
            | Self::Dislock => way != Way::Own,
        }
    }

    /// It runs in each so many-th round.
    pub fn every(self) -> u32 {
        match self {
            Self::Withlock | Self::Dislock | Self::Etcdctl => SELDOM,
            Self::Pglock
            | Self::Static
            | Self::Floor
            | Self::LibpqFloor
            | Self::Psql
            | Self::Flock => 1,
        }
    }

    /// Runs `work` under a lock of this program's own, so that several can hold theirs at once.
    pub fn command(self, site: &Site, options: &Options, place: &Place<'_>, work: Work) -> Command {
        let key = (self as u32 + 1).to_string();
        let mut command = match self {
            Self::Pglock => pglock(&site.pglock, place, &key),
            Self::Static => {
                let binary = options.other_build.as_deref().unwrap_or(&site.pglock);
                pglock(binary, place, &key)
            }
            Self::Floor => {
                let mut floor = Command::new(&site.floor);
                floor
                    .args(["-h", place.host(), "-p", &place.port.to_string()])
                    .args(["-U", "bench", "-d", "postgres", &key]);
                floor
            }
            Self::LibpqFloor => {
                let mut floor = Command::new(&site.libpq_floor);
                floor.args([&place.conninfo(), &key]);
                floor
            }
            Self::Psql => return psql(site, place, &key, work),
            Self::Withlock => {
                let mut withlock = peer(site, "withlock");
                // It takes a number for no name.
                withlock.args([&format!("lock-{key}"), "--db", &place.url(), "--"]);
                withlock
            }
            Self::Dislock => {
                let mut dislock = peer(site, "dislock");
                dislock
                    .env("LOCK_KEY", &key)
                    .env("LOCK_STRATEGY", "lease")
                    .env("BENCH_PLACE", place.conninfo())
                    .arg("BENCH_PLACE");
                dislock
            }
            Self::Flock => {
                let mut flock = Command::new("flock");
                flock.arg(&site.lock_file);
                flock
            }
            Self::Etcdctl => {
                let endpoint = site.etcd.as_deref().unwrap_or_default();
                let mut etcdctl = Command::new("etcdctl");
                etcdctl.env("ETCDCTL_API", "3").args([
                    &format!("--endpoints={endpoint}"),
                    "lock",
                    &key,
                    "--",
                ]);
                etcdctl
            }
        };
        match work {
            Work::Nothing => command.arg("true"),
            Work::Stay if self == Self::Etcdctl => command.args(["sh", "-c", STAY_BY_PARENT]),
            Work::Stay => command.args(["sh", "-c", STAY]),
        };
        command
    }
}

fn pglock(binary: &Path, place: &Place<'_>, name: &str) -> Command {
    let mut pglock = Command::new(binary);
    pglock.args(["run", "-d", &place.conninfo(), name, "--"]);
    pglock
}

fn psql(site: &Site, place: &Place<'_>, key: &str, work: Work) -> Command {
    let work = match work {
        Work::Nothing => "true",
        Work::Stay => STAY,
    };
    let mut psql = Command::new(&site.psql);
    psql.args(["-qXAt", "-d", &place.conninfo()])
        .args(["-o", "/dev/null"])
        .args(["-c", &format!("SELECT pg_advisory_lock({key})")])
        .args(["-c", &format!("\\! {work}")])
        .args(["-c", &format!("SELECT pg_advisory_unlock({key})")]);
    psql
}

fn peer(site: &Site, name: &str) -> Command {
    let folder = site.peers.as_deref().unwrap_or(Path::new(""));
    let mut peer = Command::new(folder.join(name));
    // Both tell what they do.
    peer.stderr(Stdio::null());
    peer
}
