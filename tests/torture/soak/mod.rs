//! A soak: many holders and waiters at rest for a long time, whose descriptors, memory and threads must not grow.

mod cast;
mod findings;
mod plan;
mod reading;
mod stage;
mod subject;
mod table;

use std::error::Error;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use crate::clock;
use crate::lifeline::Lifeline;
use crate::options::{Crew, Options};

use self::cast::Cast;
use self::findings::Findings;
use self::stage::Stage;
use self::subject::{Subject, WINDOW};

/// Between two samples, and between two looks whether everybody has settled: many heartbeats pass from the first samples to the
/// last, and what a sample costs is little beside them.
const PERIOD: Duration = Duration::from_secs(3);

/// Longer than everybody takes to settle on a slow machine.
const TO_SETTLE: Duration = Duration::from_secs(240);

/// Those who take part, and what was found so far.
struct Soak {
    cast: Cast,
    stage: Stage,
    over: Lifeline,
    findings: Findings,
}

/// Soaks such a crew, and says how it was.
pub fn run(options: &Options, crew: Crew) -> Result<ExitCode, Box<dyn Error>> {
    let mut out = io::stdout();
    let mut soak = Soak {
        cast: Cast::default(),
        over: Lifeline::hold(),
        stage: Stage::build(crew),
        findings: Findings::default(),
    };
    soak.cast.enter(&mut soak.stage, crew, &soak.over)?;
    if soak.settle()? {
        writeln!(out, "soak: settled; the samples begin")?;
        let subjects = soak.sample(options.length)?;
        write!(out, "{}", table::growth(&subjects))?;
        soak.findings.judge(&subjects);
    }
    let findings = soak.end()?;
    write!(out, "{}", table::findings(&findings, crew))?;
    if findings.are_none() {
        writeln!(out, "\nsoak: all is well")?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(out, "\nsoak: FAILED")?;
    Ok(ExitCode::FAILURE)
}

impl Soak {
    /// Whether everybody has got to where they stay, and has been there for some time.
    fn settle(&mut self) -> Result<bool, postgres::Error> {
        let start = clock::now();
        while !self.over.ends_within(PERIOD) {
            let (settled, expected) = (self.stage.settled()?.len(), self.cast.count());
            if settled == expected {
                return Ok(true);
            }
            self.findings.ended(self.cast.ended());
            if clock::since(start) > TO_SETTLE {
                let what = format!("{settled} of {expected} sessions settled");
                self.findings.mishap(what);
            }
            if !self.findings.are_none() {
                return Ok(false);
            }
        }
        let what = "ended before everybody had settled".to_owned();
        self.findings.mishap(what);
        Ok(false)
    }

    /// Takes samples for this long, or until somebody has ended or a lock was lost.
    fn sample(&mut self, length: Duration) -> Result<Vec<Subject>, postgres::Error> {
        let mut subjects = self.stage.subjects(&mut self.cast, &mut self.findings)?;
        let held = self.stage.held()?;
        let start = clock::now();
        while self.findings.are_none() && (clock::since(start) < length || are_too_few(&subjects)) {
            let ended = subjects.iter_mut().filter_map(Subject::sample).collect();
            self.findings.ended(ended);
            self.findings.compare(&held, &self.stage.held()?);
            if self.over.ends_within(PERIOD) {
                break;
            }
        }
        if are_too_few(&subjects) {
            let what = "ended before there was anything to compare".to_owned();
            self.findings.mishap(what);
        }
        Ok(subjects)
    }

    /// Ends everything in order; what was wrong.
    fn end(mut self) -> Result<Findings, Box<dyn Error>> {
        self.cast.leave(&mut self.findings);
        self.stage.close(&mut self.findings)?;
        Ok(self.findings)
    }
}

/// Whether the first samples and the last would still be the same ones.
fn are_too_few(subjects: &[Subject]) -> bool {
    let count = subjects.iter().map(Subject::samples).min();
    count.is_none_or(|count| count < 2 * WINDOW)
}
