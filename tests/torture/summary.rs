//! What a campaign came to, for people.

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};

use crate::campaign::Record;
use crate::fault::Kind;
use crate::options::Options;
use crate::verdict::Verdict;

/// How much evidence of each sort is shown.
const SHOWN: usize = 5;

/// What was wrong in one way, and the evidence.
pub type Sort<'a> = (&'static str, &'a [String]);

/// Whether everything was as it should be.
pub fn is_good(record: &Record, verdict: &Verdict) -> bool {
    sorts(record, verdict)
        .iter()
        .all(|(_, evidence)| evidence.is_empty())
}

/// The table.
pub fn table(record: &Record, verdict: &Verdict, options: &Options) -> String {
    let acquired = record.runs.iter().filter(|run| run.life.is_some()).count();
    let busy: std::time::Duration = record
        .gaps
        .iter()
        .map(|gap| gap.until.saturating_sub(gap.from))
        .sum();
    let text = [
        row("seed", &options.seed),
        row(
            "minutes",
            &format!("{:.1}", options.length.as_secs_f64() / 60.0),
        ),
        row("runs of pglock", &record.runs.len()),
        row("acquisitions", &acquired),
        row("faults", &(record.faults.len() + 1)),
        counts(&sorts(record, verdict)),
        row(
            "met while the elder was being stopped",
            &verdict.overlaps_while_stopping,
        ),
        row(
            "seconds that the machine held the campaign up",
            &format!("{:.1}", busy.as_secs_f64()),
        ),
    ];
    text.concat() + &faults(record, verdict)
}

/// A line of a table.
pub fn row(name: &str, value: &dyn Display) -> String {
    format!("{name:<46} {:>8}\n", value.to_string())
}

/// How much was wrong of each sort.
pub fn counts(sorts: &[Sort<'_>]) -> String {
    let rows = sorts
        .iter()
        .map(|(name, evidence)| row(name, &evidence.len()));
    rows.collect()
}

/// What was wrong, as far as there is room.
pub fn evidence(sorts: &[Sort<'_>]) -> String {
    let mut text = String::new();
    for (name, evidence) in sorts {
        if evidence.is_empty() {
            continue;
        }
        writeln!(text, "\n{name}: {}", evidence.len()).expect("a string takes it");
        for each in evidence.iter().take(SHOWN) {
            writeln!(text, "  {each}").expect("a string takes it");
        }
    }
    text
}

/// What can be wrong with a campaign.
pub fn sorts<'a>(record: &'a Record, verdict: &'a Verdict) -> [Sort<'a>; 9] {
    [
        ("overlaps", &verdict.overlaps),
        ("locks freed late", &verdict.late),
        ("leaks", &record.leaks),
        ("orphans", &record.orphans),
        ("jobs not stopped in time", &verdict.unstopped),
        ("wrong exit codes", &verdict.wrong_exits),
        ("unexpected lines of the server's log", &verdict.server_log),
        ("failover", &record.failover.faults),
        ("mishaps of the campaign", &record.mishaps),
    ]
}

fn faults(record: &Record, verdict: &Verdict) -> String {
    let mut counts: BTreeMap<Kind, usize> = BTreeMap::new();
    for fault in &record.faults {
        *counts.entry(fault.kind).or_default() += 1;
    }
    counts.insert(Kind::Promotion, 1);
    let longest = |kind| {
        let longest = verdict.longest_to_free.get(&kind);
        longest.map_or_else(String::new, |longest| {
            format!("{:.0} ms", longest.as_secs_f64() * 1000.0)
        })
    };
    let mut text = format!(
        "\n{:<46} {:>8} {:>16}\n",
        "fault", "times", "longest to free"
    );
    let mut row = |name: &str, count: String, longest: String| {
        writeln!(text, "{name:<46} {count:>8} {longest:>16}").expect("a string takes it");
    };
    row("none", String::new(), longest(None));
    for (kind, count) in &counts {
        row(kind.traits().name, count.to_string(), longest(Some(*kind)));
    }
    text.push_str("\ndocumented exceptions, and how many jobs met by them\n");
    let mut documented = verdict.documented.clone();
    documented.insert(Kind::Promotion, record.failover.overlaps);
    for (kind, count) in documented {
        let traits = kind.traits();
        let reason = traits.documented.unwrap_or_default();
        writeln!(text, "{:<46} {count:>8} {reason}", traits.name).expect("a string takes it");
    }
    text
}
