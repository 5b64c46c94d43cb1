//! `pglock run` and `pglock try`: a command under a lock, from the arguments to the exit status.

use std::ffi::OsString;
use std::time::Duration;

use anyhow::Context as _;
use tokio::time::{Instant, timeout};

use crate::acquire::{Acquired, Patience, acquire};
use crate::child::{Child, Command};
use crate::cli::{self, ConnectionArgs, JobArgs, RunArgs};
use crate::command_line;
use crate::connection::Settings;
use crate::duration;
use crate::exit::{self, Outcome};
use crate::guardian::Guardian;
use crate::identity::Identity;
use crate::inventory;
use crate::key::{LockName, Mode};
use crate::lease::{Lease, OnLost, Terms};
use crate::naming::Naming;
use crate::report::Reporter;
use crate::session::{HeldLock, Request, Scope, Session};
use crate::signals::{self, Inherited, Signals};
use crate::supervise::{self, End};

/// How long the question who holds the lock may take.
const EXPLANATION_DEADLINE: Duration = Duration::from_secs(1);

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

/// Everything that was asked for, resolved before any connection is made.
struct Plan {
    settings: Settings,
    request: Request,
    words: Vec<OsString>,
    patience: Patience,
    terms: Terms,
    guarded: bool,
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
        let read = |option, typed: &Option<String>| {
            let typed = typed.as_deref();
            typed
                .map(|typed| duration::parse(option, typed))
                .transpose()
        };
        let lease = Lease::resolve(read("--lease", &job.lease)?)?;
        let grace = lease.grace(read("--grace", &job.grace)?)?;
        let words = match job.shell {
            Some(script) => vec!["/bin/sh".into(), "-c".into(), script],
            None => without_separator(job.command),
        };
        let identity = Identity {
            lock,
            host: host_name(),
            wrapper_pid: std::process::id(),
            command: command_line::display(&words),
        };
        Ok(Self {
            settings: Settings::resolve_for_lock(
                connection,
                &identity.lock,
                lease.client_keepalive(),
            )?,
            request: Request {
                identity,
                mode: if job.shared {
                    Mode::Shared
                } else {
                    Mode::Exclusive
                },
                scope: match job.scope {
                    cli::Scope::Session => Scope::Session,
                    cli::Scope::Transaction => Scope::Transaction,
                },
                lease,
            },
            words,
            patience,
            terms: Terms {
                grace,
                on_lost: match job.on_lost {
                    cli::OnLost::Stop => OnLost::Stop,
                    cli::OnLost::Warn => OnLost::Warn,
                },
            },
            guarded: !job.close,
            conflict_exit_code: job.conflict_exit_code.unwrap_or(exit::NOT_OBTAINED),
            quiet: job.quiet,
            report: Reporter::new(job.verbose),
        })
    }

    /// Signals blocked → session → held lock → child → supervised → released; the guardian starts while the server
    /// is waited for.
    fn carry_out(self) -> anyhow::Result<Outcome> {
        let inherited = signals::block()?;
        super::block_on(async move {
            let mut signals = Signals::open(&inherited)?;
            let acquired = acquire(
                &self.settings,
                &self.request,
                self.patience,
                &mut signals,
                &self.report,
            );
            let (acquired, guardian) = tokio::join!(acquired, async { self.guardian() });
            match acquired? {
                Acquired::Held(held) => self.run_under(held, guardian?, signals, &inherited).await,
                Acquired::Interrupted(signal) => Ok(Outcome::Interrupted {
                    signal: signal as i32,
                }),
                Acquired::NotObtained(session) => Ok(Outcome::NotObtained {
                    code: self.conflict_exit_code,
                    message: self.explain_busy(session).await,
                }),
            }
        })
    }

    /// The line for a lock that was not obtained.
    async fn explain_busy(&self, mut session: Session) -> Option<String> {
        if self.quiet {
            session.close().await;
            return None;
        }
        let lock = &self.request.identity.lock;
        let holders = timeout(
            EXPLANATION_DEADLINE,
            inventory::holders(&mut session, lock.key),
        )
        .await;
        session.close().await;
        Some(match holders {
            Ok(Ok(holders)) => match holders.first() {
                Some(holder) => format!("{lock} is held by {}", holder.describe()),
                None => format!("{lock} was held a moment ago"),
            },
            Ok(Err(_)) | Err(_) => format!("{lock} is held; by whom could not be asked"),
        })
    }

    fn guardian(&self) -> anyhow::Result<Option<Guardian>> {
        if !self.guarded {
            return Ok(None);
        }
        let guardian = Guardian::start(self.terms).context("starting the guardian")?;
        if guardian.is_none() {
            self.report
                .detail(|| "no guardian: this kernel has no pidfd_open".to_owned());
        }
        Ok(guardian)
    }

    async fn run_under(
        &self,
        mut held: HeldLock,
        guardian: Option<Guardian>,
        mut signals: Signals,
        inherited: &Inherited,
    ) -> anyhow::Result<Outcome> {
        let command = Command {
            words: self.words.clone(),
            environment: self.environment(&held),
        };
        let hand_over = guardian
            .as_ref()
            .map(|guardian| guardian.hand_over(held.socket()));
        let mut child = match Child::start(&command, inherited, hand_over) {
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
            self.terms,
            &self.report,
        )
        .await?;
        let lock = &self.request.identity.lock;
        match end {
            End::Lost { cause } => Ok(Outcome::Lost(Some(format!(
                "{lock} was lost: {cause}; the command was stopped"
            )))),
            End::Outlived => Ok(Outcome::Lost(None)),
            End::Ended(end) => {
                self.report.detail(|| format!("command {end}"));
                guardian.iter().for_each(Guardian::dismiss);
                Ok(match held.release().await {
                    Ok(()) => Outcome::Command(end),
                    Err(cause) => {
                        Outcome::Lost(Some(format!("{lock} was lost: {cause}; the command {end}")))
                    }
                })
            }
        }
    }

    fn environment(&self, held: &HeldLock) -> Vec<(&'static str, Option<String>)> {
        let lock = &self.request.identity.lock;
        let key = lock.key.to_string();
        let (name, namespace) = match &lock.name {
            Some(LockName { name, namespace }) => (name.clone(), namespace.clone()),
            None => (key.clone(), None),
        };
        vec![
            ("PGLOCK_NAME", Some(name)),
            ("PGLOCK_NAMESPACE", namespace),
            ("PGLOCK_KEY", Some(key)),
            ("PGLOCK_BACKEND_PID", Some(held.backend_pid().to_string())),
        ]
    }
}

/// A NAME that begins with `-` stands behind a `--` of its own, and COMMAND's is then left to us.
fn without_separator(mut words: Vec<OsString>) -> Vec<OsString> {
    if words.first().is_some_and(|word| word == "--") && words.len() > 1 {
        words.remove(0);
    }
    words
}

fn host_name() -> String {
    nix::unistd::gethostname()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}
