//! `list --format prometheus`: OpenMetrics text, which is also what the node exporter's textfile collector reads.
//!
//! Both formats in one: no timestamps, and the last line is a comment to whoever does not know it
//! (Prometheus documentation, "Exposition formats"; OpenMetrics 1.0, "Text format").

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::connection::LinkView;
use crate::inventory::{LockView, State};
use crate::text::printable;

/// What tells one lock from another, as far as it is known.
type Labels = Vec<(&'static str, String)>;

/// Holders or waiters of one lock.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    count: u32,
    longest: Option<f64>,
}

/// Holders and waiters.
type Tallies = [Tally; 2];

/// A metric: its name, what it says, and its value, if that is known.
type Metric = (&'static str, &'static str, fn(&Tallies) -> Option<f64>);
const METRICS: [Metric; 4] = [
    (
        "pglock_lock_holders",
        "Sessions and prepared transactions that hold the lock, counted once for each mode.",
        |[held, _]| Some(f64::from(held.count)),
    ),
    (
        "pglock_lock_waiters",
        "Sessions that wait for the lock.",
        |[_, waiting]| Some(f64::from(waiting.count)),
    ),
    (
        "pglock_lock_held_seconds",
        "How long the lock has been held by the one who has had it longest.",
        |[held, _]| held.longest,
    ),
    (
        "pglock_lock_waiting_seconds",
        "How long the lock has been waited for by the one who waits longest.",
        |[_, waiting]| waiting.longest,
    ),
];

/// The locks of each place, and its server where that is to tell them from those of another.
///
/// For a terminal, text from elsewhere is escaped; a file gets it as it is.
pub fn render<'a>(
    places: impl Iterator<Item = (Option<&'a LinkView>, &'a [LockView])>,
    for_terminal: bool,
) -> String {
    let mut locks: BTreeMap<Labels, Tallies> = BTreeMap::new();
    let views = places.flat_map(|(link, locks)| locks.iter().map(move |view| (link, view)));
    for (link, view) in views {
        let labels = labels(link, view, for_terminal);
        let [held, waiting] = locks.entry(labels).or_default();
        let tally = match view.state {
            State::Held => held,
            State::Waiting => waiting,
        };
        tally.count += 1;
        tally.longest = [tally.longest, view.seconds]
            .into_iter()
            .flatten()
            .reduce(f64::max);
    }
    let mut text = String::new();
    for (name, help, value) in METRICS {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge");
        for (labels, tallies) in &locks {
            if let Some(value) = value(tallies) {
                let labels = labels
                    .iter()
                    .map(|(label, value)| format!("{label}=\"{value}\""));
                let labels = labels.collect::<Vec<_>>().join(",");
                let _ = writeln!(text, "{name}{{{labels}}} {value}");
            }
        }
    }
    text + "# EOF\n"
}

fn labels(link: Option<&LinkView>, view: &LockView, for_terminal: bool) -> Labels {
    let host = link.map(|link| link.host.clone());
    let port = link.map(|link| link.port.to_string());
    let key = Some(view.key.to_string());
    let slot = view.slot.map(|slot| slot.to_string());
    let program = view.program.as_ref().map(ToString::to_string);
    let known = [
        ("server_host", &host),
        ("server_port", &port),
        ("database", &view.database),
        ("namespace", &view.namespace),
        ("name", &view.name),
        ("key", &key),
        ("slot", &slot),
        ("program", &program),
    ];
    let known = known.into_iter().filter_map(|(label, value)| {
        let value = value.as_deref()?;
        let shown = if for_terminal {
            printable(value)
        } else {
            value.to_owned()
        };
        Some((label, escaped(&shown)))
    });
    known.collect()
}

/// The three characters that the text formats escape in a label's value.
fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
