//! The living descendants of this process, as /proc shows them.

use std::collections::HashMap;
use std::fs;

use nix::unistd::{Pid, getpid};

/// Every descendant, zombies included; whoever is forked meanwhile may be missing.
///
/// Complete only for a child subreaper (prctl(2)), whose orphaned descendants stay its own.
pub fn descendants() -> Vec<Pid> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for (pid, parent) in processes() {
        children.entry(parent).or_default().push(pid);
    }
    let mut found = children.remove(&getpid().as_raw()).unwrap_or_default();
    let mut visited = 0;
    while let Some(pid) = found.get(visited) {
        let more = children.remove(pid).unwrap_or_default();
        found.extend(more);
        visited += 1;
    }
    found.into_iter().map(Pid::from_raw).collect()
}

/// (pid, parent's pid) of every process.
fn processes() -> impl Iterator<Item = (i32, i32)> {
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let pid = entry.ok()?.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            // proc(5): the name in parentheses may itself hold blanks and parentheses.
            let (_, after_name) = stat.rsplit_once(") ")?;
            let parent = after_name.split(' ').nth(1)?.parse().ok()?;
            Some((pid, parent))
        })
}
