//! What /proc says of the processes of a campaign.

use std::collections::HashMap;
use std::fs;

use nix::unistd::Pid;

use crate::support::process_state;
use crate::testbed::MARK;

/// A process that is not only its number, which another may have by and by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    pid: Pid,
    /// In clock ticks since the machine's start: field 22 of proc(5)'s stat.
    started: u64,
}

impl Identity {
    /// The process that has this number now.
    pub fn of(pid: Pid) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (_, from_field_3) = stat.rsplit_once(") ")?;
        let started = from_field_3.split(' ').nth(22 - 3)?.parse().ok()?;
        Some(Self { pid, started })
    }

    /// Whether it has died; one that was not reaped yet has.
    pub fn is_dead(self) -> bool {
        Self::of(self.pid) != Some(self) || matches!(process_state(self.pid), None | Some('Z'))
    }
}

/// All living processes with this mark in their environment, and what each of them is.
pub fn marked(mark: &str) -> HashMap<Pid, String> {
    let wanted = format!("{MARK}={mark}");
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_ours = |pid: &i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment
            .split(|byte| *byte == 0)
            .any(|variable| variable == wanted.as_bytes())
    };
    pids.filter(is_ours)
        .map(Pid::from_raw)
        .filter(|pid| !matches!(process_state(*pid), None | Some('Z')))
        .map(|pid| (pid, description(pid)))
        .collect()
}

/// What it is, for people.
pub fn description(pid: Pid) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let line = String::from_utf8_lossy(&line).replace('\0', " ");
    let state = process_state(pid).unwrap_or('?');
    format!("{pid} {state} {}: {line}", name(pid))
}

/// What it calls itself.
pub fn name(pid: Pid) -> String {
    let name = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    String::from_utf8_lossy(&name).trim_end().to_owned()
}
