//! Who asks a holder to let go: what a session of `pglock release` calls itself, and how that is read back.

use std::fmt;

use crate::identity;

/// A session that asks. The server vouches for backend and role, nobody for the rest.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Requester {
    pub backend_pid: i32,
    pub user: String,
    pub application_name: String,
}

const PREFIX: &str = "pglock release (";

/// What the session of this process is called.
pub fn application_name() -> String {
    let pid = std::process::id();
    let mut host = identity::ascii(&identity::host_name());
    host.truncate(identity::APPLICATION_NAME_BYTES - format!("{PREFIX}:{pid})").len());
    format!("{PREFIX}{host}:{pid})")
}

/// Host and process ID, as a session calls itself that asks.
pub fn told(application_name: &str) -> Option<(&str, u32)> {
    let told = application_name.strip_prefix(PREFIX)?.strip_suffix(')')?;
    let (host, pid) = told.rsplit_once(':')?;
    Some((host, pid.parse().ok()?))
}

/// `alice from web-1 (pid 42)`; of another program `alice (psql, backend 7)`.
impl fmt::Display for Requester {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            backend_pid,
            user,
            application_name,
        } = self;
        match told(application_name) {
            Some((host, pid)) => write!(f, "{user} from {host} (pid {pid})"),
            None if application_name.is_empty() => write!(f, "{user} (backend {backend_pid})"),
            None => write!(f, "{user} ({application_name}, backend {backend_pid})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_requester_is_called_is_read_back() {
        let called = application_name();
        assert!(called.len() <= identity::APPLICATION_NAME_BYTES, "{called}");
        let (host, pid) = told(&called).expect("recognised");
        assert_eq!(pid, std::process::id());
        assert!(identity::host_name().starts_with(host));
        for other in [
            "pglock release",
            "pglock: x (h:1)",
            "pglock release (h)",
            "psql",
        ] {
            assert_eq!(told(other), None, "{other}");
        }
    }
}
