//! Waiting for something to come true, with a deadline that names it.

use std::thread::sleep;
use std::time::{Duration, Instant};

/// Far above what any step takes on a slow machine, so that only a real fault meets it.
const DEADLINE: Duration = Duration::from_secs(20);

/// Short against everything that tests wait for, long enough not to starve two cores.
const PERIOD: Duration = Duration::from_millis(3);

/// What a probe answers: `true` or `Some` once the awaited thing is there.
pub trait Answer {
    /// What the waiting ends with.
    type Found;

    /// Gives the found thing, or `None` to look again.
    fn found(self) -> Option<Self::Found>;
}

impl Answer for bool {
    type Found = ();

    fn found(self) -> Option<()> {
        self.then_some(())
    }
}

impl<T> Answer for Option<T> {
    type Found = T;

    fn found(self) -> Option<T> {
        self
    }
}

/// Probes until the answer is there, for at most 20 seconds, and panics with `what` otherwise.
#[track_caller]
pub fn until<A: Answer>(what: &str, probe: impl FnMut() -> A) -> A::Found {
    within(DEADLINE, what, probe)
}

/// Probes until the answer is there, for at most `limit`, and panics with `what` otherwise.
///
/// The probe runs once more after the limit, so that a test process which was itself held up does not fail.
#[track_caller]
pub fn within<A: Answer>(limit: Duration, what: &str, mut probe: impl FnMut() -> A) -> A::Found {
    let start = Instant::now();
    loop {
        let late = start.elapsed() >= limit;
        if let Some(found) = probe().found() {
            return found;
        }
        assert!(!late, "waited {limit:?} in vain: {what}");
        sleep(PERIOD);
    }
}
