//! What was wrong in a soak.

use super::reading::Measure;
use super::stage::Held;
use super::subject::Subject;
use crate::summary::Sort;

#[derive(Default)]
pub struct Findings {
    grown: [Vec<String>; Measure::ALL.len()],
    ended: Vec<String>,
    moved: Vec<String>,
    wrong_exits: Vec<String>,
    leaks: Vec<String>,
    server_log: Vec<String>,
    mishaps: Vec<String>,
}

impl Findings {
    /// Nothing was wrong so far.
    pub fn are_none(&self) -> bool {
        self.sorts().iter().all(|(_, evidence)| evidence.is_empty())
    }

    /// Finds those who have more than they had.
    pub fn judge(&mut self, subjects: &[Subject]) {
        for (measure, grown) in Measure::ALL.into_iter().zip(&mut self.grown) {
            for subject in subjects {
                let limit = subject.group.limit(measure);
                let Some((limit, change)) = limit.zip(subject.change(measure)) else {
                    continue;
                };
                if change.end > change.base + limit {
                    let (what, base, end) = (&subject.what, change.base, change.end);
                    grown.push(format!("{base} became {end}: {what}"));
                }
            }
        }
    }

    /// Finds the locks that are not held by the same sessions any more.
    pub fn compare(&mut self, before: &Held, now: &Held) {
        for (backend, key) in before.symmetric_difference(now) {
            let what = if now.contains(&(*backend, *key)) {
                "now holds"
            } else {
                "no longer holds"
            };
            self.moved.push(format!("backend {backend} {what} {key}"));
        }
    }

    pub fn ended(&mut self, who: Vec<String>) {
        self.ended.extend(who);
    }

    pub fn wrong_exit(&mut self, what: String) {
        self.wrong_exits.push(what);
    }

    pub fn left(&mut self, what: impl IntoIterator<Item = String>) {
        self.leaks.extend(what);
    }

    pub fn logged(&mut self, lines: Vec<String>) {
        self.server_log.extend(lines);
    }

    pub fn mishap(&mut self, what: String) {
        self.mishaps.push(what);
    }

    pub fn sorts(&self) -> [Sort<'_>; 9] {
        let [descriptors, memory, threads] = &self.grown;
        [
            ("processes with more descriptors", descriptors),
            ("processes with more memory", memory),
            ("processes with more threads", threads),
            ("processes that ended unasked", &self.ended),
            ("locks that changed hands", &self.moved),
            ("wrong exit codes", &self.wrong_exits),
            ("left behind", &self.leaks),
            ("unexpected lines of the server's log", &self.server_log),
            ("mishaps of the soak", &self.mishaps),
        ]
    }
}
