//! The harness keeps what it promises to the other tests, above all that nothing is left behind.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use postgres::{Client, NoTls};

use crate::support::{
    Machine, Pglock, Proxy, Pty, Running, Server, Shutdown, Watchdog, process_state, until, within,
};

#[test]
fn a_server_starts_answers_and_logs_no_warning() {
    let server = Server::start();
    assert_eq!(answer(&mut server.client()), 1);
    assert!(server.version_num() >= 120_000);
    assert_eq!(
        server.log_lines_at_or_above_warning(),
        [""; 0],
        "{}",
        server.log()
    );
}

#[test]
fn a_server_answers_on_tcp_and_to_its_environment() {
    let server = Server::shared();
    let tcp = format!(
        "host={} port={} user=postgres",
        server.host(),
        server.port()
    );
    assert_eq!(answer(&mut Client::connect(&tcp, NoTls).unwrap()), 1);

    let env: BTreeMap<_, _> = server.env().into_iter().collect();
    let socket = format!(
        "host={} port={} user={}",
        env["PGHOST"], env["PGPORT"], env["PGUSER"]
    );
    assert_eq!(answer(&mut Client::connect(&socket, NoTls).unwrap()), 1);
}

#[test]
fn the_shared_server_is_one_and_a_private_one_another() {
    let pid = Server::shared().postmaster_pid();
    assert_eq!(Server::shared().postmaster_pid(), pid);
    assert_ne!(Server::start().postmaster_pid(), pid);
}

#[test]
fn settings_of_a_private_server_take_effect() {
    let server = Server::with(&["max_connections = 17", "deadlock_timeout = '3s'"]);
    let mut client = server.client();
    assert_eq!(setting(&mut client, "max_connections"), "17");
    assert_eq!(setting(&mut client, "deadlock_timeout"), "3s");
    assert_eq!(setting(&mut client, "max_prepared_transactions"), "16");
}

#[test]
fn databases_and_roles_are_fresh() {
    let server = Server::shared();
    let (database, role) = (server.database(), server.role("NOCREATEDB"));
    assert_ne!(server.database(), database);
    assert_eq!(answer(&mut server.client_as(&database, &role)), 1);
}

#[test]
fn a_stopped_server_starts_again_with_its_data() {
    let server = Server::start();
    server.execute("CREATE TABLE kept ()");
    for how in [Shutdown::Fast, Shutdown::Immediate, Shutdown::Smart] {
        let pid = server.postmaster_pid();
        server.stop(how);
        assert!(is_gone(pid), "{how:?}");
        server.start_again();
        assert_ne!(server.postmaster_pid(), pid);
        server.client().query("SELECT FROM kept", &[]).unwrap();
    }
}

#[test]
fn the_log_gives_warnings_and_errors_but_not_what_looks_like_them() {
    let server = Server::start();
    let mut client = server.client();
    client
        .batch_execute("DO $$BEGIN RAISE WARNING 'careful'; END$$")
        .unwrap();
    client
        .batch_execute("DO $$BEGIN RAISE LOG 'a WARNING:  no'; END$$")
        .unwrap();
    client
        .batch_execute("SELECT 1/0\n/* FATAL:  no */ -- ERROR:  no")
        .unwrap_err();
    let lines = until("two messages", || {
        Some(server.log_lines_at_or_above_warning()).filter(|lines| lines.len() >= 2)
    });
    assert!(lines[0].ends_with(" test WARNING:  careful"), "{lines:?}");
    assert!(
        lines[1].ends_with(" test ERROR:  division by zero"),
        "{lines:?}"
    );
    assert_eq!(lines.len(), 2, "{lines:?}");
}

#[test]
fn a_dropped_server_is_gone_at_once() {
    let server = Server::start();
    let open_session = server.client();
    assert_is_gone_after(server, drop);
    drop(open_session);
}

#[test]
fn a_server_of_a_panicking_test_is_gone() {
    assert_is_gone_after(Server::start(), |server| {
        let quietly = AssertUnwindSafe(move || {
            let _server = server;
            std::panic::resume_unwind(Box::new("a failed test"));
        });
        catch_unwind(quietly).unwrap_err();
    });
}

#[test]
fn a_server_that_was_halted_is_gone() {
    assert_is_gone_after(Server::start(), |server| {
        kill(server.postmaster_pid(), Signal::SIGSTOP).unwrap();
        drop(server);
    });
}

#[test]
fn a_server_that_was_killed_is_gone_with_its_shared_memory() {
    let server = Server::start();
    let lock_file = fs::read_to_string(server.data_dir().join("postmaster.pid")).unwrap();
    let segment = lock_file
        .lines()
        .nth(6)
        .unwrap()
        .split_whitespace()
        .last()
        .unwrap();
    assert!(segments().iter().any(|each| each == segment), "{lock_file}");
    assert_is_gone_after(server, |server| {
        kill(server.postmaster_pid(), Signal::SIGKILL).unwrap();
        drop(server);
    });
    assert!(
        !segments().iter().any(|each| each == segment),
        "{segment} remains"
    );
}

#[test]
fn servers_of_a_killed_test_process_vanish() {
    let scratch = Watchdog::start();
    let mut victim = Running::start(&mut victim(&scratch));
    victim.wait_line("started");
    assert_servers_stand(&scratch);
    victim.signal(Signal::SIGKILL);
    victim.wait().assert_signal(9);
    wait_until_vacant(&scratch);
}

#[test]
fn servers_of_a_test_process_stopped_by_ctrl_c_vanish() {
    let scratch = Watchdog::start();
    let mut victim = Pty::start(&mut victim(&scratch), None);
    victim.wait_for("started");
    assert_servers_stand(&scratch);
    victim.write(b"\x03");
    victim.wait().assert_signal(2);
    wait_until_vacant(&scratch);
}

#[test]
fn servers_of_an_orderly_test_process_vanish() {
    let scratch = Watchdog::start();
    let mut victim = Running::start(&mut victim(&scratch));
    victim.wait_line("started");
    victim.let_go().assert_code(0);
    wait_until_vacant(&scratch);
}

/// The test process that the tests above end; in a test run of its own it has nothing to do.
#[test]
fn victim_of_other_tests() {
    if std::env::var_os("PGLOCK_TEST_VICTIM").is_none() {
        return;
    }
    let _private = Server::start();
    let _session = Server::shared().client();
    io::stdout().write_all(b"\nstarted\n").unwrap();
    io::stdin().read_line(&mut String::new()).unwrap();
}

#[test]
fn the_proxy_counts_round_trips() {
    let server = Server::shared();
    let proxy = Proxy::to(server);
    let mut client = through(&proxy);
    assert_eq!(proxy.flights(), [1], "start-up");
    client.simple_query("SELECT 1").unwrap();
    assert_eq!(proxy.flights(), [2], "a simple query");
    client.query("SELECT 1", &[]).unwrap();
    assert_eq!(proxy.flights(), [4], "prepare, execute");

    let mut other = through(&proxy);
    other.simple_query("SELECT 1").unwrap();
    drop(other);
    until("the good-bye", || proxy.flights()[1] == 3);
}

#[test]
fn the_proxy_delays_each_direction() {
    let delay = Duration::from_millis(30);
    let proxy = Proxy::with_delay(Server::shared(), delay);
    let mut client = through(&proxy);
    let start = Instant::now();
    client.simple_query("SELECT 1").unwrap();
    assert!(start.elapsed() >= 2 * delay, "{:?}", start.elapsed());
}

#[test]
fn the_proxy_freezes_thaws_and_cuts() {
    let server = Server::shared();
    let proxy = Proxy::to(server);
    let mut client = through(&proxy);
    proxy.freeze();
    let asking = thread::spawn(move || (answer(&mut client), client));
    until("the query at the proxy", || proxy.flights() == [2]);
    assert_eq!(answer(&mut server.client()), 1, "the server itself answers");
    assert!(!asking.is_finished());
    proxy.thaw();
    let (answer, mut client) = asking.join().unwrap();
    assert_eq!(answer, 1);

    proxy.cut();
    client.simple_query("SELECT 1").unwrap_err();
    through(&proxy).simple_query("SELECT 1").unwrap();
}

#[test]
fn a_process_gives_its_streams_and_status() {
    let mut running = Running::start(&mut shell("echo ready; cat; echo oops >&2; exit 3"));
    running.wait_line("ready");
    running.write(b"typed");
    let finished = running.let_go();
    finished
        .assert_code(3)
        .assert_stdout("ready\ntyped")
        .assert_stderr("oops\n");
    let report = format!("{finished:?}");
    for part in ["exit; cat", "exit code 3", "typed", "oops"]
        .into_iter()
        .skip(1)
    {
        assert!(report.contains(part), "{report}");
    }
}

#[test]
fn a_process_takes_signals() {
    let mut running = Running::start(&mut shell("echo ready; exec cat"));
    running.wait_line("ready");
    running.signal(Signal::SIGTERM);
    running.wait().assert_signal(15).assert_stdout("ready\n");
}

#[test]
fn a_process_is_over_though_its_child_holds_the_streams() {
    let finished = Running::start(&mut shell("sleep 30 & echo $!")).wait();
    finished.assert_code(0);
    let left = finished.stdout.trim().parse().unwrap();
    kill(Pid::from_raw(left), Signal::SIGKILL).unwrap();
    assert!(finished.took < Duration::from_secs(20), "{finished:?}");
}

#[test]
fn a_process_that_ends_without_the_awaited_line_fails_the_test_with_a_report() {
    let failure =
        failure_of(|| Running::start(&mut shell("echo other; exit 4")).wait_line("ready"));
    for part in ["\"ready\"", "other", "exit code 4"] {
        assert!(failure.contains(part), "{failure}");
    }
}

#[test]
fn a_dropped_process_is_killed() {
    let mut running = Running::start(&mut shell("echo ready; exec cat"));
    running.wait_line("ready");
    let pid = running.pid();
    drop(running);
    assert!(is_gone(pid));
}

#[test]
fn waiting_in_vain_says_for_what() {
    let failure = failure_of(|| within(Duration::ZERO, "the impossible", || false));
    assert!(failure.contains("the impossible"), "{failure}");
}

#[test]
fn a_terminal_is_controlling_has_a_size_and_sends_signals() {
    let script = "trap 'stty size' WINCH; stty size </dev/tty; read a; cat";
    let mut terminal = Pty::start(&mut shell(script), None);
    terminal.wait_for("24 80");
    terminal.resize(40, 132);
    // A signal that came just before the shell began to read is heeded after the line.
    terminal.write(b"\n");
    terminal.wait_for("40 132");
    terminal.write(b"typed\n");
    terminal.wait_for("typed");
    // The second is no echo but cat's: dash loses a Ctrl-C that comes between its fork and exec.
    terminal.wait_for("typed");
    terminal.write(b"\x03");
    terminal.wait().assert_signal(2);
}

#[test]
fn the_environment_of_pglock_holds_nothing_unasked() {
    let server = Server::shared();
    let mut pglock = Pglock::new(server)
        .env("PGUSER", "other")
        .env_remove("PGDATABASE")
        .args(["list", ""]);
    let command = pglock.command();
    assert!(command.get_args().eq(["list", ""].map(OsStr::new)));
    let names = command
        .get_envs()
        .filter(|(_, value)| value.is_some())
        .map(|(name, _)| name);
    assert!(names.eq(["HOME", "LANG", "PATH", "PGHOST", "PGPORT", "PGUSER"].map(OsStr::new)));
}

fn answer(client: &mut Client) -> i32 {
    client.query_one("SELECT 1", &[]).unwrap().get(0)
}

fn setting(client: &mut Client, name: &str) -> String {
    client
        .query_one("SELECT current_setting($1)", &[&name])
        .unwrap()
        .get(0)
}

fn through(proxy: &Proxy) -> Client {
    let address = format!("host=127.0.0.1 port={} user=postgres", proxy.port());
    Client::connect(&address, NoTls).unwrap()
}

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

fn failure_of(test: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(test)).unwrap_err();
    *payload.downcast::<String>().unwrap()
}

fn is_gone(pid: Pid) -> bool {
    kill(pid, None) == Err(Errno::ESRCH)
}

/// The numbers of all System V shared memory segments.
fn segments() -> Vec<String> {
    let table = fs::read_to_string("/proc/sysvipc/shm").unwrap();
    table
        .lines()
        .filter_map(|line| line.split_whitespace().nth(1))
        .map(str::to_owned)
        .collect()
}

fn assert_is_gone_after(server: Server, end: impl FnOnce(Server)) {
    let (postmaster, watchdog) = (server.postmaster_pid(), server.watchdog_pid());
    let directory = server.socket_dir().to_owned();
    end(server);
    assert!(!directory.exists(), "{} remains", directory.display());
    assert!(is_gone(watchdog), "the watchdog remains");
    // Nobody reaps orphans where the tests run in a container without an init: a zombie is as good as gone.
    assert!(
        processes_of(&directory).is_empty(),
        "{:?}",
        processes_of(&directory)
    );
    assert!(is_gone(postmaster) || command_line(postmaster.as_raw()).is_empty());
}

/// This test binary, to run nothing but the victim, whose servers are in the scratch directory: one that vanishes with this process.
fn victim(scratch: &Watchdog) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "harness::victim_of_other_tests", "--nocapture"])
        .env("PGLOCK_TEST_VICTIM", "1")
        .env("TMPDIR", scratch.directory());
    command
}

/// Proves that [`processes_of`] sees what the tests then wait for to go.
#[track_caller]
fn assert_servers_stand(scratch: &Watchdog) {
    let processes = processes_of(scratch.directory());
    let count = |program: &str| {
        processes
            .iter()
            .filter(|line| line.contains(program))
            .count()
    };
    assert!(
        count("watchdog") >= 3,
        "two servers and their template: {processes:?}"
    );
    assert!(count("postgres") >= 2, "two servers: {processes:?}");
    assert_eq!(fs::read_dir(scratch.directory()).unwrap().count(), 3);
}

/// The command lines of all processes that work in the directory or name it in an argument.
fn processes_of(directory: &Path) -> Vec<String> {
    let directory = directory.to_str().unwrap();
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let involved = |pid: &i32| {
        let place = fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
        place.starts_with(directory) || command_line(*pid).contains(directory)
    };
    pids.filter(involved)
        .map(|pid| format!("{pid} {}", command_line(pid)))
        .collect()
}

fn command_line(pid: i32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ")
}

/// Waits until the victim has left neither a process nor a file.
#[track_caller]
fn wait_until_vacant(scratch: &Watchdog) {
    let directory = scratch.directory();
    until("the end of the servers", || {
        processes_of(directory).is_empty()
    });
    until("the end of their directories", || {
        fs::read_dir(directory).unwrap().next().is_none()
    });
}

#[test]
fn a_machine_has_a_name_and_files_of_its_own_and_leaves_nothing() {
    let Some(machine) = Machine::new("another") else {
        return;
    };
    machine.install("/opt/of-another/file", "text", 0o640);
    assert_eq!(machine.run(&["hostname"]), "another\n");
    let mode = ["stat", "-c", "%a %U", "/opt/of-another/file"];
    assert_eq!(machine.run(&mode), "640 root\n");
    machine.run(&["pglock", "key", "my_lock"]);
    assert!(!Path::new("/opt/of-another").exists());

    let first = machine.first_process();
    let groups = fs::read_to_string(format!("/proc/{first}/cgroup")).unwrap();
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/"));
    let group = group.unwrap().to_owned();
    let remains = || {
        let mut find = Command::new("find");
        find.args(["/sys/fs/cgroup", "-maxdepth", "2", "-name", &group]);
        Running::start(&mut find).wait().stdout
    };
    assert!(!remains().is_empty());
    drop(machine);
    assert_eq!(process_state(first), None);
    assert_eq!(remains(), "");
}
