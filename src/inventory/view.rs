//! What is shown of one lock: the JSON keys are a promise.

use std::time::{Duration, SystemTime};

use serde::{Serialize, Serializer};

use super::age;
use super::owner::Owner;
use crate::identity::{Stage, Told};
use crate::key::{LockName, Mode, ShownKey};

/// A holder or waiter of one lock, as `list --json` gives it; what is unknown is `None`.
#[derive(Debug, Serialize)]
pub struct LockView {
    pub name: Option<String>,
    pub namespace: Option<String>,
    #[serde(serialize_with = "as_text")]
    pub key: ShownKey,
    /// The key of the lock whose slot that is; else the same.
    #[serde(skip)]
    pub lock_key: ShownKey,
    pub form: &'static str,
    pub state: State,
    pub mode: Mode,
    pub database: Option<String>,
    pub pid: Option<i32>,
    pub user: Option<String>,
    /// The host that the pglock process runs on.
    pub host: Option<String>,
    pub wrapper_pid: Option<u32>,
    /// Address and port of the connection, `[local]` for a Unix socket.
    pub client: Option<String>,
    pub application_name: Option<String>,
    pub backend_start: Option<Timestamp>,
    /// When the lock was taken, or when the wait began.
    pub since: Option<Timestamp>,
    pub seconds: Option<f64>,
    pub command: Option<String>,
    /// The software that such a key is known of; none for a lock that pglock took by name.
    pub program: Option<Owner>,
    pub blocked_by: Vec<i32>,
    pub prepared: bool,
    /// Which slot of the lock it is, and how many there are, where they are said to be limited.
    pub slot: Option<u32>,
    pub slots: Option<u32>,
    /// What stands after --hash or --as, where the name has its key by another rule than pglock's own.
    pub scheme: Option<&'static str>,
    /// The identifier for ROLLBACK PREPARED, where a prepared transaction holds the lock.
    #[serde(skip)]
    pub prepared_transaction: Option<String>,
    /// `name` and `namespace`, and by which rule they have this key.
    #[serde(skip)]
    pub lock_name: Option<LockName>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    Held,
    Waiting,
}

/// Microseconds since 1970, written as RFC 3339 UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(pub i64);

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let since_1970 = Duration::from_micros(self.0.try_into().unwrap_or(0));
        let time = SystemTime::UNIX_EPOCH + since_1970;
        serializer.collect_str(&humantime::format_rfc3339_micros(time))
    }
}

/// 64-bit numbers do not survive every JSON reader.
fn as_text<S: Serializer>(key: &ShownKey, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(key)
}

impl LockView {
    /// Shows that name.
    pub fn call(&mut self, name: LockName) {
        self.name = Some(name.name.clone());
        self.namespace.clone_from(&name.namespace);
        self.scheme = (!name.rule.is_own()).then(|| name.rule.word());
        self.lock_name = Some(name);
    }

    /// The holder in a sentence: name, user, host, pid, backend, since when, command.
    pub fn describe(&self) -> String {
        let mut words = Vec::new();
        words.push(self.user.clone().unwrap_or_else(|| "somebody".to_owned()));
        let place = self.host.as_ref().or(self.client.as_ref());
        words.extend(place.map(|place| format!("on {place}")));
        words.extend(self.wrapper_pid.map(|pid| format!("pid {pid}")));
        words.push(match self.pid {
            Some(pid) => format!("(backend {pid})"),
            None => "(a prepared transaction)".to_owned(),
        });
        words.extend(self.age().map(|age| format!("for {age}")));
        let doing = match (&self.command, &self.program) {
            (Some(command), _) => Some(format!("running {command}")),
            (None, Some(program)) => Some(program.to_string()),
            (None, None) => self
                .application_name
                .clone()
                .filter(|name| !name.is_empty() && self.host.is_none()),
        };
        let doing = doing.map_or_else(String::new, |doing| format!(", {doing}"));
        words.join(" ") + &doing
    }

    /// Whether that is a pglock which holds the lock, as far as it says so itself.
    pub fn is_held_by_pglock(&self) -> bool {
        let called = self.application_name.as_deref().unwrap_or_default();
        let told = Told::by(called, "").filter(|_| self.pid.is_some());
        told.is_some_and(|told| matches!(told.stage, Stage::Holding(_)))
    }

    /// How long it has been held or waited for: `3m 5s`, at most two units.
    pub fn age(&self) -> Option<String> {
        let whole = Duration::try_from_secs_f64(self.seconds?.max(0.0).floor()).ok()?;
        Some(age::told(whole.as_secs()))
    }

    /// Whether the server hides from this role what others may see of the session.
    pub fn is_partly_hidden(&self) -> bool {
        self.user.is_some() && !self.prepared && self.backend_start.is_none()
    }
}
