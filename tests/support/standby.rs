//! A streaming standby of a server.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::Path;

use postgres::{Client, Config, NoTls};

use super::installation::program;
use super::server::Server;
use super::wait::until;
use super::watchdog::Watchdog;

/// As for [`Server`]: below Linux's range for outgoing connections.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

const START_ATTEMPTS: u32 = 5;

/// A standby that takes connections, which ends with this value or with the test process.
pub struct Standby {
    watchdog: Watchdog,
    host: String,
    port: u16,
}

impl Standby {
    /// Copies the server and starts the copy as its standby, on the same loopback address.
    #[track_caller]
    pub fn of(primary: &Server) -> Self {
        let watchdog = Watchdog::start();
        let data = watchdog.directory().join("data");
        copy(primary, &watchdog, &data);

        let mut standby = Self {
            watchdog,
            host: primary.host().to_owned(),
            port: 0,
        };
        for _ in 0..START_ATTEMPTS {
            standby.port = fastrand::u16(PORTS);
            standby.configure();
            if standby.launch() {
                return standby;
            }
        }
        panic!("the standby does not start:\n{}", standby.log());
    }

    /// The loopback address, which is that of the primary.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, of TCP and of the socket's name.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The environment that leads a client here: the socket, as superuser, to the database `postgres`.
    pub fn env(&self) -> [(&'static str, String); 4] {
        [
            ("PGHOST", path(self.watchdog.directory()).to_owned()),
            ("PGPORT", self.port.to_string()),
            ("PGUSER", "postgres".to_owned()),
            ("PGDATABASE", "postgres".to_owned()),
        ]
    }

    /// A superuser's session in the database `postgres`, over the socket.
    #[track_caller]
    pub fn client(&self) -> Client {
        self.connect()
            .unwrap_or_else(|error| panic!("{error:?}\n{}", self.log()))
    }

    /// Everything the standby, and the copying, has logged.
    pub fn log(&self) -> String {
        self.watchdog.read_log()
    }

    fn connect(&self) -> Result<Client, postgres::Error> {
        Config::new()
            .host_path(self.watchdog.directory())
            .port(self.port)
            .dbname("postgres")
            .user("postgres")
            .application_name("test")
            .connect(NoTls)
    }

    /// Of a setting that is there twice, the server takes the last.
    fn configure(&self) {
        let file = self.watchdog.directory().join("data/postgresql.conf");
        let mut file = OpenOptions::new().append(true).open(file).unwrap();
        writeln!(
            file,
            "port = {}\nunix_socket_directories = '{}'",
            self.port,
            path(self.watchdog.directory()),
        )
        .unwrap();
    }

    /// Starts the standby and waits until it takes connections; `false` if it ended instead.
    fn launch(&self) -> bool {
        fs::write(self.watchdog.log(), "").expect("the log can be emptied");
        let data = self.watchdog.directory().join("data");
        let postgres = program("postgres");
        self.watchdog.launch(&[&postgres, "-D", path(&data)]);
        until("the start of the standby", || {
            if self.watchdog.saw_the_end() {
                return Some(false);
            }
            // It recovers first, and refuses connections meanwhile.
            self.connect().is_ok().then_some(true)
        })
    }
}

/// Copies the data of a server that runs, as any program may (PostgreSQL documentation, 26.3.3 "Making a Base Backup Using
/// the Low Level API"): `pg_basebackup` refuses a server that is newer than itself.
#[track_caller]
fn copy(primary: &Server, watchdog: &Watchdog, data: &Path) {
    let mut client = primary.client();
    let (start, stop) = if primary.version_num() >= 150_000 {
        ("pg_backup_start('standby', true)", "pg_backup_stop(false)")
    } else {
        (
            "pg_start_backup('standby', true, false)",
            "pg_stop_backup(false, false)",
        )
    };
    client.execute(&format!("SELECT {start}"), &[]).unwrap();
    watchdog.run(&["cp", "-a", path(&primary.data_dir()), path(data)]);
    let label = client.query_one(&format!("SELECT labelfile FROM {stop}"), &[]);
    let label: String = label.unwrap().get(0);
    let owner = fs::metadata(data).unwrap();
    for (name, text) in [("backup_label", label.as_str()), ("standby.signal", "")] {
        let file = data.join(name);
        fs::write(&file, text).unwrap();
        chown(file, Some(owner.uid()), Some(owner.gid())).unwrap();
    }
    fs::remove_file(data.join("postmaster.pid")).unwrap();
    let socket = primary.socket_dir().display();
    let port = primary.port();
    let mut settings = OpenOptions::new()
        .append(true)
        .open(data.join("postgresql.conf"))
        .unwrap();
    let primary = format!("primary_conninfo = 'host={socket} port={port} user=postgres'");
    writeln!(settings, "{primary}").unwrap();
}

fn path(path: &Path) -> &str {
    path.to_str().expect("the harness makes plain paths")
}
