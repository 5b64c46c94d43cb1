//! What /proc says of processes that are nobody's children here.

use std::fs;
use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// The letter that ps(1) shows first: `T` stopped, `Z` ended but not reaped. `None` when there is no such process.
pub fn process_state(pid: Pid) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may itself hold blanks and parentheses.
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Whether a signal that the process blocks waits for it: another of its kind would be lost.
pub fn is_pending(pid: Pid, signal: Signal) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let pending = status.lines().find_map(|line| line.strip_prefix("ShdPnd:"));
    let pending = pending.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    pending.is_some_and(|mask| mask >> (signal as i32 - 1) & 1 == 1)
}

/// Kills a process and all its descendants. For what a failing test leaves behind: a killed pglock stops nobody.
pub fn kill_tree(root: Pid) {
    let mut found = vec![root.as_raw()];
    let mut visited = 0;
    while let Some(parent) = found.get(visited).copied() {
        found.extend(children(parent));
        visited += 1;
    }
    for pid in found {
        // One that has gone meanwhile needs no end.
        let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
    }
}

/// The one of its children that runs this program.
pub fn child_named(parent: Pid, program: &str) -> Option<Pid> {
    let name = |pid: Pid| fs::read_to_string(format!("/proc/{pid}/comm"));
    let is_wanted = |pid: &Pid| name(*pid).is_ok_and(|name| name.trim_end() == program);
    children_of(parent).into_iter().find(is_wanted)
}

/// Whether any process has this as its working directory.
pub fn anybody_works_in(directory: &Path) -> bool {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| fs::read_link(entry.path().join("cwd")).ok())
        .any(|place| place == directory)
}

/// The processes whose parent this is.
pub fn children_of(parent: Pid) -> Vec<Pid> {
    children(parent.as_raw()).map(Pid::from_raw).collect()
}

fn children(parent: i32) -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    entries.filter_map(move |entry| {
        let pid = entry.ok()?.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (_, from_state) = stat.rsplit_once(") ")?;
        let is_child = from_state.split(' ').nth(1)?.parse() == Ok(parent);
        is_child.then_some(pid)
    })
}
