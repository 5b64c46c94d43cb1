//! Waiting in line: joining the queue of a lock, looking at it, and being told.

use std::time::Duration;

use tokio::time::sleep;
use tokio_postgres::SimpleQueryMessage;

use super::statements::FORGET;
use super::statements::{Joined, Look, queue};
use super::{Request, Session};
use crate::exit::Fault;

/// A place in the queue of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// When the wait began, in microseconds since 1970 on the server's clock.
    pub since: i64,
    /// Lower ones come first.
    pub ticket: i32,
}

/// A holder looks for a microsecond whether anybody waits; and a hundred others may join at the same moment.
const JOIN_AGAIN: Duration = Duration::from_millis(5);

impl Session {
    /// Joins the queue at its end: the place, and how many are ahead; `None` if another backend answers.
    pub async fn join(
        &mut self,
        request: &Request,
        since: i64,
    ) -> anyhow::Result<Option<(Line, u32)>> {
        let sql = queue::join(request, since, self.backend_pid, &self.server);
        let (ticket, ahead, mut is_marked) = loop {
            match Joined::read(self.sent(&sql, Some(FORGET)).await?)? {
                Joined::Waiting {
                    ticket,
                    ahead,
                    is_marked,
                } => break (ticket, ahead, is_marked),
                Joined::NoTicket => sleep(JOIN_AGAIN).await,
                Joined::Elsewhere => return Ok(None),
            }
        };
        while !is_marked {
            sleep(JOIN_AGAIN).await;
            let mark = queue::mark(request, since, self.backend_pid, &self.server);
            is_marked = queue::is_marked(self.sent(&mark, None).await?);
        }
        Ok(Some((Line { since, ticket }, ahead)))
    }

    /// Asks how many are ahead, and whether the lock is free.
    pub async fn look(&mut self, request: &Request, line: Line) -> anyhow::Result<Look> {
        let sql = queue::look(request, line, &self.server);
        Look::read(self.sent(&sql, None).await?)
    }

    /// Waits until a holder says that it has left: the first ticket in the line, if that is understood. The error is
    /// what ended the session. Cancel-safe.
    pub async fn told(&mut self) -> anyhow::Result<Option<i32>> {
        if let Some(payload) = self.notifications.recv().await {
            return Ok(payload.parse().ok());
        }
        let cause = self.ended().await;
        Err(Fault::CannotConnect.error(format!("the connection was lost: {cause}")))
    }

    /// Leaves the queue; what was told to this session may have been told to no other.
    pub async fn leave(&mut self, request: &Request, line: Line) -> anyhow::Result<()> {
        let withdraw = queue::withdraw(request, line, self.backend_pid);
        self.sent(&withdraw, None).await.map(drop)
    }

    /// Sends a message of the queue's; who waits without a limit waits for the answer, too.
    async fn sent(
        &mut self,
        sql: &str,
        before_again: Option<&str>,
    ) -> anyhow::Result<Vec<SimpleQueryMessage>> {
        match self.ask(sql, before_again).await {
            Ok(messages) => Ok(messages),
            Err(error) => Err(self.explain(error).await),
        }
    }
}
