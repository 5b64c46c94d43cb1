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
use crate::run::Runs;
use crate::support::{Server, Shutdown};
use crate::testbed::Testbed;
use crate::way::Way;

/// One way; the heartbeat's half second has room for both.
const DELAY: Duration = Duration::from_millis(100);

/// Inflicts faults on runs and on what they stand on.
pub struct Driver<'a> {
    pub testbed: &'a Testbed,
    pub runs: &'a Runs,
    pub faults: &'a Mutex<Vec<Fault>>,
}

/// What a fault came to: of which kind it was in the end, whom it met, and when it had done all it does.
pub type Struck = (Kind, Reach, Duration);

impl Driver<'_> {
    /// Inflicts these faults until it is time to end.
    pub fn drive(&self, steps: impl Iterator<Item = Step>) -> io::Result<()> {
        for step in steps {
            sleep(step.pause);
            if self.testbed.is_over() {
                break;
            }
            let from = clock::now();
            let Some((kind, reach, struck)) = self.inflict(step)? else {
                continue;
            };
            let fault = Fault {
                kind,
                reach,
                from,
                struck,
                until: clock::now(),
            };
            let mut faults = self.faults.lock().expect("nobody panics with it");
            faults.push(fault);
        }
        Ok(())
    }

    /// `None` if there was nobody whom the fault could meet.
    fn inflict(&self, step: Step) -> io::Result<Option<Struck>> {
        let (server, proxy) = (&self.testbed.server, &self.testbed.proxy);
        let lasts = || {
            let struck = clock::now();
            sleep(step.hold);
            struck
        };
        let (reach, struck) = match step.kind {
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
            | Kind::StopAndFreeze => return Ok(self.meet_one(step)),
            Kind::StopPostmaster => {
                let struck = clock::now();
                stop_for(server.postmaster_pid(), step.hold);
                (Reach::All, struck)
            }
            Kind::FastRestart => self.restart(step, |server| server.stop(Shutdown::Fast)),
            Kind::ImmediateRestart => self.restart(step, |server| server.stop(Shutdown::Immediate)),
            Kind::KillPostmaster => self.restart(step, Server::crash),
            Kind::Cut => {
                proxy.cut();
                (Reach::Way(Way::Proxy), clock::now())
            }
            Kind::Reset => {
                proxy.reset();
                (Reach::Way(Way::Proxy), clock::now())
            }
            Kind::Delay => {
                proxy.set_delay(DELAY);
                let struck = lasts();
                proxy.set_delay(Duration::ZERO);
                (Reach::Way(Way::Proxy), struck)
            }
            Kind::Freeze => {
                proxy.freeze();
                let struck = lasts();
                proxy.thaw();
                (Reach::Way(Way::Proxy), struck)
            }
            Kind::LinkDown => {
                let Some(link) = &self.testbed.link else {
                    return Ok(None);
                };
                link.pull()?;
                let struck = lasts();
                link.mend()?;
                (Reach::Way(Way::Link), struck)
            }
            Kind::RestartPooler => {
                self.testbed.session_pool.stop();
                let struck = lasts();
                self.testbed.session_pool.start_again();
                (Reach::Way(Way::SessionPool), struck)
            }
            // Once, after the campaign.
            Kind::Promotion => return Ok(None),
        };
        Ok(Some((step.kind, reach, struck)))
    }

    fn restart(&self, step: Step, end: impl FnOnce(&Server)) -> (Reach, Duration) {
        end(&self.testbed.server);
        let struck = clock::now();
        sleep(step.hold);
        self.testbed.server.start_again();
        (Reach::All, struck)
    }
}

/// Stops a process, and lets it go on after this time.
pub fn stop_for(pid: Pid, hold: Duration) {
    // It may have ended, before or meanwhile.
    let _ = kill(pid, Signal::SIGSTOP);
    sleep(hold);
    let _ = kill(pid, Signal::SIGCONT);
}
