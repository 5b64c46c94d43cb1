//! What a campaign came to, for people.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::campaign::Record;
use crate::fault::Kind;
use crate::options::Options;
use crate::verdict::Verdict;

/// How much evidence of each sort is shown.
const SHOWN: usize = 5;

/// Whether everything was as it should be.
pub fn is_good(record: &Record, verdict: &Verdict) -> bool {
    sorts(record, verdict)
        .iter()
        .all(|(_, evidence)| evidence.is_empty())
}

/// The table.
pub fn table(record: &Record, verdict: &Verdict, options: &Options) -> String {
    let acquired = record.runs.iter().filter(|run| run.life.is_some()).count();
    let mut text = String::new();
    let mut row = |name: &str, value: String| {
        writeln!(text, "{name:<46} {value:>8}").expect("a string takes it");
    };
    row("seed", options.seed.to_string());
    row(
        "minutes",
        format!("{:.1}", options.length.as_secs_f64() / 60.0),
    );
    row("runs of pglock", record.runs.len().to_string());
    row("acquisitions", acquired.to_string());
    row("faults", (record.faults.len() + 1).to_string());
    for (name, evidence) in sorts(record, verdict) {
        row(name, evidence.len().to_string());
    }
    row(
        "met while the elder was being stopped",
        verdict.overlaps_while_stopping.to_string(),
    );
    let busy: std::time::Duration = record
        .gaps
        .iter()
        .map(|gap| gap.until.saturating_sub(gap.from))
        .sum();
    row(
        "seconds that the machine held the campaign up",
        format!("{:.1}", busy.as_secs_f64()),
    );
    text + &faults(record, verdict)
}

/// What was wrong, as far as there is room.
pub fn evidence(record: &Record, verdict: &Verdict) -> String {
    let mut text = String::new();
    for (name, evidence) in sorts(record, verdict) {
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

fn sorts<'a>(record: &'a Record, verdict: &'a Verdict) -> [(&'static str, &'a [String]); 9] {
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
