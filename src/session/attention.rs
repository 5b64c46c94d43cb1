//! How a holder learns that somebody asks for its lock: with its heartbeats.

use std::collections::HashSet;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_postgres::{Error, SimpleQueryMessage};

use super::statements::{self, Asking, Grant};
use super::{Request, Scope, Server, Session};
use crate::connection;

pub struct Attention {
    heartbeat: String,
    /// The same without a look for who asks.
    plain_heartbeat: String,
    who_asks: String,
    /// What goes before the next statement when one failed that may.
    undo: Option<&'static str>,
    listener: Option<UnboundedSender<Asking>>,
    /// Those who were told of.
    told: HashSet<Asking>,
}

impl Attention {
    pub fn of(request: &Request, grant: &Grant, server: &Server) -> Self {
        Self {
            heartbeat: statements::attentive_heartbeat(request, grant, server),
            plain_heartbeat: statements::heartbeat(request, grant, server),
            who_asks: statements::who_asks(request, grant, server),
            undo: match request.scope {
                Scope::Session => None,
                Scope::Transaction => Some(statements::UNDO),
            },
            listener: None,
            told: HashSet::new(),
        }
    }

    /// Tells of those who ask from now on, each once.
    pub fn tell(&mut self) -> UnboundedReceiver<Asking> {
        let (sender, asking) = unbounded_channel();
        self.listener = Some(sender);
        asking
    }

    /// The answer to one heartbeat. A server that has no room for another lock can still prove those that are held.
    pub async fn beat(&self, session: &Session) -> Result<Vec<SimpleQueryMessage>, Error> {
        match session.ask(&self.heartbeat, self.undo).await {
            Err(error) if error.code().is_some_and(connection::is_full) => {
                self.undo(session).await;
                session.ask(&self.plain_heartbeat, None).await
            }
            answer => answer,
        }
    }

    /// Finds out who asks, and tells of those who were not told of. A failure to do so harms nobody: the next heartbeat
    /// shows what is wrong.
    pub async fn hear(&mut self, session: &Session) {
        let Some(listener) = &self.listener else {
            return;
        };
        match session.ask(&self.who_asks, self.undo).await {
            Ok(messages) => {
                let all = Asking::read(messages).into_iter();
                let mut new = all.filter(|asking| self.told.insert(asking.clone()));
                // Nobody may listen any more.
                let _ = new.try_for_each(|asking| listener.send(asking));
            }
            Err(_) => self.undo(session).await,
        }
    }

    async fn undo(&self, session: &Session) {
        if let Some(undo) = self.undo {
            let _ = session.ask(undo, None).await;
        }
    }
}
