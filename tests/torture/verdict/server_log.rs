//! What the server's log may hold: no more than what the faults themselves do.

/// What the campaign does to the server, by SQLSTATE: `admin_shutdown`, `crash_shutdown`, `cannot_connect_now`, and
/// `connection_failure` where a client was cut off or killed in the middle of a statement (PostgreSQL documentation,
/// appendix A). And FATAL with `query_canceled`: who was cut off while connecting is given up after a minute
/// (`authentication_timeout`).
const INFLICTED: [&str; 5] = ["57P01 ", "57P02 ", "57P03 ", "08006 ", "57014 FATAL:"];

/// The lines that nothing explains.
pub fn unexpected(log: &str) -> Vec<String> {
    log.lines()
        .filter(|line| is_grave(line) && !INFLICTED.iter().any(|state| has_state(line, state)))
        .map(str::to_owned)
        .collect()
}

fn is_grave(line: &str) -> bool {
    let grave = ["WARNING", "ERROR", "FATAL", "PANIC"];
    grave
        .iter()
        .any(|level| line.contains(&format!(" {level}:  ")))
}

fn has_state(line: &str, state: &str) -> bool {
    line.contains(&format!("] {state}"))
}
