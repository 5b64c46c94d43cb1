//! The processes that belong to a command, as /proc shows them.

use std::fs;

use nix::unistd::{Pid, getpid};

/// A living process, or a zombie that is this process's to reap.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    pub pid: Pid,
    pub group: Pid,
    /// A process ID may be another's by now, but not with this.
    started: u64,
}

/// A process as proc(5) describes it.
struct Process {
    pid: i32,
    state: char,
    parent: i32,
    group: i32,
    /// In clock ticks since the system was started.
    started: u64,
}

/// The children that this process has now.
pub fn children_of_this_process() -> Vec<Pid> {
    let this = getpid();
    if !is_ours() {
        return Vec::new();
    }
    match fs::read_to_string(format!("/proc/self/task/{this}/children")) {
        Ok(pids) => pids
            .split_ascii_whitespace()
            .filter_map(|pid| pid.parse().ok())
            .map(Pid::from_raw)
            .collect(),
        // A kernel without CONFIG_PROC_CHILDREN.
        Err(_) => processes()
            .filter(|process| process.parent == this.as_raw())
            .map(|process| Pid::from_raw(process.pid))
            .collect(),
    }
}

/// Where a family begins.
#[derive(Debug)]
pub enum Origin {
    /// With the children of this process, these excepted.
    ChildrenBut(Vec<Pid>),
    Process(Pid),
}

/// What the origin names, whoever of `seen` still lives, all descendants of these, and every member of `group`; zombies
/// only where they are this process's to reap, each once. `None` where /proc does not show that.
///
/// Whoever is forked meanwhile may be missing. Complete only for a child subreaper (prctl(2)), whose orphaned
/// descendants stay its own.
pub fn family(origin: &Origin, group: Option<Pid>, seen: &[Member]) -> Option<Vec<Member>> {
    if !is_ours() {
        return None;
    }
    let this = getpid().as_raw();
    let all: Vec<Process> = processes().collect();
    let children = |parent: i32| all.iter().filter(move |process| process.parent == parent);
    let mut found: Vec<&Process> = match origin {
        Origin::ChildrenBut(others) => children(this)
            .filter(|child| !others.contains(&Pid::from_raw(child.pid)))
            .collect(),
        Origin::Process(pid) => all
            .iter()
            .filter(|process| process.pid == pid.as_raw())
            .collect(),
    };
    let was_seen = |process: &&Process| {
        let is_same = |member: &Member| {
            member.pid.as_raw() == process.pid && member.started == process.started
        };
        seen.iter().any(is_same)
    };
    found.extend(all.iter().filter(was_seen));
    let mut visited = 0;
    while let Some(process) = found.get(visited) {
        found.extend(children(process.pid));
        visited += 1;
    }
    let in_group = |process: &&Process| group.is_some_and(|group| process.group == group.as_raw());
    found.extend(all.iter().filter(in_group));
    found.sort_unstable_by_key(|process| process.pid);
    found.dedup_by_key(|process| process.pid);
    let members = found
        .into_iter()
        .filter(|process| process.state != 'Z' || process.parent == this)
        .map(|process| Member {
            pid: Pid::from_raw(process.pid),
            group: Pid::from_raw(process.group),
            started: process.started,
        });
    Some(members.collect())
}

/// Whether /proc is there, and shows processes by the numbers that this one knows: it may be that of another PID
/// namespace.
fn is_ours() -> bool {
    let this = getpid().to_string();
    fs::read_link("/proc/self").is_ok_and(|link| link.as_os_str() == this.as_str())
}

/// Whether a process was stopped, by a signal or by a debugger (proc(5)).
pub fn is_stopped(pid: Pid) -> bool {
    read(pid.as_raw()).is_some_and(|process| matches!(process.state, 'T' | 't'))
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
    let mut fields = from_field_3.split(' ');
    Some(Process {
        pid,
        state: fields.next()?.chars().next()?,
        parent: fields.next()?.parse().ok()?,
        group: fields.next()?.parse().ok()?,
        // Field 22.
        started: fields.nth(16)?.parse().ok()?,
    })
}
