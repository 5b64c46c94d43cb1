//! Tables of what came out, for people.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};

use crate::report::{Figure, Section};

/// The figures: a line for each program under each condition, a column for each measure.
pub fn figures_table(section: &Section) -> String {
    let mut measures: Vec<(&str, &str)> = Vec::new();
    let mut lines: Vec<(&str, &str)> = Vec::new();
    for figure in &section.figures {
        remember(&mut measures, (figure.measure, figure.unit));
        remember(&mut lines, (&figure.condition, figure.program));
    }
    let runs = section.figures.iter().any(|figure| figure.runs.is_some());
    let mut header = vec![String::new(), String::new()];
    header.extend(runs.then(|| "runs".to_owned()));
    header.extend(
        measures
            .iter()
            .map(|(measure, unit)| with_unit(measure, unit)),
    );
    let mut table = new_table(header, 2);
    for (condition, program) in lines {
        let of_line = |figure: &&Figure| figure.condition == condition && figure.program == program;
        let mut row = vec![condition.to_owned(), program.to_owned()];
        if runs {
            let count = section
                .figures
                .iter()
                .filter(of_line)
                .find_map(|figure| figure.runs);
            row.push(count.map(|count| count.to_string()).unwrap_or_default());
        }
        for (measure, _) in &measures {
            let mut figures = section.figures.iter().filter(of_line);
            let figure = figures.find(|figure| figure.measure == *measure);
            row.push(
                figure
                    .map(|figure| number(figure.value))
                    .unwrap_or_default(),
            );
        }
        table.add_row(row);
    }
    format!("{}\n\n{}\n{table}\n", section.subject.title(), section.note)
}

/// The ratios, and what each figure is held to.
pub fn bounds_table(sections: &[Section]) -> String {
    let header = ["", "", "", "value", "", "target", "", "limit", ""].map(str::to_owned);
    let mut table = new_table(header.to_vec(), 3);
    for bound in sections.iter().flat_map(|section| &section.bounds) {
        let who = match bound.beside {
            Some(peer) => format!("{} : {peer}", bound.program),
            None => bound.program.to_owned(),
        };
        let verdict = |met: Option<bool>, yes: &str, no: &str| match met {
            Some(true) => yes.to_owned(),
            Some(false) => no.to_owned(),
            None => String::new(),
        };
        table.add_row([
            bound.measure.to_owned(),
            bound.condition.clone(),
            who,
            number(bound.value),
            bound.unit.to_owned(),
            bound.target.map(number).unwrap_or_default(),
            verdict(bound.target_met, "met", "MISSED"),
            bound.limit.map(number).unwrap_or_default(),
            verdict(bound.within_limit, "within", "OVER"),
        ]);
    }
    format!("{table}\n")
}

fn new_table(header: Vec<String>, columns_of_words: usize) -> Table {
    let columns = header.len();
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(header);
    for column in columns_of_words..columns {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn remember<T: PartialEq>(known: &mut Vec<T>, new: T) {
    if !known.contains(&new) {
        known.push(new);
    }
}

fn with_unit(measure: &str, unit: &str) -> String {
    if unit.is_empty() {
        measure.to_owned()
    } else {
        format!("{measure}, {unit}")
    }
}

/// As many digits as mean something.
fn number(value: f64) -> String {
    if value.abs() < 100.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.0}")
    }
}
