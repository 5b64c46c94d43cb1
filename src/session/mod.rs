//! The only place that speaks SQL to take, watch and free a lock: [`Session`] → [`HeldLock`].

mod alarm;
mod attempt;
mod attention;
mod errors;
mod held;
mod link;
mod pooler;
mod queue;
mod statements;

use std::os::fd::OwnedFd;
use std::time::Duration;

use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, SimpleQueryMessage, SimpleQueryRow};

pub use self::attempt::{Attempt, Request, Scope, Wait};
pub use self::held::HeldLock;
use self::link::{Link, Notifications};
pub use self::pooler::{Pooling, explain_refusal};
pub use self::queue::{Line, News, Ticket, Told};
use self::statements::EMIT;
#[cfg(test)]
pub use self::statements::halves;
pub use self::statements::{
    Asking, Keepalive, Look, Token, is_any_key, is_key, may_end, shielded_settings,
};
use crate::connection::{self, Connected, LinkView, Opened, Settings, TcpSettings};
use crate::exit::Fault;

/// How long `list` and `release` wait for an answer; a large server's locks take seconds.
const ANSWER_DEADLINE: Duration = Duration::from_secs(30);
/// How often a message is sent again that was cancelled.
const CANCELLED_AT_MOST: usize = 10;
/// How long the polite goodbye may take; the lock is free before it.
const GOODBYE_DEADLINE: Duration = Duration::from_secs(1);

/// An open session that holds no lock.
pub struct Session {
    client: Client,
    link: Link,
    /// What ended it, once that was seen.
    end: Option<String>,
    notifications: Notifications,
    socket: OwnedFd,
    /// What the connection parameters say about that.
    tcp: TcpSettings,
    server: Server,
    /// Which of the settings' hosts it is connected to.
    host: usize,
    /// The only backend that statements may take effect on: what the server announced, unless a pooler stands
    /// between that was seen to keep to another.
    backend_pid: i32,
    /// A pooler was seen to keep to that backend.
    is_pooled: bool,
    is_encrypted: bool,
}

/// What the server told of itself when the session was opened.
struct Server {
    major_version: u32,
    is_utf8: bool,
    over_tcp: bool,
}

impl Session {
    /// Connects; errors are [`Fault::CannotConnect`].
    pub async fn open(settings: &Settings, application_name: &str) -> anyhow::Result<Self> {
        let connected = connection::connect(settings, application_name).await?;
        Self::of(connected, settings).await
    }

    /// Connects to the server that this session is connected to.
    async fn open_another(
        &self,
        settings: &Settings,
        application_name: &str,
    ) -> anyhow::Result<Self> {
        let connected = connection::connect_to(settings, self.host, application_name).await?;
        Self::of(connected, settings).await
    }

    async fn of(connected: Connected, settings: &Settings) -> anyhow::Result<Self> {
        let Connected { opened, host } = connected;
        let Opened {
            client,
            link,
            socket,
        } = opened;
        let told = |parameter| link.parameter(parameter).unwrap_or_default();
        let server = Server {
            major_version: leading_number(told("server_version")),
            is_utf8: told("server_encoding") == "UTF8",
            over_tcp: settings.hosts[host].is_over_tcp(),
        };
        let (link, notifications) = link::drive(link);
        let announced = connection::announced(&client).await;
        Ok(Self {
            client,
            link,
            notifications,
            end: None,
            socket,
            tcp: settings.tcp,
            server,
            host,
            backend_pid: announced.map_or(0, |announced| announced.backend_pid),
            is_pooled: false,
            is_encrypted: announced.is_some_and(|announced| announced.is_encrypted),
        })
    }

    /// How it reaches its server.
    pub fn link(&self, settings: &Settings) -> LinkView {
        settings.link(self.host, self.is_encrypted)
    }

    /// When a pooler takes its backend away, if one stands between.
    pub async fn pooling(
        &mut self,
        settings: &Settings,
        application_name: &str,
    ) -> anyhow::Result<Pooling> {
        pooler::pooling(self, settings, application_name).await
    }

    /// Runs one statement in one round trip; the rows of its answer.
    ///
    /// Names mean PostgreSQL's own, and the role's timeouts and isolation do not count, for this statement
    /// alone: nothing is left behind. Errors: [`Fault::CannotConnect`] when the session ended,
    /// [`Fault::PermissionDenied`] when the server refused.
    pub async fn query(&mut self, statement: &str) -> anyhow::Result<Vec<SimpleQueryRow>> {
        let sql = statements::shielded(statement);
        self.send(&sql).await
    }

    /// The same, but a statement that is cancelled is not sent again: for one that has set itself a timeout.
    pub async fn query_once(&mut self, statement: &str) -> anyhow::Result<Vec<SimpleQueryRow>> {
        let sql = statements::shielded(statement);
        match timeout(ANSWER_DEADLINE, self.client.simple_query(&sql)).await {
            Ok(Ok(messages)) => Ok(statements::rows(messages)),
            Ok(Err(error)) => Err(self.explain(error).await),
            Err(_) => Err(Fault::CannotConnect.error("the server does not answer")),
        }
    }

    async fn send(&mut self, sql: &str) -> anyhow::Result<Vec<SimpleQueryRow>> {
        match timeout(ANSWER_DEADLINE, self.ask(sql, None)).await {
            Ok(Ok(messages)) => Ok(statements::rows(messages)),
            Ok(Err(error)) => Err(self.explain(error).await),
            Err(_) => Err(Fault::CannotConnect.error("the server does not answer")),
        }
    }

    /// Sends a message, and sends it again when it is cancelled: a `statement_timeout` of the role counts until the
    /// message has lifted it, and others may cancel by mistake.
    async fn ask(
        &self,
        sql: &str,
        before_again: Option<&str>,
    ) -> Result<Vec<SimpleQueryMessage>, tokio_postgres::Error> {
        for _ in 0..CANCELLED_AT_MOST {
            match self.client.simple_query(sql).await {
                Err(error) if error.code() == Some(&SqlState::QUERY_CANCELED) => {}
                answered => return answered,
            }
            if let Some(before_again) = before_again {
                match self.client.simple_query(before_again).await {
                    Err(error) if error.code() == Some(&SqlState::QUERY_CANCELED) => {}
                    done => drop(done?),
                }
            }
        }
        self.client.simple_query(sql).await
    }

    /// Whether the server is a standby, which knows none of the primary's locks.
    pub async fn is_standby(&mut self) -> anyhow::Result<bool> {
        let rows = self.query("SELECT pg_is_in_recovery() AS standby").await?;
        let answer = rows.first().and_then(|row| row.try_get("standby").ok()?);
        Ok(answer == Some("t"))
    }

    /// A fencing token, higher than all that were given in this cluster before.
    async fn token(&mut self) -> anyhow::Result<Token> {
        let rows = self
            .query(&format!("SELECT concat({EMIT}) AS token"))
            .await?;
        Token::read(statements::column(&rows, "token").unwrap_or_default())
    }

    /// Keeps the session from being ended while it idles, as a role's or a database's default may have it.
    /// Behind a pooler, where another backend answers than the announced one, nothing is set.
    pub async fn survive_idling(&mut self) -> anyhow::Result<()> {
        let sql = statements::shield_alone(&self.server, self.backend_pid);
        self.send(&sql).await.map(drop)
    }

    /// Opens a transaction, in which whatever is asked later is asked too: a pooler leaves it its backend.
    pub async fn begin(&mut self) -> anyhow::Result<()> {
        let sql = statements::begin(&self.server);
        self.send(&sql).await.map(drop)
    }

    /// Ends the transaction and with it what it holds.
    pub async fn roll_back(&mut self) -> anyhow::Result<()> {
        self.send(statements::GIVE_UP).await.map(drop)
    }

    /// Waits for the end of the connection; what ended it, however often that is asked. Cancel-safe.
    async fn ended(&mut self) -> String {
        if let Some(end) = &self.end {
            return end.clone();
        }
        let end = match (&mut self.link).await {
            Ok(Ok(())) => "the connection was closed".to_owned(),
            Ok(Err(error)) => connection::describe(&error),
            Err(panicked) => panicked.to_string(),
        };
        self.end.insert(end).clone()
    }

    /// Says goodbye, so that the server need not guess why the connection ended.
    pub async fn close(self) {
        drop(self.client);
        // One that has ended was awaited already.
        if self.end.is_none() {
            let _ = timeout(GOODBYE_DEADLINE, self.link).await;
        }
    }
}

/// `15.3 (Debian …)`, `16beta1` → 15, 16.
fn leading_number(version: &str) -> u32 {
    let end = version
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(version.len());
    version[..end].parse().unwrap_or(0)
}
