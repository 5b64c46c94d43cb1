//! What /proc says of processes that are nobody's children here.

use std::fs;

use nix::unistd::Pid;

/// The letter that ps(1) shows first: `T` stopped, `Z` ended but not reaped. `None` when there is no such process.
pub fn process_state(pid: Pid) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may itself hold blanks and parentheses.
    stat.rsplit_once(") ")?.1.chars().next()
}
