//! The runs of pglock in a soak: they come in by and by, stay, and leave in order.

use std::time::Duration;

use super::findings::Findings;
use super::plan::{Part, Plan, Role};
use super::stage::Stage;
use crate::clock;
use crate::lifeline::Lifeline;
use crate::options::Crew;
use crate::support::Running;

/// How many start at once: more would keep the heartbeats of those who hold a lock from being answered in time.
const BATCH: usize = 4;

/// Longer than a batch takes to connect on a slow machine.
const TO_COME: Duration = Duration::from_secs(30);

/// Between two looks whether a batch has connected: short against the time that it takes.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// What each of them has on its standard input, and repeats once it has the lock.
const READY: &str = "ready";

/// Those who hold a lock, and those who wait for it in the order in which they came.
#[derive(Default)]
struct Scene {
    holders: Vec<Running>,
    waiters: Vec<Running>,
}

/// All of them, by their locks.
#[derive(Default)]
pub struct Cast {
    scenes: Vec<Scene>,
}

impl Cast {
    /// Starts everybody, as long as nobody ends the soak.
    pub fn enter(
        &mut self,
        stage: &mut Stage,
        crew: Crew,
        over: &Lifeline,
    ) -> Result<(), postgres::Error> {
        let plan = Plan::of(crew);
        self.start(stage, plan.holders(), Role::Holder, over)?;
        self.start(stage, plan.waiters(), Role::Waiter, over)
    }

    /// How many there are, each of which has one session.
    pub fn count(&self) -> usize {
        let scenes = self.scenes.iter();
        scenes
            .map(|scene| scene.holders.len() + scene.waiters.len())
            .sum()
    }

    /// Everybody, and what they are here for.
    pub fn members(&mut self) -> impl Iterator<Item = (Role, &mut Running)> {
        self.scenes.iter_mut().flat_map(|scene| {
            let holders = scene.holders.iter_mut().map(|run| (Role::Holder, run));
            holders.chain(scene.waiters.iter_mut().map(|run| (Role::Waiter, run)))
        })
    }

    /// Those who have ended.
    pub fn ended(&mut self) -> Vec<String> {
        let mut ended = Vec::new();
        for (role, run) in self.members() {
            if !run.is_running() {
                ended.push(format!("{role:?} {}: {}", run.pid(), run.stderr_so_far()));
            }
        }
        ended
    }

    /// Lets the holders go, one after the other, each followed by those who waited for it.
    pub fn leave(self, findings: &mut Findings) {
        for mut scene in self.scenes {
            for run in scene.holders {
                conclude(run, findings);
            }
            // Whoever is first: none of them may keep the others waiting.
            scene.waiters.iter_mut().for_each(Running::close_stdin);
            for run in scene.waiters {
                conclude(run, findings);
            }
        }
    }

    fn start(
        &mut self,
        stage: &mut Stage,
        mut parts: Vec<Part>,
        role: Role,
        over: &Lifeline,
    ) -> Result<(), postgres::Error> {
        while !parts.is_empty() && !over.has_ended() {
            let batch = parts.drain(..BATCH.min(parts.len()));
            for part in batch {
                let mut run = stage.pglock(&part).spawn();
                run.write(format!("{READY}\n").as_bytes());
                if self.scenes.len() <= part.lock {
                    self.scenes.resize_with(part.lock + 1, Scene::default);
                }
                let scene = &mut self.scenes[part.lock];
                match role {
                    Role::Holder => scene.holders.push(run),
                    Role::Waiter => scene.waiters.push(run),
                }
            }
            match role {
                Role::Holder => self.await_holders(),
                Role::Waiter => self.await_waiters(stage, over)?,
            }
        }
        Ok(())
    }

    /// Waits for their locks, which those before them have already.
    fn await_holders(&mut self) {
        for scene in self.scenes.iter_mut().rev().take(BATCH) {
            for run in &mut scene.holders {
                run.wait_line(READY);
            }
        }
    }

    /// Waits for their sessions, unless somebody has ended or it takes too long, which will show once more.
    fn await_waiters(&mut self, stage: &mut Stage, over: &Lifeline) -> Result<(), postgres::Error> {
        let start = clock::now();
        while stage.present()?.len() < self.count()
            && self.ended().is_empty()
            && clock::since(start) < TO_COME
            && !over.ends_within(LOOK_AGAIN)
        {}
        Ok(())
    }
}

/// Lets this run end, which it can as soon as it has had its lock.
fn conclude(run: Running, findings: &mut Findings) {
    let finished = run.let_go();
    let is_right = finished.code == Some(0)
        && finished.stdout == format!("{READY}\n")
        && finished.stderr.is_empty();
    if !is_right {
        findings.wrong_exit(format!("{finished:?}"));
    }
}
