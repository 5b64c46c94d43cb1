//! The processes that belong to a command, as /proc shows them.

use std::fs;

use nix::unistd::{Pid, getpid};

/// A process as proc(5) describes it.
struct Process {
    pid: i32,
    is_zombie: bool,
    parent: i32,
    group: i32,
    /// Clock ticks since the machine started.
    started: u64,
}

/// When `pid` was started, in clock ticks since the machine was; `None` when it is gone.
pub fn start_of(pid: Pid) -> Option<u64> {
    read(pid.as_raw()).map(|process| process.started)
}

/// Every descendant by way of a child that was not started before `since`, and every member of `group`;
/// zombies only where they are this process's to reap.
///
/// Older children are not ours to judge: whoever became this process by exec(2) left them behind. Whoever is
/// forked meanwhile may be missing. Complete only for a child subreaper (prctl(2)), whose orphaned descendants
/// stay its own.
pub fn family(since: u64, group: Option<Pid>) -> Vec<Pid> {
    let this = getpid().as_raw();
    let all: Vec<Process> = processes().collect();
    let children = |parent: i32| all.iter().filter(move |process| process.parent == parent);
    let mut found: Vec<&Process> = children(this)
        .filter(|child| child.started >= since)
        .collect();
    let mut visited = 0;
    while let Some(process) = found.get(visited) {
        found.extend(children(process.pid));
        visited += 1;
    }
    let in_group = |process: &&Process| group.is_some_and(|group| process.group == group.as_raw());
    found.extend(all.iter().filter(in_group));
    found
        .into_iter()
        .filter(|process| !process.is_zombie || process.parent == this)
        .map(|process| Pid::from_raw(process.pid))
        .collect()
}

fn processes() -> impl Iterator<Item = Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    entries.filter_map(|entry| read(entry.ok()?.file_name().to_str()?.parse().ok()?))
}

fn read(pid: i32) -> Option<Process> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    // The name in parentheses, field 2, may itself hold blanks and parentheses.
    let (_, from_field_3) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = from_field_3.split(' ').collect();
    let field = |number: usize| fields.get(number - 3).copied();
    Some(Process {
        pid,
        is_zombie: field(3)? == "Z",
        parent: field(4)?.parse().ok()?,
        group: field(5)?.parse().ok()?,
        started: field(22)?.parse().ok()?,
    })
}
