//! What came out: figures, and what they are held to.

use serde::Serialize;

use crate::goals::Goal;
use crate::machine::Machine;
use crate::options::Subject;
use crate::program::Program;
use crate::rounds::Spread;

/// Everything, as it is printed with `--json`.
#[derive(Serialize)]
pub struct Report {
    pub machine: Machine,
    /// Rounds of whole runs.
    pub rounds: u32,
    pub subjects: Vec<Section>,
}

#[derive(Serialize)]
pub struct Section {
    pub subject: Subject,
    /// What to know in order to read the figures.
    pub note: String,
    pub figures: Vec<Figure>,
    pub bounds: Vec<Bound>,
}

/// One thing that was measured of one program.
#[derive(Serialize)]
pub struct Figure {
    /// How or where: the way to the server, how many wait.
    pub condition: String,
    pub program: &'static str,
    pub measure: &'static str,
    pub unit: &'static str,
    /// The median, where there were several runs.
    pub value: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quartiles: Option<[f64; 2]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs: Option<usize>,
}

/// A figure of pglock, or its ratio to a peer's, and what it is held to.
#[derive(Serialize)]
pub struct Bound {
    pub condition: String,
    pub program: &'static str,
    /// The peer, where the value is a ratio to its figure or a difference from it.
    pub beside: Option<&'static str>,
    pub measure: &'static str,
    pub unit: &'static str,
    pub value: f64,
    /// What is aimed at; to miss it is no failure.
    pub target: Option<f64>,
    pub target_met: Option<bool>,
    /// What `--check` fails beyond.
    pub limit: Option<f64>,
    pub within_limit: Option<bool>,
}

impl Figure {
    pub fn single(
        condition: impl Into<String>,
        program: Program,
        measure: &'static str,
        unit: &'static str,
        value: f64,
    ) -> Self {
        Self {
            condition: condition.into(),
            program: program.label(),
            measure,
            unit,
            value,
            quartiles: None,
            runs: None,
        }
    }

    /// Milliseconds of several runs.
    pub fn times(
        condition: impl Into<String>,
        program: Program,
        measure: &'static str,
        spread: Spread,
    ) -> Self {
        Self {
            quartiles: Some(spread.quartiles),
            runs: Some(spread.runs),
            ..Self::single(condition, program, measure, "ms", spread.median)
        }
    }

    /// This figure, held to a goal.
    pub fn held_to(&self, goal: Goal) -> Bound {
        self.bound(None, self.unit, self.value, goal)
    }

    /// How many times another program's figure this one is.
    pub fn ratio_to(&self, other: &Self, goal: Goal) -> Bound {
        self.bound(Some(other.program), "times", self.value / other.value, goal)
    }

    /// By how much this figure is above another program's.
    pub fn excess_over(&self, other: &Self, goal: Goal) -> Bound {
        let excess = self.value - other.value;
        self.bound(Some(other.program), self.unit, excess, goal)
    }

    fn bound(
        &self,
        beside: Option<&'static str>,
        unit: &'static str,
        value: f64,
        goal: Goal,
    ) -> Bound {
        Bound {
            condition: self.condition.clone(),
            program: self.program,
            beside,
            measure: self.measure,
            unit,
            value,
            target: goal.target,
            target_met: goal.target.map(|target| value <= target),
            limit: goal.limit,
            within_limit: goal.limit.map(|limit| value <= limit),
        }
    }
}

impl Section {
    pub fn is_within_limits(&self) -> bool {
        self.over_limits().next().is_none()
    }

    /// Takes over what an earlier measurement of the same has found lower.
    pub fn keep_best(&mut self, earlier: Self) {
        for (bound, earlier) in self.bounds.iter_mut().zip(earlier.bounds) {
            if earlier.value < bound.value {
                *bound = earlier;
            }
        }
    }

    pub fn over_limits(&self) -> impl Iterator<Item = &Bound> {
        let bounds = self.bounds.iter();
        bounds.filter(|bound| bound.within_limit == Some(false))
    }
}
