//! `pglock check`: is this connection fit to hold locks?

use std::rc::Rc;

use nix::sys::signal::Signal;

use crate::acquire::{Acquired, Applicant, Patience};
use crate::claim::Claim;
use crate::cli::{CheckArgs, ConnectionArgs, NamingArgs};
use crate::connection::{Place, Prompt, Settings};
use crate::duration;
use crate::exit::{self, Fault, Outcome};
use crate::identity::{self, Identity};
use crate::inventory::FitnessView;
use crate::key::{Lock, Mode};
use crate::lease::Lease;
use crate::naming::Naming;
use crate::output::{self, fitness, json};
use crate::report::Reporter;
use crate::session::{HeldLock, Request, Session};
use crate::signals::{self, Signals};

/// Whose lock it is; and what a session is called that asks after the one that tried the lock has gone.
const CALLED: &str = "pglock check";

pub fn check(connection: &ConnectionArgs, args: &CheckArgs) -> anyhow::Result<Outcome> {
    let trials = Trial::resolve(connection, args)?;
    let inherited = signals::block()?;
    super::block_on(async move {
        let mut signals = Signals::open(&inherited)?;
        let mut worst = Ok(Outcome::Done);
        for trial in &trials {
            let outcome = trial.carry_out(&mut signals).await;
            if let Ok(Outcome::Interrupted { .. }) = outcome {
                return outcome;
            }
            // What is wrong with the first is said; each has its screen.
            if let Ok(Outcome::Done) = worst {
                worst = outcome;
            }
        }
        worst
    })
}

/// A lock to be tried in one place, and how to tell what came of it.
struct Trial {
    settings: Settings,
    request: Request,
    json: bool,
}

impl Trial {
    /// One for each place that locks of the namespace may live in.
    fn resolve(connection: &ConnectionArgs, args: &CheckArgs) -> anyhow::Result<Vec<Self>> {
        let lease = args.lease.as_deref();
        let lease = lease.map(|typed| duration::parse("--lease", typed));
        let lease = Lease::resolve(lease.transpose()?)?;
        let naming = Naming::resolve(&NamingArgs {
            namespace: args.namespace.clone(),
            ..NamingArgs::default()
        })?;
        let prompt = Rc::new(Prompt::resolve(connection));
        let places = Place::all(connection, naming.namespace())?;
        let trial = |place| {
            let lock = lock_of_nobody_else(&naming)?;
            Ok(Self {
                settings: Settings::resolve_for_lock(place, Rc::clone(&prompt))?,
                request: Request {
                    identity: Identity::of_this_process(Claim::of(lock), CALLED.to_owned()),
                    mode: Mode::Exclusive,
                    scope: super::scope(args.scope),
                    lease,
                    most_waiters: None,
                    above: Vec::new(),
                    wants_token: false,
                },
                json: args.json,
            })
        };
        places.into_iter().map(trial).collect()
    }

    async fn carry_out(&self, signals: &mut Signals) -> anyhow::Result<Outcome> {
        let report = Reporter::new(false, true);
        let applicant = Applicant {
            settings: &self.settings,
            request: &self.request,
            patience: Patience::None,
            signals: &mut *signals,
            report: &report,
        };
        let acquired = Box::pin(applicant.acquire()).await;
        tokio::select! {
            biased;
            signal = signals.next_ending() => Ok(interrupted(signal?)),
            outcome = self.carry_on(acquired) => outcome,
        }
    }

    /// Lock proved and freed → questions → view → one write; ends as `run` would.
    async fn carry_on(&self, acquired: anyhow::Result<Acquired>) -> anyhow::Result<Outcome> {
        let mut view = FitnessView::of(&self.request);
        let (outcome, session) = match acquired {
            Ok(Acquired::Held(held)) => self.prove_and_free(held, &mut view).await,
            Ok(Acquired::NotObtained { session, .. } | Acquired::QueueFull { session, .. }) => {
                (Ok(self.not_obtained()), Some(session))
            }
            Ok(Acquired::Interrupted(signal)) => return Ok(interrupted(signal)),
            Err(error) => (Err(error), None),
        };
        let session = match (session, &outcome) {
            (None, Err(error)) if Fault::CannotConnect.classifies(error) => None,
            (None, _) => Session::open(&self.settings, CALLED).await.ok(),
            (Some(session), _) => Some(session),
        };
        (view.fit, view.reason, view.exit_status) = match &outcome {
            Ok(ended) => (
                matches!(ended, Outcome::Done),
                ended.messages().first().cloned(),
                ended.code(),
            ),
            Err(error) => (false, Some(format!("{error:#}")), exit::code_of(error)),
        };
        if let Some(session) = session {
            view.complete(session, &self.settings, CALLED).await;
        }
        if self.json {
            output::write(&json::render_fitness(&view)?)?;
        } else if view.connection.is_some() {
            output::write(&fitness::render(&view, output::width()))?;
        }
        outcome
    }

    /// What `run` does between taking and freeing: a heartbeat. The session is given back unless it is lost.
    async fn prove_and_free(
        &self,
        mut held: HeldLock,
        view: &mut FitnessView,
    ) -> (anyhow::Result<Outcome>, Option<Session>) {
        let lost = |cause| {
            let lock = &self.request.identity.claim.lock;
            (
                Ok(Outcome::Lost(Some(format!("{lock} was lost: {cause}")))),
                None,
            )
        };
        view.lock.taken = true;
        if let Err(cause) = held.prove().await {
            return lost(cause);
        }
        view.lock.seen = true;
        view.keepalive = held.keepalive().await.ok();
        match held.free().await {
            Ok(session) => {
                view.lock.freed = true;
                (Ok(Outcome::Done), Some(session))
            }
            Err(cause) => lost(cause),
        }
    }

    fn not_obtained(&self) -> Outcome {
        let lock = &self.request.identity.claim.lock;
        Outcome::NotObtained {
            code: exit::NOT_OBTAINED,
            message: Some(format!("{lock} is held by somebody else")),
        }
    }
}

/// A name that is made up here, in the form of key that `run` would use for any.
fn lock_of_nobody_else(naming: &Naming) -> anyhow::Result<Lock> {
    let (host, pid, random) = (identity::host_name(), std::process::id(), fastrand::u64(..));
    naming.lock(&format!("{CALLED} {host}:{pid}:{random:016x}"))
}

fn interrupted(signal: Signal) -> Outcome {
    Outcome::Interrupted {
        signal: signal as i32,
    }
}
