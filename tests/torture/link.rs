//! A network of its own for some clients, joined to the server's by a cable that can be pulled.
//!
//! scripts/torture runs the campaign in a network namespace of its own, and says so; in the machine's own nothing is touched.

use std::env;
use std::fs;
use std::io;
use std::process::{Child, Command, Stdio};

use crate::support::until;

/// Set by scripts/torture when this process has a network namespace of its own.
const OWN_NETWORK: &str = "PGLOCK_TORTURE_OWN_NETWORK";

/// The server's end of the cable, and its address.
const SERVER_END: &str = "torture0";
pub const SERVER: &str = "10.99.0.1";
const CLIENT_END: &str = "torture1";
pub const CLIENT: &str = "10.99.0.2";

/// The clients' namespace lives as long as this process, which ends with its standard input.
pub struct Link {
    holder: Child,
}

impl Link {
    /// Lays the cable; `None` if this process is not in a network namespace of its own.
    pub fn lay() -> io::Result<Option<Self>> {
        if env::var_os(OWN_NETWORK).is_none() {
            return Ok(None);
        }
        let holder = Command::new("unshare")
            .args(["--net", "cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()?;
        let link = Self { holder };
        let this = fs::read_link("/proc/self/ns/net")?;
        until("a network namespace", || {
            fs::read_link(link.namespace()).is_ok_and(|theirs| theirs != this)
        });
        ip(&[
            "link", "add", SERVER_END, "type", "veth", "peer", "name", CLIENT_END,
        ])?;
        let holder = link.holder.id().to_string();
        ip(&["link", "set", CLIENT_END, "netns", &holder])?;
        ip(&["addr", "add", &format!("{SERVER}/24"), "dev", SERVER_END])?;
        link.mend()?;
        let theirs = link.within(&[
            "ip",
            "addr",
            "add",
            &format!("{CLIENT}/24"),
            "dev",
            CLIENT_END,
        ]);
        run(&theirs)?;
        run(&link.within(&["ip", "link", "set", CLIENT_END, "up"]))?;
        Ok(Some(link))
    }

    /// What to put before a command that is to run at the clients' end.
    pub fn entrance(&self) -> [String; 2] {
        let namespace = format!("--net={}", self.namespace());
        ["nsenter".to_owned(), namespace]
    }

    /// Pulls the cable out.
    #[expect(
        clippy::unused_self,
        reason = "there is a cable only as long as there is this"
    )]
    pub fn pull(&self) -> io::Result<()> {
        ip(&["link", "set", SERVER_END, "down"])
    }

    /// Plugs it in again.
    #[expect(
        clippy::unused_self,
        reason = "there is a cable only as long as there is this"
    )]
    pub fn mend(&self) -> io::Result<()> {
        ip(&["link", "set", SERVER_END, "up"])
    }

    fn within(&self, words: &[&str]) -> Vec<String> {
        let words = words.iter().map(|word| (*word).to_owned());
        self.entrance().into_iter().chain(words).collect()
    }

    fn namespace(&self) -> String {
        format!("/proc/{}/ns/net", self.holder.id())
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        drop(self.holder.wait());
    }
}

fn ip(words: &[&str]) -> io::Result<()> {
    let words = ["ip"].iter().chain(words).map(|word| (*word).to_owned());
    run(&words.collect::<Vec<_>>())
}

fn run(words: &[String]) -> io::Result<()> {
    let status = Command::new(&words[0]).args(&words[1..]).status()?;
    if status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!("{words:?}: {status}")))
}
