//! What is shown of a connection that may be fit to hold locks: the JSON keys are a promise.

use std::time::Duration;

use serde::{Serialize, Serializer};
use tokio::time::timeout;

use super::server::{self, ConnectionsView, EncryptionView, RightsView, ServerView, SettingView};
use crate::connection::{LinkView, Settings, Transport};
use crate::key::LockKey;
use crate::session::{Keepalive, Pooling, Request, Scope, Session};

/// How long all questions together may take; each is a round trip.
const QUESTIONS_DEADLINE: Duration = Duration::from_secs(30);

/// Everything found, as `check --json` gives it; what could not be asked is `None`.
#[derive(Debug, Serialize)]
pub struct FitnessView {
    pub fit: bool,
    /// Why it is not, as on standard error.
    pub reason: Option<String>,
    /// What `run` would exit with before it ran anything.
    pub exit_status: u8,
    pub scope: Scope,
    pub lease_seconds: f64,
    pub connection: Option<LinkView>,
    pub pooling: Option<Pooling>,
    pub server: Option<ServerView>,
    /// Behind a pooler it is that of the link between pooler and server.
    pub server_tls: Option<EncryptionView>,
    pub lock: LockTrial,
    pub settings: Option<Vec<SettingView>>,
    pub dead_host_detection: Option<DeadHostDetection>,
    pub keepalive: Option<Keepalive>,
    pub rights: Option<RightsView>,
    pub connections: Option<ConnectionsView>,
}

/// How far the lock that was tried came.
#[derive(Clone, Debug, Serialize)]
pub struct LockTrial {
    pub name: String,
    #[serde(serialize_with = "as_text")]
    pub key: LockKey,
    pub taken: bool,
    pub seen: bool,
    pub freed: bool,
}

/// Whether the server finds out that this host is gone, within the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DeadHostDetection {
    InForce,
    NotInForce,
    /// No host is between the ends of a Unix socket.
    NotNeeded,
    /// The pooler is found out to be gone, not this host.
    PoolerOnly,
}

/// 64-bit numbers do not survive every JSON reader.
fn as_text<S: Serializer>(key: &LockKey, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(key)
}

impl FitnessView {
    /// Nothing found yet.
    pub fn of(request: &Request) -> Self {
        let lock = &request.identity.claim.lock;
        let name = lock.name.as_ref().map(|name| name.name.clone());
        Self {
            fit: false,
            reason: None,
            exit_status: 0,
            scope: request.scope,
            lease_seconds: request.lease.length().as_secs_f64(),
            connection: None,
            pooling: None,
            server: None,
            server_tls: None,
            lock: LockTrial {
                name: name.unwrap_or_default(),
                key: lock.key,
                taken: false,
                seen: false,
                freed: false,
            },
            settings: None,
            dead_host_detection: None,
            keepalive: None,
            rights: None,
            connections: None,
        }
    }

    /// Asks the session for all that is still unknown; a question that the server refuses, or does not answer in
    /// time, stays open.
    pub async fn complete(&mut self, mut session: Session, settings: &Settings, called: &str) {
        let link = session.link(settings);
        let asked = self.ask(&mut session, settings, called);
        let _ = timeout(QUESTIONS_DEADLINE, asked).await;
        session.close().await;
        self.dead_host_detection = self.detection(link.transport);
        self.connection = Some(link);
    }

    /// The pooler comes last: a backend that it has lent out would leave the other questions waiting.
    async fn ask(&mut self, session: &mut Session, settings: &Settings, called: &str) {
        self.server = server::server(session).await.ok().flatten();
        self.server_tls = server::encryption(session).await.ok().flatten();
        self.settings = server::hurtful_settings(session).await.ok();
        self.rights = server::rights(session).await.ok().flatten();
        self.connections = server::connections(session).await.ok().flatten();
        self.pooling = session.pooling(settings, called).await.ok();
    }

    fn detection(&self, transport: Transport) -> Option<DeadHostDetection> {
        match (self.pooling?, transport) {
            (Pooling::None, Transport::Unix) => Some(DeadHostDetection::NotNeeded),
            (Pooling::None, Transport::Tcp) => Some(if self.keepalive.as_ref()?.is_as_wanted {
                DeadHostDetection::InForce
            } else {
                DeadHostDetection::NotInForce
            }),
            (
                Pooling::Session | Pooling::Transaction | Pooling::Statement | Pooling::Unknown,
                _,
            ) => Some(DeadHostDetection::PoolerOnly),
        }
    }
}
