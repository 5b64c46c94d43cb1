//! Whom a holder obeys that is asked to let go: whom PostgreSQL lets end its session, and nobody else.

use postgres::Client;

use crate::support::{Finished, Pglock, Running, Server, await_heartbeats};

/// What a role must be for a graceful or a forced release of a job of another, and what comes of it.
#[test]
fn asking_takes_the_rights_that_ending_takes() {
    let server = Server::shared();
    let owner = server.role("");
    let roles = [
        (owner.clone(), owner.clone(), true),
        (
            server.role(&format!("IN ROLE {owner}")),
            owner.clone(),
            true,
        ),
        (
            server.role("IN ROLE pg_signal_backend"),
            owner.clone(),
            true,
        ),
        (server.role("SUPERUSER"), owner.clone(), true),
        ("postgres".to_owned(), "postgres".to_owned(), true),
        (server.role(""), owner.clone(), false),
        // A member without the privileges is a stranger.
        (
            server.role(&format!("NOINHERIT IN ROLE {owner}")),
            owner.clone(),
            false,
        ),
        (
            server.role("IN ROLE pg_signal_backend"),
            "postgres".to_owned(),
            false,
        ),
    ];
    for (role, holder, may) in &roles {
        for (how, graceful) in [(&[][..], true), (&["--force"], false)] {
            let case = format!("{role} of {holder}, {how:?}");
            let job = hold_as(holder, &[], "roles");
            let released = release_as(role, how, "roles");
            if !may {
                assert_denied(&released, holder);
                job.let_go().assert_code(0).assert_stderr("");
                continue;
            }
            released.assert_code(0).assert_silent();
            let ended = job.wait();
            let expected = if graceful {
                format!("pglock: roles was released on request of {role} from ")
            } else {
                "pglock: roles was lost: ".to_owned()
            };
            ended
                .assert_code(if graceful { 143 } else { 123 })
                .assert_one_message()
                .assert(ended.stderr.starts_with(&expected), &case);
        }
    }
}

#[test]
fn a_forged_request_of_a_stranger_is_ignored_and_told_once_to_who_reads_along() {
    let server = Server::shared();
    let (owner, stranger) = (server.role(""), server.role(""));
    let mut job = hold_as(&owner, &["-v"], "forged");
    let mut forger = server.client_as("postgres", &stranger);
    ask(&mut forger, "forged");
    let ignored = format!("{stranger} (test, backend ");
    job.wait_stderr(&ignored);
    job.wait_stderr(") asks for forged, but may not end this session: ignored\n");
    await_heartbeats(&mut server.client(), "forged", 3);
    let said = job.stderr_so_far();
    assert_eq!(said.matches(&ignored).count(), 1, "{said}");

    // While the stranger still asks, the job obeys who may.
    let mut owners = server.client_as("postgres", &owner);
    ask(&mut owners, "forged");
    job.wait().assert_code(143).assert_stderr_has(&format!(
        "forged was released on request of {owner} (test, backend "
    ));
}

#[test]
fn what_a_role_is_called_does_no_harm_to_a_terminal() {
    let server = Server::shared();
    let role = "evil\n\u{1b}[2J";
    server.execute(&format!("CREATE ROLE \"{role}\" LOGIN SUPERUSER"));
    let job = hold_as("postgres", &[], "evil");
    let mut asking = server.client_as("postgres", role);
    ask(&mut asking, "evil");
    job.wait()
        .assert_code(143)
        .assert_one_message()
        .assert_stderr_has("on request of evil\\n\\u{1b}[2J (test");
}

/// Takes the lock that a request is, as anybody can who reads how its key is made.
#[track_caller]
fn ask(client: &mut Client, name: &str) {
    let ask = format!(
        "SELECT pg_advisory_lock_shared(
             ('x' || left(encode(sha256(convert_to('pglock release ' || application_name, 'UTF8')), 'hex'), 8))::bit(32)::int,
             pid)
         FROM pg_stat_activity WHERE application_name LIKE 'pglock: {name} (%'"
    );
    let asked = client.simple_query(&ask).unwrap();
    assert!(asked.len() > 1, "there is a holder to ask");
}

#[track_caller]
fn hold_as(role: &str, options: &[&str], name: &str) -> Running {
    Pglock::new(Server::shared())
        .args(["-U", role, "--lease", "3s"])
        .args(options)
        .hold(name)
}

#[track_caller]
fn release_as(role: &str, how: &[&str], name: &str) -> Finished {
    Pglock::new(Server::shared())
        .args(["release", "-U", role])
        .args(how)
        .arg(name)
        .run()
}

#[track_caller]
fn assert_denied(finished: &Finished, owner: &str) {
    let help = match owner {
        "postgres" => "only a superuser may end its session",
        _ => "GRANT pg_signal_backend TO ",
    };
    finished
        .assert_code(120)
        .assert_stdout("")
        .assert_one_message()
        .assert_stderr_has("permission denied: ")
        .assert_stderr_has(&format!("belongs to {owner}"))
        .assert_stderr_has(help);
}
