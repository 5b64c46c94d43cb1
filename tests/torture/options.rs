//! What was typed after scripts/torture.

use std::num::NonZero;
use std::time::Duration;

/// What a campaign is told.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub seed: u64,
    pub length: Duration,
    /// Print so many faults of the schedule instead of inflicting them.
    pub schedule: Option<usize>,
    /// Let these hold and wait in peace instead.
    pub soak: Option<Crew>,
}

/// How many take part in a soak.
#[derive(Clone, Copy, Debug)]
pub struct Crew {
    pub holders: usize,
    pub waiters: usize,
}

const DEFAULT_LENGTH: Duration = Duration::from_secs(120);
const DEFAULT_SOAK: Duration = Duration::from_secs(600);

const DEFAULT_CREW: Crew = Crew {
    holders: 100,
    waiters: 200,
};

impl Options {
    /// The error is what is wrong.
    pub fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            seed: fastrand::u64(..1_000_000_000),
            length: DEFAULT_LENGTH,
            schedule: None,
            soak: None,
        };
        let mut length = None;
        while let Some(option) = arguments.next() {
            if option == "--soak" {
                options.soak.get_or_insert(DEFAULT_CREW);
                continue;
            }
            let value = arguments.next();
            let value = value.ok_or_else(|| format!("{option} needs a value"))?;
            let refused = |_| format!("{option}: not a number that fits: {value}");
            match option.as_str() {
                "--seed" => options.seed = value.parse().map_err(refused)?,
                "--schedule" => options.schedule = Some(value.parse().map_err(refused)?),
                "--holders" => {
                    let holders: NonZero<_> = value.parse().map_err(refused)?;
                    options.soak.get_or_insert(DEFAULT_CREW).holders = holders.get();
                }
                "--waiters" => {
                    let waiters = value.parse().map_err(refused)?;
                    options.soak.get_or_insert(DEFAULT_CREW).waiters = waiters;
                }
                "--minutes" => {
                    let minutes: f64 = value
                        .parse()
                        .map_err(|_| format!("--minutes: not a number: {value}"))?;
                    let typed = Duration::try_from_secs_f64(minutes * 60.0);
                    length = Some(typed.map_err(|error| format!("--minutes: {error}"))?);
                }
                _ => return Err(format!("no such option: {option}")),
            }
        }
        let default = match options.soak {
            Some(_) => DEFAULT_SOAK,
            None => DEFAULT_LENGTH,
        };
        options.length = length.unwrap_or(default);
        Ok(options)
    }
}
