//! `examples/systemd`, run by systemd on two machines: the same units on both, as they are shipped. Of the timer only the times are changed,
//! so that it starts the service each second.

use std::sync::OnceLock;

use crate::examples::database::{Database, PASSWORD, example};
use crate::support::{LIMIT, Machine, within};

const UNITS: &str = "/etc/systemd/system";
const SERVICE: &str = "pglock-nightly-report.service";
const TIMER: &str = "pglock-nightly-report.timer";
const LOCK: &str = "nightly-report";

/// Says how often it was told to stop, and ends when it gets USR1.
const COUNTING: &str = "#!/bin/sh
trap 'echo told >>said' TERM
trap 'exit 0' USR1
echo began >said
while :; do
    sleep 300 &
    wait
done
";

/// Ends when it is told to.
const PLAIN: &str = "#!/bin/sh\necho began >said\nexec sleep 300\n";

#[test]
fn the_units_hold_what_systemd_knows_to_check() {
    let Some(host) = Host::new("verified", PLAIN) else {
        return;
    };
    for unit in [SERVICE, TIMER] {
        let verify = ["systemd-analyze", "verify", "--man=no"];
        let path = format!("{UNITS}/{unit}");
        host.machine.run(&[&verify[..], &[&path]].concat());
    }
    // Of 100: how much of the system is within the service's reach.
    let exposed = "systemd-analyze security --offline=yes --threshold=20";
    let path = format!("{UNITS}/{SERVICE}");
    let words: Vec<&str> = exposed.split(' ').chain([path.as_str()]).collect();
    host.machine.run(&words);
}

#[test]
fn of_two_hosts_with_the_same_timer_one_runs_the_service_until_it_is_stopped() {
    let (Some(first), Some(second)) = (Host::new("web-1", COUNTING), Host::new("web-2", PLAIN))
    else {
        return;
    };
    first.boot();
    second.boot();
    first.systemctl(&["start", TIMER]);
    within(LIMIT, "a job", || first.said() == "began\n");
    second.systemctl(&["start", TIMER]);
    second.await_end("success exited 75");
    assert_eq!(second.said(), "");
    let message = second.machine.read("/run/messages");
    let held = "pglock: nightly-report is held by ";
    assert!(
        message.starts_with(held) && message.contains("web-1"),
        "{message}"
    );

    first.systemctl(&["stop", TIMER]);
    first.systemctl(&["stop", "--no-block", SERVICE]);
    within(LIMIT, "the job told", || first.said() == "began\ntold\n");
    assert!(database().is_held(LOCK));
    first.systemctl(&["kill", "--signal=USR1", "--kill-who=main", SERVICE]);
    first.await_end("success exited 0");
    // Once, by pglock.
    assert_eq!(first.said(), "began\ntold\n");

    within(LIMIT, "the job of the other host", || {
        second.said() == "began\n"
    });
    second.systemctl(&["stop", TIMER]);
    second.systemctl(&["stop", SERVICE]);
    second.await_end("success exited 143");
    assert!(!database().is_held(LOCK));

    // A pglock that is killed leaves no job.
    first.systemctl(&["start", "--no-block", SERVICE]);
    within(LIMIT, "a job", || first.said() == "began\n");
    first.systemctl(&["kill", "--signal=KILL", "--kill-who=main", SERVICE]);
    first.await_end("signal killed KILL");
    within(LIMIT, "a free lock", || !database().is_held(LOCK));
    let processes = format!("/sys/fs/cgroup/system.slice/{SERVICE}/cgroup.procs");
    within(LIMIT, "nothing left of the service", || {
        first.machine.read(&processes).is_empty()
    });
}

/// The server of these tests.
fn database() -> &'static Database {
    static DATABASE: OnceLock<Database> = OnceLock::new();
    DATABASE.get_or_init(Database::start)
}

/// A machine that has the units, and whose systemd knows little else.
struct Host {
    machine: Machine,
}

impl Host {
    fn new(name: &str, job: &str) -> Option<Self> {
        let machine = Machine::new(name)?;
        let database = database();
        database.introduce(&machine);
        machine.install("/opt/report/nightly.sh", job, 0o755);
        let service = format!(
            "[nightly-report]\nhost=db.example\nport={}\ndbname=app\nuser=report\npassword={PASSWORD}\n\
             sslmode=verify-full\nsslrootcert=/etc/pglock/root.crt\n",
            database.server.port()
        );
        machine.install("/etc/pglock/pg_service.conf", &service, 0o600);
        machine.install("/etc/pglock/root.crt", &database.root_certificate(), 0o644);
        machine.remove(UNITS);
        for unit in [SERVICE, TIMER] {
            let text = example(&format!("systemd/{unit}"));
            machine.install(&format!("{UNITS}/{unit}"), &text, 0o644);
        }
        Some(Self { machine })
    }

    /// Starts systemd with these units alone, and the targets that each unit wants by default.
    fn boot(&self) {
        for target in ["sysinit", "basic", "timers", "network-online"] {
            let path = format!("{UNITS}/{target}.target");
            let text = "[Unit]\nDescription=Empty\nDefaultDependencies=no\n";
            self.machine.install(&path, text, 0o644);
        }
        // No journal runs there.
        let messages = "[Service]\nStandardError=append:/run/messages\n\
            ExecStopPost=+/bin/sh -c 'echo $$SERVICE_RESULT $$EXIT_CODE $$EXIT_STATUS >>/run/ends'\n";
        let times = "[Timer]\nOnCalendar=\nOnCalendar=*:*:*\n";
        for (unit, text) in [(SERVICE, messages), (TIMER, times)] {
            let path = format!("{UNITS}/{unit}.d/test.conf");
            self.machine.install(&path, text, 0o644);
        }
        self.machine.start(&format!(
            "export container=test SYSTEMD_UNIT_PATH={UNITS}; \
             exec /lib/systemd/systemd --system --unit=basic.target --show-status=no"
        ));
        within(LIMIT, "systemd", || {
            let mut command = self.machine.command("systemctl");
            let state = command
                .args(["is-active", "basic.target"])
                .output()
                .unwrap();
            state.status.success()
        });
    }

    #[track_caller]
    fn systemctl(&self, words: &[&str]) {
        self.machine.run(&[&["systemctl"], words].concat());
    }

    /// Waits until a run of the service has ended so, the last of all.
    #[track_caller]
    fn await_end(&self, end: &str) {
        within(LIMIT, end, || {
            self.machine.read("/run/ends").lines().last() == Some(end)
        });
    }

    /// What the job has written in its directory.
    fn said(&self) -> String {
        self.machine.read("/var/lib/private/nightly-report/said")
    }
}
