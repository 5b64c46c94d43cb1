//! What a soak came to, for people.

use std::fmt::Write as _;

use super::findings::Findings;
use super::reading::Measure;
use super::subject::{Change, Group, Subject};
use crate::options::Crew;
use crate::summary;

/// How much everybody had: a line for each group and measure.
pub fn growth(subjects: &[Subject]) -> String {
    let mut text = format!(
        "\n{:<10} {:<22} {:>9} {:>16} {:>16} {:>16}\n{:<10} {:<22} {:>9}",
        "", "", "", "base", "end", "growth", "group", "of each process", "processes"
    );
    for _ in ["base", "end", "growth"] {
        write!(text, " {:>8} {:>7}", "median", "max").expect("a string takes it");
    }
    text.push('\n');
    for group in Group::ALL {
        for measure in Measure::ALL {
            if group.limit(measure).is_some() {
                text += &row(group, measure, subjects);
            }
        }
    }
    text
}

/// How much was wrong of each sort, and the evidence.
pub fn findings(findings: &Findings, crew: Crew) -> String {
    let sorts = findings.sorts();
    [
        "\n".to_owned(),
        summary::row("holders", &crew.holders),
        summary::row("waiters", &crew.waiters),
        summary::counts(&sorts),
        summary::evidence(&sorts),
    ]
    .concat()
}

fn row(group: Group, measure: Measure, subjects: &[Subject]) -> String {
    let members = subjects.iter().filter(|subject| subject.group == group);
    let changes: Vec<Change> = members.filter_map(|each| each.change(measure)).collect();
    let mut text = format!(
        "{:<10} {:<22} {:>9}",
        group.name(),
        measure.name(),
        changes.len()
    );
    let columns: [fn(&Change) -> i64; 3] = [
        |change| change.base.cast_signed(),
        |change| change.end.cast_signed(),
        |change| change.growth(),
    ];
    for column in columns {
        let mut values: Vec<i64> = changes.iter().map(column).collect();
        values.sort_unstable();
        if let (Some(median), Some(most)) = (values.get(values.len() / 2), values.last()) {
            write!(text, " {median:>8} {most:>7}").expect("a string takes it");
        }
    }
    text.push('\n');
    text
}
