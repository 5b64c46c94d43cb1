//! Waiting in line: joining the queue of a lock, looking at it, and being told.

use std::time::Duration;

use tokio::time::{sleep, timeout};
use tokio_postgres::SimpleQueryMessage;

use super::statements::{Joined, Look, queue};
use super::{ANSWER_DEADLINE, Request, Session};
use crate::exit::Fault;

/// A place in the queue of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// When the wait began, in microseconds since 1970 on the server's clock.
    pub since: i64,
    /// Lower ones come first.
    pub ticket: i32,
}

/// A holder looks for a microsecond whether anybody waits.
const MARK_AGAIN: Duration = Duration::from_millis(5);

impl Session {
    /// Joins the queue at its end: the place, and how many are ahead.
    pub async fn join(&mut self, request: &Request, since: i64) -> anyhow::Result<(Line, u32)> {
        let sql = queue::join(request, since, self.backend_pid, &self.server);
        let joined = loop {
            // Unless a hundred others join at the same moment.
            if let Some(joined) = Joined::read(self.sent(&sql).await?) {
                break joined;
            }
        };
        let mut is_marked = joined.is_marked;
        while !is_marked {
            sleep(MARK_AGAIN).await;
            let mark = queue::mark(request, since, &self.server);
            is_marked = queue::is_marked(self.sent(&mark).await?);
        }
        let line = Line {
            since,
            ticket: joined.ticket,
        };
        Ok((line, joined.ahead))
    }

    /// Asks how many are ahead, and whether the lock is free.
    pub async fn look(&mut self, request: &Request, line: Line) -> anyhow::Result<Look> {
        let sql = queue::look(request, line, &self.server);
        Look::read(self.sent(&sql).await?)
    }

    /// Waits until a holder says that it has left: the first ticket in the line, if the link still stands.
    /// Cancel-safe.
    pub async fn told(&mut self) -> Option<i32> {
        let payload = self.notifications.recv().await?;
        payload.parse().ok()
    }

    /// Leaves the queue; what was told to this session may have been told to no other.
    pub async fn leave(&mut self, request: &Request, line: Line) -> anyhow::Result<()> {
        let withdraw = queue::withdraw(request, line);
        self.send(&withdraw).await.map(drop)
    }

    /// Sends a message of the queue's.
    async fn sent(&mut self, sql: &str) -> anyhow::Result<Vec<SimpleQueryMessage>> {
        match timeout(ANSWER_DEADLINE, self.ask(sql, None)).await {
            Ok(Ok(messages)) => Ok(messages),
            Ok(Err(error)) => Err(self.explain(error).await),
            Err(_) => Err(Fault::CannotConnect.error("the server does not answer")),
        }
    }
}
