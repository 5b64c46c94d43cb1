//! The only place that speaks SQL to take and free a lock: [`Session`] → [`HeldLock`].

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, SimpleQueryMessage};

use crate::connection::{self, Settings};
use crate::exit::Fault;
use crate::identity::{Identity, Stage};
use crate::key::{LockKey, Mode};

/// How long an unlock may take before the session counts as lost.
const UNLOCK_DEADLINE: Duration = Duration::from_secs(10);
/// How long the polite goodbye may take; the lock is free before it.
const GOODBYE_DEADLINE: Duration = Duration::from_secs(1);

/// An open session that holds no lock.
pub struct Session {
    client: Client,
    link: JoinHandle<Result<(), tokio_postgres::Error>>,
    server: Server,
}

/// What the server told of itself when the session was opened.
struct Server {
    major_version: u32,
    is_utf8: bool,
}

/// A lock to be taken, and who takes it.
#[derive(Debug)]
pub struct Request {
    pub identity: Identity,
    pub mode: Mode,
    pub wait: Wait,
}

/// Whether, and since when, a session waits for its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// A failed try is the end.
    Never,
    /// A failed try begins the wait.
    NotYet,
    /// When the first try failed, in microseconds since 1970 on the server's clock.
    Since(i64),
}

/// What a try came to.
pub enum Attempt {
    Held(HeldLock),
    /// Somebody else holds it; `at` is when this try failed, as in [`Wait::Since`].
    Busy {
        session: Session,
        at: i64,
    },
}

/// A session that owns a lock. There is one way out: [`HeldLock::release`].
pub struct HeldLock {
    session: Session,
    backend_pid: i32,
    unlock: String,
}

impl Session {
    /// Connects; errors are [`Fault::CannotConnect`].
    pub async fn open(settings: &Settings, application_name: &str) -> anyhow::Result<Self> {
        let (client, link) = connection::connect(settings, application_name).await?;
        let told = |parameter| link.parameter(parameter).unwrap_or_default();
        let server = Server {
            major_version: leading_number(told("server_version")),
            is_utf8: told("server_encoding") == "UTF8",
        };
        let link = tokio::spawn(link);
        Ok(Self {
            client,
            link,
            server,
        })
    }

    /// For the queries of `inventory`.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Tries once to take the lock, in one round trip, and proves that it is really owned.
    ///
    /// The same message shields the session from timeouts that the role or the database sets by default.
    /// Never waits in the server: a session blocked there would hold a snapshot.
    /// Errors: [`Fault::Unfit`] when the server is a standby or its lock functions are not PostgreSQL's.
    pub async fn try_lock(mut self, request: &Request) -> anyhow::Result<Attempt> {
        let sql = try_lock_sql(request, &self.server);
        let answer = match self.client.simple_query(&sql).await {
            Ok(messages) => Answer::read(&messages)?,
            Err(error) => return Err(self.explain(error).await),
        };
        match answer {
            Answer::Granted { backend_pid } => Ok(Attempt::Held(HeldLock {
                session: self,
                backend_pid,
                unlock: format!("SELECT {} AS unlocked", LockCalls::of(request).unlock),
            })),
            Answer::Busy { at } => Ok(Attempt::Busy { session: self, at }),
            Answer::Standby => Err(Fault::Unfit.error(
                "this server is a standby, whose locks the primary does not see; connect to the primary",
            )),
            Answer::LookAlike => Err(Fault::Unfit.error(
                "this server's advisory locks are not PostgreSQL's own and may not be real",
            )),
        }
    }

    /// The error of a query; when the connection ended meanwhile, why it did.
    async fn explain(&mut self, error: tokio_postgres::Error) -> anyhow::Error {
        if self.client.is_closed() {
            let cause = self.ended().await;
            return Fault::CannotConnect.error(format!("the connection was lost: {cause}"));
        }
        let said = connection::describe(&error);
        match error.code() {
            Some(code) if *code == SqlState::INSUFFICIENT_PRIVILEGE => {
                Fault::PermissionDenied.error(said)
            }
            Some(code)
                if *code == SqlState::UNDEFINED_FUNCTION
                    || *code == SqlState::FEATURE_NOT_SUPPORTED =>
            {
                Fault::Unfit.error(format!("this server has no advisory locks: {said}"))
            }
            _ => anyhow::anyhow!(said),
        }
    }

    /// Waits for the end of the connection; what ended it. Cancel-safe.
    async fn ended(&mut self) -> String {
        match (&mut self.link).await {
            Ok(Ok(())) => "the connection was closed".to_owned(),
            Ok(Err(error)) => connection::describe(&error),
            Err(panicked) => panicked.to_string(),
        }
    }

    /// Says goodbye, so that the server need not guess why the connection ended.
    pub async fn close(self) {
        drop(self.client);
        let _ = timeout(GOODBYE_DEADLINE, self.link).await;
    }
}

impl HeldLock {
    pub fn backend_pid(&self) -> i32 {
        self.backend_pid
    }

    /// Waits for the end of the session; what ended it. Cancel-safe.
    pub async fn lost(&mut self) -> String {
        self.session.ended().await
    }

    /// Frees the lock and waits until the server has confirmed it.
    ///
    /// The error says why it cannot be known that the lock was still held.
    pub async fn release(mut self) -> Result<(), String> {
        let unlocked = timeout(
            UNLOCK_DEADLINE,
            self.session.client.simple_query(&self.unlock),
        )
        .await;
        let Ok(unlocked) = unlocked else {
            return Err(format!(
                "no answer to the unlock within {} s",
                UNLOCK_DEADLINE.as_secs()
            ));
        };
        match unlocked {
            Ok(messages) if column(&messages, "unlocked") == Some("t") => {
                self.session.close().await;
                Ok(())
            }
            Ok(_) => Err("the server says that this session no longer held it".to_owned()),
            Err(error) => Err(format!("{:#}", self.session.explain(error).await)),
        }
    }
}

/// What one try answered.
enum Answer {
    Granted {
        backend_pid: i32,
    },
    Busy {
        at: i64,
    },
    /// Nothing was taken.
    Standby,
    /// The functions are not the built-in ones (nothing was taken), or they granted a lock and then did not
    /// know that this session owns it.
    LookAlike,
}

impl Answer {
    fn read(messages: &[SimpleQueryMessage]) -> anyhow::Result<Self> {
        let text = |name| column(messages, name).unwrap_or_default();
        let yes = |name| text(name) == "t";
        Ok(if yes("standby") {
            Self::Standby
        } else if !yes("genuine") || yes("granted") != yes("proven") {
            Self::LookAlike
        } else if yes("granted") {
            let backend_pid = text("backend_pid").parse()?;
            Self::Granted { backend_pid }
        } else {
            let at = text("at").parse()?;
            Self::Busy { at }
        })
    }
}

/// The value of a column of the last row.
fn column<'a>(messages: &'a [SimpleQueryMessage], name: &str) -> Option<&'a str> {
    let row = messages.iter().rev().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    row.and_then(|row| row.try_get(name).ok().flatten())
}

/// The calls for one lock in SQL, and the catalog's own entry of the first.
struct LockCalls {
    try_lock: String,
    unlock: String,
    oid: u32,
    source: &'static str,
}

impl LockCalls {
    /// The object IDs are fixed (PostgreSQL's `pg_proc.dat`), and each function's source is its C name.
    fn of(request: &Request) -> Self {
        let (arguments, [exclusive, shared]) = match request.identity.lock.key {
            LockKey::Bigint(key) => (
                format!("'{key}'::pg_catalog.int8"),
                [
                    (2882, "pg_try_advisory_lock_int8"),
                    (2883, "pg_try_advisory_lock_shared_int8"),
                ],
            ),
            LockKey::Pair(first, second) => (
                format!("'{first}'::pg_catalog.int4, '{second}'::pg_catalog.int4"),
                [
                    (2888, "pg_try_advisory_lock_int4"),
                    (2889, "pg_try_advisory_lock_shared_int4"),
                ],
            ),
        };
        let ((oid, source), suffix) = match request.mode {
            Mode::Exclusive => (exclusive, ""),
            Mode::Shared => (shared, "_shared"),
        };
        Self {
            try_lock: format!("pg_catalog.pg_try_advisory_lock{suffix}({arguments})"),
            unlock: format!("pg_catalog.pg_advisory_unlock{suffix}({arguments})"),
            oid,
            source,
        }
    }
}

/// One message: shield the session, then take the lock unless that would be unsafe, prove it, and tell
/// everybody whether this session now holds or waits.
///
/// Everything is qualified, operators too: a `search_path` may put other functions in front.
/// The proof takes the lock a second time and gives that one back: only a server that counts this
/// session's locks can do both.
fn try_lock_sql(request: &Request, server: &Server) -> String {
    let waiting_since = match request.wait {
        Wait::Since(since) => Some(since),
        Wait::Never | Wait::NotYet => None,
    };
    let comment = request.identity.comment(waiting_since, server.is_utf8);
    let shield = shield(server);
    let LockCalls {
        try_lock,
        unlock,
        oid,
        source,
    } = LockCalls::of(request);
    let tell = stage_change(request);
    format!(
        "{comment}{shield}; \
         SELECT s.backend_pid, s.standby, s.genuine, s.granted, \
             CASE WHEN s.granted THEN CASE WHEN {try_lock} THEN {unlock} END END AS proven, \
             (EXTRACT(epoch FROM pg_catalog.clock_timestamp()) OPERATOR(pg_catalog.*) 1000000)::pg_catalog.int8 AS at, \
             {tell} \
         FROM (SELECT f.*, CASE WHEN f.genuine AND NOT f.standby THEN {try_lock} END AS granted \
             FROM (SELECT pg_catalog.pg_backend_pid() AS backend_pid, \
                     pg_catalog.pg_is_in_recovery() AS standby, \
                     EXISTS (SELECT FROM pg_catalog.pg_proc p \
                         WHERE p.oid OPERATOR(pg_catalog.=) {oid}::pg_catalog.oid \
                         AND p.prosrc OPERATOR(pg_catalog.=) '{source}' \
                         AND p.prolang OPERATOR(pg_catalog.=) 12::pg_catalog.oid) AS genuine \
                 OFFSET 0) f OFFSET 0) s"
    )
}

/// Role and database defaults that would end the session or one of its statements, by the major version
/// that brought them.
const SHIELDED: [(&str, u32); 4] = [
    ("statement_timeout", 0),
    ("lock_timeout", 0),
    ("idle_session_timeout", 14),
    ("transaction_timeout", 17),
];

fn shield(server: &Server) -> String {
    let settings: Vec<String> = SHIELDED
        .iter()
        .filter(|(_, since)| server.major_version >= *since)
        .map(|(setting, _)| format!("pg_catalog.set_config('{setting}', '0', false)"))
        .collect();
    format!("SELECT {}", settings.join(", "))
}

/// A session is opened as a holder, so only one that waits has to say so, and take it back when granted.
fn stage_change(request: &Request) -> String {
    let (condition, stage) = match request.wait {
        Wait::Never => return "NULL".to_owned(),
        Wait::NotYet => ("NOT s.granted", Stage::Waiting(request.mode)),
        Wait::Since(_) => ("s.granted", Stage::Holding),
    };
    let name = request.identity.application_name(stage);
    format!(
        "CASE WHEN {condition} THEN pg_catalog.set_config('application_name', '{name}', false) END"
    )
}

/// `15.3 (Debian …)`, `16beta1` → 15, 16.
fn leading_number(version: &str) -> u32 {
    let end = version
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(version.len());
    version[..end].parse().unwrap_or(0)
}
