//! Two hosts and a cable: network namespaces that end with the test, for root.

use std::io::{Read, Write, stderr};
use std::process::{Child, ChildStdin, Command, Stdio};

use nix::unistd::geteuid;

/// Set in the environment of a test that was started again in a network of its own.
const INSIDE: &str = "PGLOCK_TEST_IN_OWN_NETWORK";

/// The address of the server's host, on the cable.
pub const SERVER: &str = "10.213.7.1";

/// Another host, on a cable that can be unplugged. Dropped, it is gone.
pub struct OtherHost {
    /// Keeps the namespace, until its input ends.
    keeper: Child,
    input: Option<ChildStdin>,
    /// This end of the cable.
    cable: &'static str,
}

/// Runs the rest of the test `name` in a network of its own: `true` there, and `false` where that was done, or where
/// it cannot be for want of rights, which is printed.
#[track_caller]
pub fn in_own_network(name: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        run("ip", &["link", "set", "lo", "up"]);
        return true;
    }
    if !geteuid().is_root() {
        // Not captured as what a test prints is.
        let _ = writeln!(
            stderr(),
            "{name} needs root, for network namespaces: not run"
        );
        return false;
    }
    let this = std::env::current_exe().expect("a test is a program");
    let status = Command::new("unshare")
        .arg("--net")
        .arg(this)
        .args(["--exact", name, "--nocapture"])
        .env(INSIDE, "1")
        .status()
        .expect("unshare starts");
    assert!(
        status.success(),
        "{name}, in a network of its own: {status}"
    );
    false
}

impl OtherHost {
    /// Plugs a cable in between this network and a new one.
    #[track_caller]
    pub fn plug_in() -> Self {
        let mut keeper = Command::new("unshare")
            .args(["--net", "sh", "-c", "echo ready; exec cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare starts");
        let input = keeper.stdin.take();
        let mut ready = [0];
        let told = keeper.stdout.as_mut().unwrap().read_exact(&mut ready);
        told.expect("a namespace");
        let host = Self {
            keeper,
            input,
            cable: "cable",
        };
        let pid = host.keeper.id().to_string();
        let link = "link add cable type veth peer name plug netns";
        run("ip", &[&words(link)[..], &[&pid]].concat());
        run(
            "ip",
            &[&words("addr add dev cable")[..], &[&format!("{SERVER}/24")]].concat(),
        );
        run("ip", &["link", "set", host.cable, "up"]);
        host.run("ip addr add dev plug 10.213.7.2/24");
        host.run("ip link set plug up");
        host
    }

    /// The words that start a program on the other host.
    pub fn launcher(&self) -> Vec<String> {
        let pid = self.keeper.id().to_string();
        ["nsenter", "--target", &pid, "--net", "--"]
            .map(str::to_owned)
            .to_vec()
    }

    /// Nothing arrives any more, and neither end is told.
    #[track_caller]
    pub fn unplug(&self) {
        run("ip", &["link", "set", self.cable, "down"]);
    }

    #[track_caller]
    fn run(&self, line: &str) {
        let launcher = self.launcher();
        let all: Vec<&str> = launcher
            .iter()
            .map(String::as_str)
            .chain(words(line))
            .collect();
        run(all[0], &all[1..]);
    }
}

impl Drop for OtherHost {
    fn drop(&mut self) {
        drop(self.input.take());
        drop(self.keeper.wait());
    }
}

fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

#[track_caller]
fn run(program: &str, words: &[&str]) {
    let status = Command::new(program).args(words).status();
    let status = status.unwrap_or_else(|error| panic!("{program}: {error}: scripts/install-needs"));
    assert!(status.success(), "{program} {words:?}: {status}");
}
