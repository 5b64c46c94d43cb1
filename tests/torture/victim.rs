//! Faults that meet one run: whose job, whose backend, whose guardian.

use std::thread::sleep;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::clock;
use crate::driver::{Driver, Struck, stop_for};
use crate::fault::{Kind, Reach};
use crate::plan::Step;
use crate::run::Run;
use crate::sightings;
use crate::support::{child_named, process_state, until};
use crate::way::Way;

/// How long to look for somebody whom the fault can meet.
const SEARCH: Duration = Duration::from_millis(500);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// How many of the last runs can still have a job.
const RECENT: usize = 100;

/// A run whose job is running.
#[derive(Clone, Copy, Debug)]
struct Victim {
    run: usize,
    way: Way,
    job: Pid,
    backend: Pid,
    guardian: Option<Pid>,
}

impl Driver<'_> {
    /// Finds a victim and inflicts the fault on it; `None` if there is no victim, or it was gone.
    pub fn meet_one(&self, step: Step) -> Option<Struck> {
        let victim = self.victim(step)?;
        let (run, way, backend) = (victim.run, victim.way, victim.backend);
        let of_run = |kind| (kind, Reach::Run(run), clock::now());
        let of_backend = |kind, struck| (kind, Reach::Backend(backend, way), struck);
        Some(match step.kind {
            Kind::KillPglock => {
                self.signal(victim, Signal::SIGKILL)?;
                of_run(step.kind)
            }
            Kind::TerminatePglock => {
                self.signal(victim, Signal::SIGTERM)?;
                of_run(step.kind)
            }
            Kind::StopPglock => {
                self.stop(victim, || sleep(step.hold))?;
                of_run(step.kind)
            }
            Kind::StopCommand => {
                stop_for(victim.job, step.hold);
                of_run(step.kind)
            }
            Kind::StopGuardian => {
                stop_for(victim.guardian?, step.hold);
                of_run(step.kind)
            }
            Kind::KillGuardian => {
                kill(victim.guardian?, Signal::SIGKILL).ok()?;
                of_run(step.kind)
            }
            Kind::KillBoth => {
                kill(victim.guardian?, Signal::SIGKILL).ok()?;
                self.signal(victim, Signal::SIGKILL)?;
                of_run(step.kind)
            }
            Kind::KillThenTerminate => {
                self.signal(victim, Signal::SIGKILL)?;
                sleep(step.hold);
                let terminated = self.terminate_if_held(victim);
                of_run(terminated.map_or(Kind::KillPglock, |()| step.kind))
            }
            Kind::StopAndTerminate => {
                let (terminated, struck) = self.stop(victim, || {
                    let terminated = self.terminate_if_held(victim);
                    let struck = clock::now();
                    sleep(step.hold);
                    (terminated, struck)
                })?;
                let kind = terminated.map_or(Kind::StopPglock, |()| step.kind);
                (kind, Reach::Run(run), struck)
            }
            Kind::StopAndFreeze => {
                let struck = self.stop(victim, || {
                    self.testbed.proxy.freeze();
                    let struck = clock::now();
                    sleep(step.hold);
                    self.testbed.proxy.thaw();
                    struck
                })?;
                (step.kind, Reach::Way(Way::Proxy), struck)
            }
            Kind::StopBackend => {
                let struck = clock::now();
                stop_for(backend, step.hold);
                of_backend(step.kind, struck)
            }
            Kind::TerminateBackend => {
                self.terminate(backend);
                of_backend(step.kind, clock::now())
            }
            Kind::KillBackend => {
                kill(backend, Signal::SIGKILL).ok()?;
                let struck = clock::now();
                self.await_recovery(backend);
                (step.kind, Reach::All, struck)
            }
            Kind::StopPostmaster
            | Kind::FastRestart
            | Kind::ImmediateRestart
            | Kind::KillPostmaster
            | Kind::Cut
            | Kind::Reset
            | Kind::Delay
            | Kind::Freeze
            | Kind::LinkDown
            | Kind::RestartPooler
            | Kind::Promotion => return None,
        })
    }

    /// One of the runs that this fault can meet, if there is one before long.
    fn victim(&self, step: Step) -> Option<Victim> {
        let fits = |run: &&Run| match step.kind {
            // What of a pooler's session is whose changes too fast to hit only one.
            Kind::KillThenTerminate | Kind::StopAndTerminate => !run.way.is_pooled(),
            Kind::StopAndFreeze => run.way == Way::Proxy,
            _ => true,
        };
        let start = clock::now();
        while clock::since(start) < SEARCH {
            let list = self.runs.lock();
            let recent = list.iter().rev().take(RECENT);
            let fitting: Vec<&Run> = recent
                .filter(|run| run.is_running_job())
                .filter(fits)
                .collect();
            if let Some(run) = fitting.get(step.pick % fitting.len().max(1)) {
                let life = run.life.as_ref()?;
                return Some(Victim {
                    run: run.id,
                    way: run.way,
                    job: life.process,
                    backend: Pid::from_raw(life.backend),
                    guardian: child_named(run.pid, "lock-guardian"),
                });
            }
            drop(list);
            sleep(LOOK_AGAIN);
        }
        None
    }

    /// Signals the victim's pglock.
    fn signal(&self, victim: Victim, signal: Signal) -> Option<()> {
        self.runs.signal(victim.run, signal).then_some(())
    }

    /// Has the victim's pglock stopped meanwhile.
    fn stop<T>(&self, victim: Victim, meanwhile: impl FnOnce() -> T) -> Option<T> {
        self.signal(victim, Signal::SIGSTOP)?;
        let result = meanwhile();
        self.signal(victim, Signal::SIGCONT)?;
        Some(result)
    }

    fn terminate(&self, backend: Pid) {
        // It warns of a process that is no backend any more.
        let statement = format!(
            "SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity WHERE pid = {backend}"
        );
        self.testbed.server.execute(&statement);
    }

    /// Terminates the victim's session unless its job has ended, after which the session has not long to live.
    fn terminate_if_held(&self, victim: Victim) -> Option<()> {
        let is_held = {
            let list = self.runs.lock();
            let life = list[victim.run].life.as_ref()?;
            life.dead.is_none() && life.code.is_none()
        };
        is_held.then(|| self.terminate(victim.backend))
    }

    /// Waits until the server has ended all its sessions, and takes new ones.
    fn await_recovery(&self, killed: Pid) {
        until("the end of the killed backend", || {
            process_state(killed).is_none()
        });
        until("the server's recovery", || {
            sightings::look(&self.testbed.server, &mut None).is_ok()
        });
    }
}
