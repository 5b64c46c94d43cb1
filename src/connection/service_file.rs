//! Connection service files (PostgreSQL documentation, 34.17): named groups of parameters.

use std::fs;
use std::io;
use std::path::Path;

use super::conninfo::Parameters;
use super::keywords;
use crate::exit::Fault;

/// The parameters of `service`, from the first file that defines it.
///
/// A file that does not exist defines nothing. A service that no file defines, and a line that is no
/// `keyword=value`, are errors, which never quote a value.
pub fn read<'a>(
    service: &str,
    files: impl Iterator<Item = &'a Path>,
) -> anyhow::Result<Parameters> {
    for file in files {
        let text = match fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => {
                let file = file.display();
                return Err(Fault::Usage.error(format!("service file {file}: {error}")));
            }
        };
        let found = find(service, &text).map_err(|(line, fault)| {
            Fault::Usage.error(format!(
                "service file {}, line {line}: {fault}",
                file.display()
            ))
        })?;
        if let Some(parameters) = found {
            return Ok(parameters);
        }
    }
    let service = crate::text::printable(service);
    Err(Fault::Usage.error(format!("definition of service \"{service}\" not found")))
}

/// The group `[service]` in a file's text; a fault comes with the number of its line.
fn find(service: &str, text: &str) -> Result<Option<Parameters>, (usize, String)> {
    let header = format!("[{service}]");
    let lines = text.lines().map(str::trim).enumerate();
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    // What follows the bracket is ignored, as by libpq.
    let mut group = lines.skip_while(|(_, line)| !line.starts_with(&header));
    if group.next().is_none() {
        return Ok(None);
    }
    let mut parameters = Parameters::new();
    for (number, line) in group.take_while(|(_, line)| !line.starts_with('[')) {
        let (name, value) = parameter(line).map_err(|fault| (number + 1, fault))?;
        // The first of two wins, as for libpq, which never overrides what is set.
        parameters.entry(name).or_insert_with(|| value.to_owned());
    }
    Ok(Some(parameters))
}

fn parameter(line: &str) -> Result<(&'static str, &str), String> {
    let (name, value) = line.split_once('=').ok_or("syntax error: no \"=\"")?;
    match name {
        "service" | "servicefile" => Err(format!(
            "nested \"{name}\" specifications are not supported"
        )),
        name => {
            let keyword = keywords::find(name).ok_or("syntax error: unknown parameter")?;
            Ok((keyword.name, value))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fuzz;
    use super::*;

    const FILE: &str = "# comment\n\n[a]\nhost=h1\n  port=1  \nport=2\n[b]\ndbname = x\n[c]\nservice=a\n[d]\nnonsense\n[a]\nhost=never\n";

    #[test]
    fn a_group_ends_at_the_next_and_the_first_of_two_wins() {
        let found = find("a", FILE).expect("no fault").expect("a group");
        assert_eq!(
            found,
            Parameters::from([("host", "h1".to_owned()), ("port", "1".to_owned())])
        );
        assert_eq!(find("z", FILE).expect("no fault"), None);
    }

    #[test]
    fn bad_lines_are_named_by_number() {
        for (service, line) in [("b", 8), ("c", 10), ("d", 12)] {
            assert_eq!(
                find(service, FILE).expect_err("a fault").0,
                line,
                "{service}"
            );
        }
    }

    #[test]
    fn fuzzed_files_are_read_or_refused_without_being_quoted() {
        const CORPUS: &str = include_str!("../../tests/corpus/service_file.json");
        const PIECES: [&str; 19] = [
            "[a]",
            "[b]",
            "[",
            "]",
            "a",
            "host",
            "port=",
            "password=s3cret",
            "s3cret",
            "service=",
            "=",
            " ",
            "\t",
            "#",
            "\n",
            "\n",
            "\n",
            "\r\n",
            "é",
        ];
        fuzz::each(CORPUS, &PIECES, |text| {
            if let Err((line, fault)) = find("a", text) {
                assert!((1..=text.lines().count()).contains(&line), "line {line}");
                assert!(!fault.contains("s3cret"), "{fault}");
            }
        });
    }
}
