//! Commands that tell which signals reach them.

use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::process::{child_named, is_pending};
use super::wait::until;

/// A shell script that says `ready`, then `got 1`, `got 2` … at each of these signals, and exits with 7 at the end of
/// its input.
///
/// The background process only waits for the end of input: `wait` is what a trap interrupts without a gap.
pub fn counting(signals: &[Signal]) -> String {
    let names: Vec<&str> = signals.iter().map(|signal| name_of(*signal)).collect();
    let names = names.join(" ");
    format!(
        "n=0; trap 'n=$((n + 1)); echo got $n' {names}; exec 3<&0
        (trap '' {names}; echo ready; exec cat <&3 >/dev/null) &
        while wait $!; [ $? -gt 128 ]; do :; done; exit 7"
    )
}

/// Waits until a pglock on a terminal has dealt with these signals, which may have reached its command before.
#[track_caller]
pub fn await_look(pglock: Pid, signals: &[Signal]) {
    let canary = until("a canary", || child_named(pglock, "lock-canary"));
    until("pglock's own look at the signals", || {
        let mut pending = [pglock, canary]
            .into_iter()
            .flat_map(|pid| signals.iter().map(move |signal| is_pending(pid, *signal)));
        !pending.any(|is_pending| is_pending)
    });
}

/// As the shell's `trap` knows it.
pub fn name_of(signal: Signal) -> &'static str {
    signal.as_str().trim_start_matches("SIG")
}
