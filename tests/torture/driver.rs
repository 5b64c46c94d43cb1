//! A driver: inflicts one fault after the other, and takes note of each.

use std::io;
use std::sync::Mutex;
use std::thread::sleep;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::clock;
use crate::fault::{Fault, Kind, Reach};
use crate::plan::Step;
use crate::run::{Run, Runs};
use crate::support::{Shutdown, child_named, until, within};
use crate::testbed::Testbed;
use crate::way::Way;

/// How long to look for somebody whom the fault can meet.
const SEARCH: Duration = Duration::from_millis(500);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// One way; the heartbeat's half second has room for both.
const DELAY: Duration = Duration::from_millis(100);

/// Inflicts faults on runs and on what they stand on.
pub struct Driver<'a> {
    pub testbed: &'a Testbed,
    pub runs: &'a Runs,
    pub faults: &'a Mutex<Vec<Fault>>,
}

/// Who is met by a fault that is for one run.
#[derive(Clone, Copy, Debug)]
struct Victim {
    run: usize,
    way: Way,
    job: Pid,
    backend: Pid,
    guardian: Option<Pid>,
}

/// What a fault came to, if it met anybody.
type Struck = Option<(Kind, Reach, Duration)>;

impl Driver<'_> {
    /// Inflicts these faults until it is time to end.
    pub fn drive(&self, steps: impl Iterator<Item = Step>) -> io::Result<()> {
        for step in steps {
            sleep(step.pause);
            if self.testbed.is_over() {
                break;
            }
            let from = clock::now();
            if let Some((kind, reach, struck)) = self.inflict(step)? {
                self.faults
                    .lock()
                    .expect("nobody panics with it")
                    .push(Fault {
                        kind,
                        reach,
                        from,
                        struck,
                        until: clock::now(),
                    });
            }
        }
        Ok(())
    }

    fn inflict(&self, step: Step) -> io::Result<Struck> {
        let Testbed {
            server,
            proxy,
            session_pool,
            link,
            ..
        } = self.testbed;
        match step.kind {
            Kind::KillPglock
            | Kind::TerminatePglock
            | Kind::StopPglock
            | Kind::StopCommand
            | Kind::StopGuardian
            | Kind::KillGuardian
            | Kind::StopBackend
            | Kind::TerminateBackend
            | Kind::KillThenTerminate
            | Kind::StopAndTerminate
            | Kind::KillBackend
            | Kind::KillBoth
            | Kind::StopAndFreeze => {
                let victim = self.victim(step);
                return Ok(victim.and_then(|victim| self.meet(victim, step)));
            }
            Kind::StopPostmaster => {
                stop_for(server.postmaster_pid(), step.hold);
                return Ok(Some((step.kind, Reach::All, clock::now())));
            }
            Kind::FastRestart => server.stop(Shutdown::Fast),
            Kind::ImmediateRestart => server.stop(Shutdown::Immediate),
            Kind::KillPostmaster => server.crash(),
            Kind::Cut => proxy.cut(),
            Kind::Reset => proxy.reset(),
            Kind::Delay => proxy.set_delay(DELAY),
            Kind::Freeze => proxy.freeze(),
            Kind::RestartPooler => session_pool.stop(),
            Kind::LinkDown => match link {
                Some(link) => {
                    let struck = clock::now();
                    link.interrupt(step.hold)?;
                    return Ok(Some((step.kind, Reach::Way(Way::Link), struck)));
                }
                None => return Ok(None),
            },
            Kind::Promotion => return Ok(None),
        }
        let struck = clock::now();
        sleep(step.hold);
        let reach = match step.kind {
            Kind::FastRestart | Kind::ImmediateRestart | Kind::KillPostmaster => {
                server.start_again();
                Reach::All
            }
            Kind::RestartPooler => {
                session_pool.start_again();
                Reach::Way(Way::SessionPool)
            }
            _ => {
                proxy.set_delay(Duration::ZERO);
                proxy.thaw();
                Reach::Way(Way::Proxy)
            }
        };
        Ok(Some((step.kind, reach, struck)))
    }

    /// Inflicts a fault that is for one run.
    fn meet(&self, victim: Victim, step: Step) -> Struck {
        let Victim {
            run,
            way,
            job,
            backend,
            guardian,
        } = victim;
        let (mut kind, mut reach, mut struck) = (step.kind, Reach::Run(run), None);
        match step.kind {
            Kind::KillPglock => self.signal(run, Signal::SIGKILL)?,
            Kind::TerminatePglock => self.signal(run, Signal::SIGTERM)?,
            Kind::StopPglock => {
                self.signal(run, Signal::SIGSTOP)?;
                sleep(step.hold);
                // An error means that somebody killed it meanwhile.
                self.signal(run, Signal::SIGCONT)?;
            }
            Kind::StopCommand => stop_for(job, step.hold),
            Kind::StopGuardian => stop_for(guardian?, step.hold),
            Kind::KillGuardian => kill(guardian?, Signal::SIGKILL).ok()?,
            Kind::StopBackend => {
                reach = Reach::Backend(backend, way);
                stop_for(backend, step.hold);
            }
            Kind::TerminateBackend => {
                reach = Reach::Backend(backend, way);
                self.terminate(backend);
            }
            Kind::KillThenTerminate => {
                guardian?;
                self.signal(run, Signal::SIGKILL)?;
                sleep(step.hold);
                if self.terminate_if_held(victim).is_none() {
                    kind = Kind::KillPglock;
                }
            }
            Kind::StopAndTerminate => {
                guardian?;
                self.signal(run, Signal::SIGSTOP)?;
                if self.terminate_if_held(victim).is_none() {
                    kind = Kind::StopPglock;
                }
                struck = Some(clock::now());
                sleep(step.hold);
                self.signal(run, Signal::SIGCONT)?;
            }
            Kind::KillBackend => {
                reach = Reach::All;
                kill(backend, Signal::SIGKILL).ok()?;
                struck = Some(clock::now());
                self.await_recovery(backend);
            }
            Kind::KillBoth => {
                let guardian = guardian?;
                kill(guardian, Signal::SIGKILL).ok()?;
                self.signal(run, Signal::SIGKILL)?;
            }
            Kind::StopAndFreeze => {
                reach = Reach::Way(Way::Proxy);
                self.signal(run, Signal::SIGSTOP)?;
                self.testbed.proxy.freeze();
                struck = Some(clock::now());
                sleep(step.hold);
                self.testbed.proxy.thaw();
                self.signal(run, Signal::SIGCONT)?;
            }
            _ => return None,
        }
        Some((kind, reach, struck.unwrap_or_else(clock::now)))
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
            let fitting: Vec<&Run> = list
                .iter()
                .rev()
                .take(RECENT)
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
                    guardian: child_named(run.pid, "pglock-guardian"),
                });
            }
            drop(list);
            sleep(LOOK_AGAIN);
        }
        None
    }

    fn signal(&self, run: usize, signal: Signal) -> Option<()> {
        self.runs.signal(run, signal).then_some(())
    }

    fn terminate(&self, backend: Pid) {
        // It warns of a process that is no backend any more.
        let statement = format!(
            "SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity WHERE pid = {backend}"
        );
        self.testbed.server.execute(&statement);
    }

    /// Terminates the victim's session unless its job has ended, after which the session is soon another's.
    fn terminate_if_held(&self, victim: Victim) -> Option<()> {
        let list = self.runs.lock();
        let life = list[victim.run].life.as_ref()?;
        if life.dead.is_some() || life.code.is_some() {
            return None;
        }
        drop(list);
        self.terminate(victim.backend);
        Some(())
    }

    /// Waits until the server has ended all its sessions, and takes new ones.
    fn await_recovery(&self, killed: Pid) {
        until("the end of the killed backend", || {
            crate::support::process_state(killed).is_none()
        });
        within(Duration::from_secs(20), "the server's recovery", || {
            crate::sightings::look(self.testbed, &mut None).is_ok()
        });
    }
}

/// How many of the last runs can still have a job.
const RECENT: usize = 100;

/// Stops a process, and lets it go on after this time.
fn stop_for(pid: Pid, hold: Duration) {
    // It may have ended, before or meanwhile.
    let _ = kill(pid, Signal::SIGSTOP);
    sleep(hold);
    let _ = kill(pid, Signal::SIGCONT);
}
