//! What was typed after scripts/torture.

use std::time::Duration;

/// What a campaign is told.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub seed: u64,
    pub length: Duration,
    /// Print so many faults of the schedule instead of inflicting them.
    pub schedule: Option<usize>,
}

const DEFAULT_LENGTH: Duration = Duration::from_secs(120);

impl Options {
    /// The error is what is wrong.
    pub fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            seed: fastrand::u64(..1_000_000_000),
            length: DEFAULT_LENGTH,
            schedule: None,
        };
        while let Some(option) = arguments.next() {
            let value = arguments.next();
            let value = value.ok_or_else(|| format!("{option} needs a value"))?;
            let refused = |_| format!("{option}: not a number that fits: {value}");
            match option.as_str() {
                "--seed" => options.seed = value.parse().map_err(refused)?,
                "--schedule" => options.schedule = Some(value.parse().map_err(refused)?),
                "--minutes" => {
                    let minutes: f64 = value
                        .parse()
                        .map_err(|_| format!("--minutes: not a number: {value}"))?;
                    options.length = Duration::try_from_secs_f64(minutes * 60.0)
                        .map_err(|error| format!("--minutes: {error}"))?;
                }
                _ => return Err(format!("no such option: {option}")),
            }
        }
        Ok(options)
    }
}
