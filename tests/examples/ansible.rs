//! `examples/ansible`, run by Ansible on two hosts, which are this machine. Only the address, the command's place and the time that the
//! lock is held at least are the test's.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::examples::tools::{path, python_tool};
use crate::support::{Finished, Running, Server, Watchdog, binary, write_to_reader};

/// Two hosts of one machine.
const INVENTORY: &str = "[all]\nweb-1\nweb-2\n\n[all:vars]\nansible_connection=local\nansible_python_interpreter=\"{{ ansible_playbook_python }}\"\n";

#[test]
fn of_two_hosts_one_is_changed_and_the_other_is_ok() {
    let control = Control::new("echo ran >>ran; read -r line <go; echo done");
    let mut ansible = control.start(&[]);
    // The other one is told of before the command ends.
    ansible.wait_output("the host that was turned away", |ansible| {
        ansible.stdout_so_far().contains("ok: [web-")
    });
    assert_eq!(control.ran(), "ran\n");
    write_to_reader(&control.scratch.directory().join("go"), "go\n");
    let finished = ansible.wait();
    finished.assert_code(0);
    let [one, two] = recap(&finished);
    let mut changed = [one.contains("changed=1"), two.contains("changed=1")];
    changed.sort_unstable();
    finished.assert(changed == [false, true], "one changed host");
    for host in [one, two] {
        finished.assert(
            host.contains("ok=2 ") && host.contains("failed=0"),
            "two hosts that are ok",
        );
    }
    assert_eq!(control.ran(), "ran\n");
}

#[test]
fn a_command_that_fails_fails_its_host() {
    let control = Control::new("echo ran >>ran; exit 9");
    let finished = control.start(&["--limit", "web-1"]).wait();
    finished.assert_code(2).assert_stdout_has("\"rc\": 9");
}

#[test]
fn a_server_that_is_not_there_fails_the_hosts() {
    let control = Control::new("echo ran >>ran");
    let finished = control
        .start(&["--extra-vars", "once_url=postgres:///no_such_database"])
        .wait();
    finished.assert_code(2).assert_stdout_has("\"rc\": 121");
    assert_eq!(control.ran(), "");
}

#[test]
fn in_check_mode_nothing_is_run() {
    let control = Control::new("echo ran >>ran");
    let finished = control.start(&["--check"]).wait();
    finished.assert_code(0);
    for host in recap(&finished) {
        finished.assert(
            host.contains("changed=0") && host.contains("skipped=1"),
            "skipped hosts",
        );
    }
    assert_eq!(control.ran(), "");
}

/// The last lines, one for each host.
#[track_caller]
fn recap(finished: &Finished) -> [String; 2] {
    let (_, recap) = finished.stdout.split_once("PLAY RECAP").expect("a recap");
    let hosts = recap.lines().filter(|line| line.starts_with("web-"));
    let hosts: Vec<String> = hosts.map(str::to_owned).collect();
    hosts.try_into().expect("two hosts")
}

/// A control node with a command, and a database of its own.
struct Control {
    scratch: Watchdog,
    database: String,
}

impl Control {
    fn new(script: &str) -> Self {
        let scratch = Watchdog::start();
        let place = scratch.directory();
        let rebuild = place.join("rebuild-index");
        fs::write(
            &rebuild,
            format!("#!/bin/sh\ncd {}\n{script}\n", place.display()),
        )
        .unwrap();
        fs::set_permissions(&rebuild, Permissions::from_mode(0o755)).unwrap();
        fs::write(place.join("inventory"), INVENTORY).unwrap();
        mkfifo(&place.join("go"), Mode::S_IRWXU).unwrap();
        symlink(binary(), place.join("pglock")).unwrap();
        Self {
            scratch,
            database: Server::shared().database(),
        }
    }

    #[track_caller]
    fn start(&self, options: &[&str]) -> Running {
        let place = self.scratch.directory();
        let path_variable = std::env::var("PATH").unwrap();
        let own = serde_json::json!({
            "once_url": format!("postgres:///{}", self.database),
            "once_argv": [place.join("rebuild-index")],
            "once_hold_at_least": "0",
        });
        let mut command: Command = python_tool("ansible-playbook");
        command
            .arg("--inventory")
            .arg(place.join("inventory"))
            .args(["--extra-vars", &own.to_string()])
            .args(options)
            .arg(path("ansible/playbook.yml"))
            .current_dir(place)
            .env("PATH", format!("{}:{path_variable}", place.display()))
            .env("HOME", place)
            .env("LANG", "C.UTF-8")
            .env("ANSIBLE_LOCAL_TEMP", place.join("local"))
            .env("ANSIBLE_REMOTE_TEMP", place.join("remote"))
            .env("ANSIBLE_NOCOLOR", "1")
            .envs(Server::shared().env());
        Running::start(&mut command)
    }

    fn ran(&self) -> String {
        fs::read_to_string(self.scratch.directory().join("ran")).unwrap_or_default()
    }
}
