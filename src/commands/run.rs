//! `pglock run` and `pglock try`: a command under a lock, from the arguments to the exit status.

use std::ffi::OsString;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::child::{Child, Command};
use crate::cli::{ConnectionArgs, JobArgs, RunArgs};
use crate::connection::Settings;
use crate::duration;
use crate::exit::{self, Fault, Outcome};
use crate::identity::{Identity, Stage};
use crate::inventory;
use crate::key::{Mode, Naming};
use crate::report::Reporter;
use crate::session::{Attempt, HeldLock, Request, Session, Wait};
use crate::signals::{self, Inherited, Signals};
use crate::supervise::{self, End};
use crate::text;

/// How long a command that pglock stops may take to end by itself.
const DEFAULT_GRACE: Duration = Duration::from_secs(10);

/// The pause between two tries: short at first for short jobs, then one statement a second for each waiter.
/// Jitter keeps waiters that started together from trying together.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How long a server that was connected to may take to answer a single try.
const ANSWER_DEADLINE: Duration = Duration::from_secs(10);
/// The same for the try at the end of `--timeout`, and for the question who holds the lock.
const LAST_TRY: Duration = Duration::from_secs(1);

pub fn run(connection: &ConnectionArgs, args: RunArgs) -> anyhow::Result<Outcome> {
    let timeout = args
        .timeout
        .as_deref()
        .map(|typed| duration::parse("--timeout", typed))
        .transpose()?;
    let patience = match timeout {
        _ if args.nonblock => Patience::None,
        Some(Duration::ZERO) => Patience::None,
        Some(limit) => Patience::Until(Instant::now() + limit),
        None => Patience::Unlimited,
    };
    Plan::resolve(connection, args.job, patience)?.carry_out()
}

pub fn try_once(connection: &ConnectionArgs, job: JobArgs) -> anyhow::Result<Outcome> {
    Plan::resolve(connection, job, Patience::None)?.carry_out()
}

/// How long to wait for connection and lock together.
#[derive(Clone, Copy, Debug)]
enum Patience {
    None,
    Until(Instant),
    Unlimited,
}

/// Everything that was asked for, resolved before any connection is made.
struct Plan {
    settings: Settings,
    request: Request,
    words: Vec<OsString>,
    patience: Patience,
    grace: Duration,
    conflict_exit_code: u8,
    quiet: bool,
    report: Reporter,
}

impl Plan {
    fn resolve(
        connection: &ConnectionArgs,
        job: JobArgs,
        patience: Patience,
    ) -> anyhow::Result<Self> {
        let lock = Naming::resolve(&job.naming)?.lock(&job.name)?;
        let grace = job
            .grace
            .as_deref()
            .map(|typed| duration::parse("--grace", typed));
        let words = match job.shell {
            Some(script) => vec!["/bin/sh".into(), "-c".into(), script],
            None => job.command,
        };
        let identity = Identity {
            lock,
            host: host_name(),
            wrapper_pid: std::process::id(),
            command: text::command_line(&words),
        };
        Ok(Self {
            settings: Settings::resolve(connection)?,
            request: Request {
                identity,
                mode: if job.shared {
                    Mode::Shared
                } else {
                    Mode::Exclusive
                },
                wait: match patience {
                    Patience::None => Wait::Never,
                    Patience::Until(_) | Patience::Unlimited => Wait::NotYet,
                },
            },
            words,
            patience,
            grace: grace.transpose()?.unwrap_or(DEFAULT_GRACE),
            conflict_exit_code: job.conflict_exit_code.unwrap_or(exit::NOT_OBTAINED),
            quiet: job.quiet,
            report: Reporter::new(job.verbose),
        })
    }

    /// Signals blocked → session → held lock → child → supervised → released.
    fn carry_out(mut self) -> anyhow::Result<Outcome> {
        let inherited = signals::block()?;
        super::block_on(async move {
            let mut signals = Signals::open()?;
            let acquired = tokio::select! {
                biased;
                signal = signals.next_ending() => {
                    return Ok(Outcome::Interrupted { signal: signal? as i32 });
                }
                acquired = self.acquire() => acquired?,
            };
            match acquired {
                Acquired::Held(held) => self.run_under(held, signals, &inherited).await,
                Acquired::NotObtained(message) => Ok(Outcome::NotObtained {
                    code: self.conflict_exit_code,
                    message,
                }),
            }
        })
    }

    /// Tries until the lock is held or the patience is over.
    async fn acquire(&mut self) -> anyhow::Result<Acquired> {
        let mut session = self.connect().await?;
        let mut pause = FIRST_PAUSE;
        loop {
            let (busy, at) = match self.try_lock(session).await? {
                Attempt::Held(held) => {
                    self.report
                        .detail(|| format!("holding the lock, backend {}", held.backend_pid()));
                    return Ok(Acquired::Held(held));
                }
                Attempt::Busy { session, at } => (session, at),
            };
            if !self.wait_for(pause).await {
                return Ok(Acquired::NotObtained(self.explain_busy(busy).await));
            }
            if self.request.wait == Wait::NotYet {
                self.request.wait = Wait::Since(at);
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
            session = busy;
        }
    }

    async fn connect(&self) -> anyhow::Result<Session> {
        let application_name = self.request.identity.application_name(Stage::Holding);
        let opened = Session::open(&self.settings, &application_name);
        let session = match self.patience {
            Patience::Until(deadline) => {
                timeout_at(deadline, opened).await.unwrap_or_else(|_| {
                    Err(Fault::CannotConnect
                        .error("cannot connect: the time given by --timeout is over"))
                })?
            }
            Patience::None | Patience::Unlimited => opened.await?,
        };
        self.report
            .detail(|| format!("connected as {}", self.settings.user));
        Ok(session)
    }

    /// One try; a server that does not answer is given up, except where the wait is unlimited.
    async fn try_lock(&self, session: Session) -> anyhow::Result<Attempt> {
        let answer = session.try_lock(&self.request);
        let limit = match self.patience {
            Patience::Unlimited => return answer.await,
            Patience::None => ANSWER_DEADLINE,
            Patience::Until(deadline) => deadline
                .saturating_duration_since(Instant::now())
                .max(LAST_TRY),
        };
        let answer = timeout(limit, answer).await;
        answer.unwrap_or_else(|_| Err(Fault::CannotConnect.error("the server does not answer")))
    }

    /// Pauses between two tries; `false` when there is no time for another.
    async fn wait_for(&self, pause: Duration) -> bool {
        let pause = pause.mul_f64(0.75 + 0.5 * fastrand::f64());
        match self.patience {
            Patience::None => false,
            Patience::Unlimited => {
                sleep(pause).await;
                true
            }
            Patience::Until(deadline) => {
                let left = deadline.saturating_duration_since(Instant::now());
                sleep(pause.min(left)).await;
                !left.is_zero()
            }
        }
    }

    /// The line for a lock that was not obtained.
    async fn explain_busy(&self, session: Session) -> Option<String> {
        if self.quiet {
            session.close().await;
            return None;
        }
        let lock = &self.request.identity.lock;
        let holders = timeout(LAST_TRY, inventory::holders(session.client(), lock.key)).await;
        session.close().await;
        Some(match holders.into_iter().flatten().flatten().next() {
            Some(holder) => format!("{lock} is held by {}", holder.describe()),
            None => format!("{lock} was held a moment ago"),
        })
    }

    async fn run_under(
        &self,
        mut held: HeldLock,
        mut signals: Signals,
        inherited: &Inherited,
    ) -> anyhow::Result<Outcome> {
        let command = Command {
            words: self.words.clone(),
            environment: self.environment(&held),
        };
        let mut child = match Child::start(&command, inherited) {
            Ok(child) => child,
            Err(error) => {
                let _ = held.release().await;
                return Err(error);
            }
        };
        self.report
            .detail(|| format!("command started, pid {}", child.pid()));
        let end = supervise::supervise(
            &mut child,
            &mut held,
            &mut signals,
            self.grace,
            &self.report,
        )
        .await?;
        let lock = &self.request.identity.lock;
        match end {
            End::Lost { cause } => Ok(Outcome::Lost(format!(
                "{lock} was lost: {cause}; the command was stopped"
            ))),
            End::Ended(end) => {
                self.report.detail(|| format!("command {end}"));
                Ok(match held.release().await {
                    Ok(()) => Outcome::Command(end),
                    Err(cause) => {
                        Outcome::Lost(format!("{lock} was lost: {cause}; the command {end}"))
                    }
                })
            }
        }
    }

    fn environment(&self, held: &HeldLock) -> Vec<(&'static str, String)> {
        let lock = &self.request.identity.lock;
        let name = lock.name.as_ref();
        let key = lock.key.to_string();
        let namespace = name.and_then(|name| name.namespace.clone());
        let mut environment = vec![
            (
                "PGLOCK_NAME",
                name.map_or_else(|| key.clone(), |name| name.name.clone()),
            ),
            ("PGLOCK_KEY", key),
            ("PGLOCK_BACKEND_PID", held.backend_pid().to_string()),
        ];
        environment.extend(namespace.map(|namespace| ("PGLOCK_NAMESPACE", namespace)));
        environment
    }
}

/// What [`Plan::acquire`] came to.
enum Acquired {
    Held(HeldLock),
    NotObtained(Option<String>),
}

fn host_name() -> String {
    nix::unistd::gethostname()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}
