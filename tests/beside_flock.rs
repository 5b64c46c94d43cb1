//! What the README says of flock(1), beside which pglock is put there.

use std::process::Command;

use nix::sys::signal::Signal;

use crate::support::{Running, Watchdog, until};

#[test]
fn what_is_said_of_flock_is_so() {
    let scratch = Watchdog::start();
    let file = scratch.directory().join("lock").display().to_string();
    scratch.run(&["touch", &file]);
    let flock = |words: &[&str]| {
        let mut flock = Command::new("flock");
        Running::start(flock.args(words))
    };
    let is_free = || flock(&["-n", &file, "true"]).wait().code == Some(0);

    flock(&[&file, "sh", "-c", "exit 7"]).wait().assert_code(7);
    // A background process of the command keeps the lock; flock has it at descriptor 3.
    let left = "exec 9<&0; cat <&9 >/dev/null 2>&1 & echo ended";
    let mut daemon = flock(&[&file, "sh", "-c", left]);
    daemon.wait_line("ended");
    until("the end of flock", || !daemon.is_running());
    flock(&["-n", &file, "true"]).wait().assert_code(1);
    flock(&["-n", "-E", "9", &file, "true"])
        .wait()
        .assert_code(9);
    daemon.close_stdin();
    until("a free lock", is_free);

    // After kill -9 the command has the lock, and goes on with it.
    let mut killed = flock(&[&file, "cat"]);
    killed.write(b"ready\n");
    killed.wait_line("ready");
    killed.signal(Signal::SIGKILL);
    until("the end of flock", || !killed.is_running());
    flock(&["-n", &file, "true"]).wait().assert_code(1);
    killed.close_stdin();
    until("a free lock", is_free);
}
