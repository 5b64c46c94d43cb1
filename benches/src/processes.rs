//! What /proc says of processes: who descends from whom, how much memory they have, how often they woke up (proc(5)).

use std::fs;

use anyhow::{Context, Result, ensure};

/// Memory in MB, of one process or of several.
#[derive(Clone, Copy, Default)]
pub struct Memory {
    /// The most that was ever resident (`VmHWM`).
    pub peak: f64,
    /// What is resident, with what is shared divided among those who share it (`Pss`).
    pub proportional: f64,
    /// What is resident and shared with nobody.
    pub private: f64,
}

/// A million bytes, of kilobytes as /proc counts them.
const MEGABYTES_OF_KIB: f64 = 1024.0 / 1_000_000.0;

/// A process and all its descendants, parents first.
pub fn tree(root: u32) -> Vec<u32> {
    let mut found = vec![root];
    let mut visited = 0;
    while let Some(&parent) = found.get(visited) {
        found.extend(children(parent));
        visited += 1;
    }
    found
}

/// The processes whose parent this is.
pub fn children(parent: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| stat_field(*pid, 4) == Some(parent))
        .collect()
}

/// The sum of some fields of /proc/PID/stat, by their numbers in proc(5).
pub fn ticks(pid: u32, fields: &[usize]) -> u32 {
    let values = fields.iter().filter_map(|field| stat_field(pid, *field));
    values.sum()
}

/// From the third on, which is the first after the name; `None` when there is no such process.
fn stat_field(pid: u32, number: usize) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may itself hold blanks and parentheses.
    let (_, from_third) = stat.rsplit_once(") ")?;
    from_third.split(' ').nth(number - 3)?.parse().ok()
}

pub fn memory(pid: u32) -> Result<Memory> {
    let status = read(pid, "status")?;
    let rollup = read(pid, "smaps_rollup")?;
    let megabytes = |text: &str, name: &str| number_after(text, name) * MEGABYTES_OF_KIB;
    Ok(Memory {
        peak: megabytes(&status, "VmHWM:"),
        proportional: megabytes(&rollup, "Pss:"),
        private: megabytes(&rollup, "Private_Clean:") + megabytes(&rollup, "Private_Dirty:"),
    })
}

/// How often the threads of a process have given up the processor in order to wait; whoever has done so was woken up before.
pub fn waits(pid: u32) -> Result<f64> {
    let has_ended = read(pid, "stat")?.contains(") Z ");
    ensure!(!has_ended, "process {pid} has ended");
    let tasks = format!("/proc/{pid}/task");
    let tasks = fs::read_dir(&tasks).with_context(|| tasks)?;
    // A thread that has just ended no longer counts.
    let statuses = tasks
        .flatten()
        .filter_map(|task| fs::read_to_string(task.path().join("status")).ok());
    Ok(statuses
        .map(|status| number_after(&status, "voluntary_ctxt_switches:"))
        .sum())
}

fn read(pid: u32, file: &str) -> Result<String> {
    let path = format!("/proc/{pid}/{file}");
    fs::read_to_string(&path).with_context(|| path)
}

/// The number on the line that begins so, or 0.
fn number_after(text: &str, name: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let word = line.and_then(|rest| rest.split_whitespace().next());
    word.and_then(|word| word.parse().ok()).unwrap_or(0.0)
}
