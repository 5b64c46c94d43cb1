//! The living descendants of this process, as /proc shows them.

use std::fs;

use nix::unistd::{Pid, getpid};

/// A process as proc(5) describes it.
struct Process {
    pid: i32,
    parent: i32,
    /// Clock ticks since the machine started.
    started: u64,
}

/// When `pid` was started, in clock ticks since the machine was; `None` when it is gone.
pub fn start_of(pid: Pid) -> Option<u64> {
    read(pid.as_raw()).map(|process| process.started)
}

/// Every descendant by way of a child that was not started before `since`, zombies included. Older children
/// are not ours to judge: whoever became this process by exec(2) left them behind.
///
/// Whoever is forked meanwhile may be missing. Complete only for a child subreaper (prctl(2)), whose orphaned
/// descendants stay its own.
pub fn descendants(since: u64) -> Vec<Pid> {
    let all: Vec<Process> = processes().collect();
    let children = |parent: i32| all.iter().filter(move |process| process.parent == parent);
    let mut found: Vec<i32> = children(getpid().as_raw())
        .filter(|child| child.started >= since)
        .map(|child| child.pid)
        .collect();
    let mut visited = 0;
    while let Some(pid) = found.get(visited) {
        found.extend(children(*pid).map(|child| child.pid));
        visited += 1;
    }
    found.into_iter().map(Pid::from_raw).collect()
}

fn processes() -> impl Iterator<Item = Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    entries.filter_map(|entry| read(entry.ok()?.file_name().to_str()?.parse().ok()?))
}

fn read(pid: i32) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses, field 2, may itself hold blanks and parentheses.
    let (_, from_field_3) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = from_field_3.split(' ').collect();
    Some(Process {
        pid,
        parent: fields.get(4 - 3)?.parse().ok()?,
        started: fields.get(22 - 3)?.parse().ok()?,
    })
}
