//! `pglock run` and `pglock try`: a command under a lock, from the arguments to the exit status.

use std::ffi::OsString;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Context as _;
use nix::sys::signal::Signal;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, timeout};

use crate::acquire::{Acquired, Applicant, Blockers, Patience};
use crate::child::{Child, Command};
use crate::claim::Claim;
use crate::cli::{self, ConnectionArgs, JobArgs, RunArgs};
use crate::command_line;
use crate::connection::{Place, Prompt, Settings};
use crate::duration;
use crate::exit::{self, Fault, Outcome};
use crate::guardian::Guardian;
use crate::holding::{self, Holding};
use crate::identity::Identity;
use crate::key::{Lock, LockKey, LockName, Mode};
use crate::lease::{Lease, OnLost, Terms};
use crate::naming::Naming;
use crate::report::{self, Reporter};
use crate::session::{HeldLock, Request, Scope, Session};
use crate::signals::{self, Inherited, Signals};
use crate::supervise::{End, Kept, Supervisor};

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
    let mut plan = Plan::resolve(connection, args.job, patience)?;
    if args.max_waiters.is_some() && plan.request.scope == Scope::Transaction {
        return Err(Fault::Usage.error("--max-waiters: with --scope transaction there is no queue"));
    }
    plan.request.most_waiters = args.max_waiters;
    plan.carry_out()
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
    jitter: Option<Duration>,
    terms: Terms,
    max_runtime: Option<Duration>,
    hold_at_least: Option<Duration>,
    guarded: bool,
    conflict_exit_code: u8,
    quiet: bool,
    /// The options that say where to connect.
    place: Vec<String>,
    report: Reporter,
}

impl Plan {
    fn resolve(
        connection: &ConnectionArgs,
        job: JobArgs,
        patience: Patience,
    ) -> anyhow::Result<Self> {
        let claim = claim(&job)?;
        let place = Place::of_lock(connection, &claim.lock)?;
        for also in &claim.also {
            if Place::of_lock(connection, also)? != place {
                let lock = &claim.lock;
                return Err(Fault::Usage.error(format!(
                    "--also: {also} and {lock} are not locks of one database"
                )));
            }
        }
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
        let settings = Settings::resolve_for_lock(place, Rc::new(Prompt::resolve(connection)))?;
        for lock in claim.locks() {
            super::require_its_database(lock, &settings)?;
        }
        Ok(Self {
            settings,
            request: Request {
                identity: Identity::of_this_process(claim, command_line::display(&words)),
                mode: if job.shared {
                    Mode::Shared
                } else {
                    Mode::Exclusive
                },
                scope: super::scope(job.scope),
                lease,
                most_waiters: None,
                above: Holding::above(),
                wants_token: job.token,
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
            jitter: read("--jitter", &job.jitter)?,
            max_runtime: read("--max-runtime", &job.max_runtime)?.filter(|limit| !limit.is_zero()),
            hold_at_least: read("--hold-at-least", &job.hold_at_least)?,
            guarded: !job.close,
            conflict_exit_code: job.conflict_exit_code.unwrap_or(exit::NOT_OBTAINED),
            quiet: job.quiet,
            place: connection.as_typed(),
            report: Reporter::new(job.verbose, job.quiet),
        })
    }

    /// Signals blocked → session → held lock → child → supervised → released; the guardian starts while the server
    /// is waited for.
    fn carry_out(self) -> anyhow::Result<Outcome> {
        let inherited = signals::block()?;
        super::block_on(async move {
            let mut signals = Signals::open(&inherited)?;
            let jitter = self.jitter.map(|longest| longest.mul_f64(fastrand::f64()));
            if let Some(jitter) = jitter {
                self.report.detail(|| {
                    let jitter = humantime::format_duration(jitter);
                    format!("waiting for {jitter} before connecting")
                });
                tokio::select! {
                    biased;
                    signal = signals.next_ending() => return Ok(interrupted(signal?)),
                    () = sleep(jitter) => {}
                }
            }
            let applicant = Applicant {
                settings: &self.settings,
                request: &self.request,
                patience: self.patience.postponed_by(jitter.unwrap_or_default()),
                signals: &mut signals,
                report: &self.report,
            };
            let guardian = async {
                // Not before the connection is under way, for which the server works meanwhile.
                yield_now().await;
                self.guardian()
            };
            let (acquired, guardian) = tokio::try_join!(biased; applicant.acquire(), guardian)?;
            match acquired {
                Acquired::Held(held) => self.run_under(held, guardian, signals, &inherited).await,
                Acquired::Interrupted(signal) => Ok(interrupted(signal)),
                Acquired::QueueFull { session, waiting } => {
                    let full = format!("the queue is full: {waiting} wait already");
                    Ok(self.not_obtained(session, Some(full)).await)
                }
                Acquired::NotObtained { session, ahead } => {
                    let place = ahead.map(|ahead| format!("{ahead} ahead in line"));
                    Ok(self.not_obtained(session, place).await)
                }
            }
        })
    }

    /// Says who holds the lock, how the wait went, and what would free it.
    async fn not_obtained(&self, mut session: Session, waited: Option<String>) -> Outcome {
        let code = self.conflict_exit_code;
        if self.quiet {
            session.close().await;
            let message = None;
            return Outcome::NotObtained { code, message };
        }
        let blockers = Blockers::of(&self.request, &mut session);
        let blockers = timeout(EXPLANATION_DEADLINE, blockers).await;
        session.close().await;
        let message = if let Ok(Ok(blockers)) = blockers {
            blockers.describe(waited.as_deref(), &self.place)
        } else {
            let lock = &self.request.identity.claim.lock;
            format!("{lock} is held; by whom could not be asked")
        };
        Outcome::NotObtained {
            code,
            message: Some(message),
        }
    }

    fn guardian(&self) -> anyhow::Result<Option<Guardian>> {
        if !self.guarded {
            return Ok(None);
        }
        let guardian = Guardian::start(self.terms).context("starting the guardian")?;
        if guardian.is_none() {
            self.report
                .detail(|| "no guardian: pidfd_open is missing or forbidden".to_owned());
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
        let taken = Instant::now();
        let (mut child, guardian) = match self.start(&held, guardian, inherited) {
            Ok(started) => started,
            Err(error) => {
                let _ = held.release().await;
                return Err(error);
            }
        };
        self.report
            .detail(|| format!("command started, pid {}", child.pid()));
        let mut supervisor = Supervisor {
            child: &mut child,
            signals: &mut signals,
            asking: held.asking(),
            terms: self.terms,
            overruns: self.max_runtime.map(|limit| Instant::now() + limit),
            told_to_end: None,
            report: &self.report,
            lock: &self.request.identity.claim.lock,
        };
        let end = supervisor.watch(&mut held).await?;
        let lock = &self.request.identity.claim.lock;
        let mut asked = None;
        let (outcome, said) = match end {
            End::Lost { cause } => {
                let lost = format!("{lock} was lost: {cause}; the command was stopped");
                return Ok(Outcome::Lost(Some(lost)));
            }
            End::Outlived => return Ok(Outcome::Lost(None)),
            End::Ended(end) => (Outcome::Command(end), format!("the command {end}")),
            End::Overran => {
                let overran = "the command ran longer than --max-runtime and was stopped";
                let message = format!("{lock}: {overran}");
                (Outcome::Overran(message), overran.to_owned())
            }
            End::Asked { by, command } => {
                asked = Some(by);
                (Outcome::Command(command), format!("the command {command}"))
            }
        };
        self.report.detail(|| said.clone());
        // It ends while the server is asked.
        let dismissed = guardian.inspect(Guardian::dismiss);
        let kept = match self.hold_at_least {
            Some(least) if asked.is_none() && !is_end_wanted(supervisor.told_to_end, &outcome) => {
                drop(dismissed);
                supervisor.hold_until(&mut held, taken + least).await?
            }
            Some(_) | None => Kept::Enough,
        };
        let freed = match kept {
            Kept::Enough => held.release().await,
            Kept::Asked(by) => {
                asked = Some(by);
                held.release().await
            }
            Kept::Lost(cause) => Err(cause),
        };
        let Err(cause) = freed else {
            if let Some(by) = asked {
                report::line_unless_blocked(&format!(
                    "{lock} was released on request of {by}; {said}"
                ));
            }
            return Ok(outcome);
        };
        supervisor.stop_the_rest().await?;
        Ok(Outcome::Lost(Some(format!(
            "{lock} was lost: {cause}; {said}"
        ))))
    }

    fn start(
        &self,
        held: &HeldLock,
        guardian: Option<Guardian>,
        inherited: &Inherited,
    ) -> anyhow::Result<(Child, Option<Guardian>)> {
        // It may have been killed while the lock was waited for.
        let guardian = match guardian {
            Some(guardian) if guardian.has_ended() => self.guardian()?,
            guardian => guardian,
        };
        let hand_over = guardian
            .as_ref()
            .map(|guardian| guardian.hand_over(held.socket()));
        let command = Command {
            words: self.words.clone(),
            environment: self.environment(held),
        };
        let child = Child::start(&command, inherited, hand_over)?;
        Ok((child, guardian))
    }

    fn environment(&self, held: &HeldLock) -> Vec<(&'static str, Option<String>)> {
        let lock = &self.request.identity.claim.lock;
        let key = lock.key.to_string();
        let (name, namespace) = match &lock.name {
            Some(LockName {
                name, namespace, ..
            }) => (name.clone(), namespace.clone()),
            None => (key.clone(), None),
        };
        let slots = self.request.identity.claim.slots;
        let backend_pid = held.backend_pid();
        let holding = |key: &LockKey| Holding {
            key: *key,
            backend_pid,
        };
        let above = self.request.above.iter().copied();
        let all = above.chain(held.keys().iter().map(holding));
        let all: Vec<String> = all.map(|holding| holding.to_string()).collect();
        vec![
            ("PGLOCK_NAME", Some(name)),
            ("PGLOCK_NAMESPACE", namespace),
            ("PGLOCK_KEY", Some(key)),
            ("PGLOCK_BACKEND_PID", Some(backend_pid.to_string())),
            (holding::VARIABLE, Some(all.join(" "))),
            ("PGLOCK_SLOT", slots.map(|_| held.slot().to_string())),
            ("PGLOCK_TOKEN", held.token().map(|token| token.to_string())),
        ]
    }
}

/// What the arguments ask for.
fn claim(job: &JobArgs) -> anyhow::Result<Claim> {
    let naming = Naming::resolve(&job.naming)?;
    let lock = naming.lock(&job.name)?;
    let mut also: Vec<Lock> = Vec::new();
    for name in &job.also {
        let another = naming.lock(name)?;
        let is_same = |known: &Lock| known.key == another.key;
        if !is_same(&lock) && !also.iter().any(is_same) {
            also.push(another);
        }
    }
    let slots = job.slots;
    Ok(Claim { lock, also, slots })
}

/// Whether pglock, and not the command alone, was asked to end: a program may go on after an INT or a QUIT, as psql does.
fn is_end_wanted(told: Option<Signal>, outcome: &Outcome) -> bool {
    match (told, outcome) {
        (Some(Signal::SIGTERM), _) => true,
        (Some(signal), Outcome::Command(end)) => end.is_of(signal as i32),
        (Some(_) | None, _) => false,
    }
}

fn interrupted(signal: Signal) -> Outcome {
    Outcome::Interrupted {
        signal: signal as i32,
    }
}

/// A NAME that begins with `-` stands behind a `--` of its own, and COMMAND's is then left to us.
fn without_separator(mut words: Vec<OsString>) -> Vec<OsString> {
    if words.first().is_some_and(|word| word == "--") && words.len() > 1 {
        words.remove(0);
    }
    words
}
