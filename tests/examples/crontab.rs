//! `examples/crontab`, run by cron on two machines: the same table on both, as it is shipped; only the server's port is added.
//!
//! The hour is cron's alone (libfaketime): it stands still before the jobs of the table are due, until both crons are ready.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use crate::examples::database::{Database, PASSWORD, example};
use crate::support::{LIMIT, Machine, within};

const TABLE: &str = "crontab/nightly-report";

/// Takes letters in, as a mail server's program does.
const SENDMAIL: &str = "#!/bin/sh\nletter=$(cat)\nprintf '%s\\n' \"$letter\" >>/srv/mail\n";

const NIGHTLY: &str = "#!/bin/sh\necho \"report of $1\" >/srv/report\n";

const REFRESH: &str = "#!/bin/sh\ndate >/srv/refreshed\n";

#[test]
fn of_two_hosts_with_the_same_crontab_one_does_the_work() {
    let Some(hosts) = Host::two() else {
        return;
    };
    // Jobs that are over, and others that never began.
    let report = await_one_of_two(&hosts, "nightly-report", "/srv/report");
    assert!(database().is_held("nightly-report"), "for five minutes");
    await_one_of_two(&hosts, "-q --hold-at-least", "/srv/refreshed");
    assert!(database().is_held("refresh"), "for a minute");
    assert!(
        hosts[report]
            .machine
            .read("/srv/report")
            .starts_with("report of 20")
    );

    let letter = &hosts[1 - report].machine;
    within(LIMIT, "a letter", || {
        letter.read("/srv/mail").contains("pglock: ")
    });
    let letter = letter.read("/srv/mail");
    let holder = hosts[report].machine.run(&["hostname"]);
    let says = format!(
        "pglock: nightly-report is held by report on {} pid ",
        holder.trim()
    );
    assert!(letter.contains(&says), "{letter}");
    assert!(letter.contains("To: root\n"), "{letter}");
    assert!(!letter.contains(PASSWORD), "{letter}");
    // Of the other job, which is quiet, there is none.
    for host in &hosts {
        let letters = host.machine.read("/srv/mail");
        assert!(!letters.contains("refresh"), "{letters}");
    }
}

/// Waits until one host has done its job, and the other's, which is logged with these words, has ended with 75; gives the former.
#[track_caller]
fn await_one_of_two(hosts: &[Host; 2], words: &str, done: &str) -> usize {
    let worker = within(LIMIT, "a job done", || {
        hosts
            .iter()
            .position(|host| !host.machine.read(done).is_empty())
    });
    let other = &hosts[1 - worker];
    let pid = within(LIMIT, "the end of the other", || other.ended(words));
    let log = other.log();
    let refused = format!("#{pid} failed with exit status 75)");
    assert!(log.contains(&refused), "{log}");
    assert_eq!(other.machine.read(done), "", "{log}");
    assert_eq!(hosts[worker].ended(words), None);
    worker
}

/// The server of these tests.
fn database() -> &'static Database {
    static DATABASE: OnceLock<Database> = OnceLock::new();
    DATABASE.get_or_init(Database::start)
}

/// A machine that runs cron.
struct Host {
    machine: Machine,
    logged: Arc<Mutex<String>>,
}

impl Host {
    /// Two of them, whose crons start at the same time.
    fn two() -> Option<[Self; 2]> {
        let hosts = [Self::new("web-1")?, Self::new("web-2")?];
        let library = libfaketime();
        for host in &hosts {
            host.show_hour("2026-03-01 01:59:58");
            host.machine.start(&format!(
                "exec env TZ=UTC LD_PRELOAD={library} FAKETIME_TIMESTAMP_FILE=/run/hour \
                 FAKETIME_NO_CACHE=1 cron -f -L 15"
            ));
        }
        for host in &hosts {
            let is_ready = || host.log().contains("Running @reboot jobs");
            within(LIMIT, "cron", is_ready);
        }
        for host in &hosts {
            host.show_hour("2026-03-01 02:00:00");
        }
        Some(hosts)
    }

    /// Sets the clock that cron sees.
    fn show_hour(&self, hour: &str) {
        self.machine
            .install("/run/hour.new", &format!("{hour}\n"), 0o644);
        let [new, hour] = ["/run/hour.new", "/run/hour"].map(|path| self.machine.path(path));
        fs::rename(new, hour).unwrap();
    }

    fn new(name: &str) -> Option<Self> {
        let machine = Machine::new(name)?;
        let database = database();
        database.introduce(&machine);
        for path in ["/etc/cron.d", "/etc/crontab", "/var/spool/cron/crontabs"] {
            machine.remove(path);
        }
        machine.run(&["useradd", "--system", "--user-group", "report"]);
        let table = format!("PGPORT={}\n{}", database.server.port(), example(TABLE));
        machine.install("/etc/cron.d/nightly-report", &table, 0o644);
        let entry = format!("db.example:*:app:report:{PASSWORD}\n");
        machine.install("/etc/pglock/pgpass", &entry, 0o600);
        machine.run(&["chown", "report:", "/etc/pglock/pgpass"]);
        machine.install("/etc/pglock/root.crt", &database.root_certificate(), 0o644);
        machine.install("/opt/report/nightly.sh", NIGHTLY, 0o755);
        machine.install("/opt/report/refresh.sh", REFRESH, 0o755);
        machine.install("/usr/sbin/sendmail", SENDMAIL, 0o755);
        for file in ["/srv/mail", "/srv/report", "/srv/refreshed"] {
            machine.install(file, "", 0o666);
        }
        let log = machine.path("/dev/log");
        let socket = UnixDatagram::bind(&log).unwrap();
        fs::set_permissions(&log, PermissionsExt::from_mode(0o666)).unwrap();
        let logged = collect(socket);
        Some(Self { machine, logged })
    }

    /// What cron has logged so far.
    fn log(&self) -> String {
        self.logged.lock().unwrap().clone()
    }

    /// The process ID of the command with these words, once cron has logged its end.
    fn ended(&self, words: &str) -> Option<String> {
        let log = self.log();
        let mut ends = log.lines().filter_map(|line| line.split_once(" END (["));
        let (_, end) = ends.find(|(_, end)| end.contains(words))?;
        Some(end.split_once(']')?.0.to_owned())
    }
}

/// Reads the log as it comes, as long as anybody wants it: cron stands still where a few messages wait.
fn collect(socket: UnixDatagram) -> Arc<Mutex<String>> {
    let logged = Arc::new(Mutex::new(String::new()));
    let wanted = Arc::downgrade(&logged);
    socket
        .set_read_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Some(logged) = wanted.upgrade() {
            if let Ok(length) = socket.recv(&mut bytes) {
                let line = String::from_utf8_lossy(&bytes[..length]);
                *logged.lock().unwrap() += &(line.into_owned() + "\n");
            }
        }
    });
    logged
}

/// Where Debian puts it.
fn libfaketime() -> String {
    let places = glob::glob("/usr/lib/*/faketime/libfaketime.so.1").unwrap();
    let place = places
        .flatten()
        .next()
        .expect("scripts/install-needs libfaketime");
    place.to_str().unwrap().to_owned()
}
