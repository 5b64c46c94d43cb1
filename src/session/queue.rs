//! Waiting in line: joining the queue of a lock, looking at it, and being told.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::sleep;
use tokio_postgres::SimpleQueryMessage;

use super::statements::FORGET;
use super::statements::{Joined, Look, queue};
use super::{Request, Session};
use crate::exit::Fault;

/// A place in the queue of each lock that is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// When the wait began, in microseconds since 1970 on the server's clock.
    pub since: i64,
    pub tickets: Vec<Ticket>,
}

/// A place in one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// The first key of the locks in which the queue stands.
    pub class: i32,
    /// Lower ones come first.
    pub number: i32,
}

/// What a holder says that leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// The first in one of its queues.
    pub first: Ticket,
    pub news: News,
}

/// What has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// The lock has become free.
    Lock,
    /// A slot of it has, which is not what all in the queue wait for.
    Slot,
    /// One ahead could not take what has.
    PassedOn,
}

/// A holder looks for a microsecond whether anybody waits; and a hundred others may join at the same moment.
const JOIN_AGAIN: Duration = Duration::from_millis(5);
/// Somebody who takes a marker for other than what it is must not keep the queue waiting; who has none is told nothing.
const MARK_AT_MOST: usize = 20;

impl Session {
    /// Joins the queue of each lock at its end: the places, and how many are ahead in the longest; `None` if another
    /// backend answers.
    pub async fn join(
        &mut self,
        request: &Request,
        since: i64,
    ) -> anyhow::Result<Option<(Line, u32)>> {
        let sql = queue::join(request, since, self.backend_pid, &self.server);
        let (tickets, ahead, unmarked) = loop {
            match Joined::read(self.sent(&sql, Some(FORGET)).await?)? {
                Joined::Waiting {
                    tickets,
                    ahead,
                    unmarked,
                } => break (tickets, ahead, unmarked),
                Joined::NoTicket => {
                    self.sent(FORGET, None).await?;
                    sleep(JOIN_AGAIN).await;
                }
                Joined::Elsewhere => return Ok(None),
            }
        };
        for class in unmarked {
            let mark = queue::mark(request, class, since, self.backend_pid, &self.server);
            for _ in 0..MARK_AT_MOST {
                sleep(JOIN_AGAIN).await;
                if queue::is_marked(self.sent(&mark, None).await?) {
                    break;
                }
            }
        }
        Ok(Some((Line { since, tickets }, ahead)))
    }

    /// Asks how many are ahead, and whether the lock is free.
    pub async fn look(&mut self, request: &Request, line: &Line) -> anyhow::Result<Look> {
        let sql = queue::look(request, line, &self.server);
        Look::read(self.sent(&sql, None).await?, line)
    }

    /// Waits until a holder says that it has left; what it says, if that is understood. The error is
    /// what ended the session. Cancel-safe.
    pub async fn told(&mut self) -> anyhow::Result<Option<Told>> {
        if let Some(payload) = self.notifications.recv().await {
            return Ok(Told::read(&payload));
        }
        let cause = self.ended().await;
        Err(Fault::CannotConnect.error(format!("the connection was lost: {cause}")))
    }

    /// Has those who are behind look, in the queues of these classes.
    pub async fn pass_on(&mut self, line: &Line, classes: &BTreeSet<i32>) -> anyhow::Result<()> {
        let is_meant = |ticket: &&Ticket| classes.contains(&ticket.class);
        let mut places = line.tickets.iter().filter(is_meant).peekable();
        if places.peek().is_none() {
            return Ok(());
        }
        self.sent(&queue::pass_on(places), None).await.map(drop)
    }

    /// Tells those who come first that what this one waits for is free.
    pub async fn announce(&mut self, request: &Request) -> anyhow::Result<()> {
        self.sent(&queue::wake(request), None).await.map(drop)
    }

    /// Leaves the queue; what was told to this session may have been told to no other.
    pub async fn leave(&mut self, line: &Line) -> anyhow::Result<()> {
        let withdraw = queue::withdraw(line, self.backend_pid);
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

impl Told {
    /// Reads `CLASS NUMBER NEWS`.
    fn read(payload: &str) -> Option<Self> {
        let mut words = payload.split(' ');
        let first = Ticket {
            class: words.next()?.parse().ok()?,
            number: words.next()?.parse().ok()?,
        };
        let word = words.next()?;
        let news = News::ALL.into_iter().find(|news| news.word() == word)?;
        Some(Self { first, news })
    }
}

impl News {
    const ALL: [Self; 3] = [Self::Lock, Self::Slot, Self::PassedOn];

    pub fn word(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::Slot => "slot",
            Self::PassedOn => "passed-on",
        }
    }
}
