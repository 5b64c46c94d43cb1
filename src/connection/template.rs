//! `{namespace}` and `{shard:N}` in a connection string: one text, many places.
//!
//! The shard's number is in the text before it is read, for digits are syntax nowhere. The namespace, which may be
//! anybody's text, comes in afterwards, into the values: nothing in it can become a parameter or a host.

use std::borrow::Cow;

use super::conninfo::Parameters;
use crate::exit::Fault;

/// What decides where a template leads.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    pub namespace: Option<&'a str>,
    /// `{shard:N}` is this modulo N.
    pub number: u64,
}

/// The namespace's place in a text that is still to be read: a noncharacter, which no text from elsewhere should
/// hold (The Unicode Standard, 23.7).
const MARK: char = '\u{fdd0}';

/// So many connections one `pglock list` may take.
const MOST_PLACES: u64 = 1024;

enum Part<'a> {
    Text(&'a str),
    Namespace,
    Shard(u64),
}

/// The template with the shard's number in it, ready to be read; [`fill`] does the rest.
///
/// Braces around anything else stay. Errors never quote the template, which may hold a password.
pub fn with_shard(template: &str, number: u64) -> Result<String, String> {
    let parts = parts(template)?;
    Ok(parts
        .into_iter()
        .map(|part| match part {
            Part::Text(text) => Cow::Borrowed(text),
            Part::Namespace => Cow::Owned(MARK.to_string()),
            Part::Shard(count) => Cow::Owned((number % count).to_string()),
        })
        .collect())
}

/// How many numbers lead to different texts: 1 where there is no `{shard:N}`, their least common multiple where
/// there are several.
pub fn period(template: &str) -> Result<u64, String> {
    parts(template)?.into_iter().try_fold(1, |period, part| {
        let count = match part {
            Part::Text(_) | Part::Namespace => 1,
            Part::Shard(count) => count,
        };
        common_multiple(period, count)
    })
}

/// The least common multiple, up to the number of places that there may be.
pub fn common_multiple(a: u64, b: u64) -> Result<u64, String> {
    let multiple = (a..=MOST_PLACES).step_by(usize::try_from(a).unwrap_or(usize::MAX));
    let mut multiple = multiple.filter(|multiple| multiple.is_multiple_of(b));
    multiple
        .next()
        .ok_or_else(|| format!("the shards together are more than {MOST_PLACES} places"))
}

/// Puts the namespace into the values that have a place for it.
///
/// Names of databases and roles, passwords and server options take any text. Hosts, files and all others take only
/// letters, digits, `-`, `_` and `.`: a comma would be another host, a slash another directory. What does not fit,
/// and a namespace that is missing, is a usage error.
pub fn fill(parameters: &mut Parameters, namespace: Option<&str>) -> anyhow::Result<()> {
    let marked = parameters.iter_mut();
    for (name, value) in marked.filter(|(_, value)| value.contains(MARK)) {
        let Some(namespace) = namespace else {
            return Err(Fault::Usage.error(
                "the connection string has a place for {namespace}: give one with --namespace or PGLOCK_NAMESPACE",
            ));
        };
        let Some(fitting) = fitting(name, namespace) else {
            return Err(Fault::Usage.error(format!(
                "a namespace that is to be a part of {name} may hold only letters, digits, -, _ and ., and not begin with a dot"
            )));
        };
        *value = value.replace(MARK, &fitting);
    }
    Ok(())
}

/// The namespace as it may stand in this parameter.
fn fitting<'a>(parameter: &str, namespace: &'a str) -> Option<Cow<'a, str>> {
    match parameter {
        "dbname" | "user" | "password" | "application_name" => Some(namespace.into()),
        "options" => Some(one_option(namespace).into()),
        _ => is_plain(namespace).then_some(namespace.into()),
    }
}

/// Blanks separate server options unless escaped (PostgreSQL documentation, 34.1.2, "options").
fn one_option(text: &str) -> String {
    text.chars().fold(String::new(), |mut escaped, c| {
        if c == '\\' || c.is_ascii_whitespace() || c == '\x0b' {
            escaped.push('\\');
        }
        escaped.push(c);
        escaped
    })
}

fn is_plain(text: &str) -> bool {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    !text.starts_with('.') && text.chars().all(plain)
}

fn parts(template: &str) -> Result<Vec<Part<'_>>, String> {
    let mut parts = Vec::new();
    let mut rest = template;
    while let Some(open) = rest.find('{') {
        let (before, braced) = rest.split_at(open);
        parts.push(Part::Text(before));
        let word = braced[1..].split_once('}').map(|(word, _)| word);
        let (part, length) = match word.map(|word| (word, word.strip_prefix("shard:"))) {
            Some(("namespace", _)) => (Part::Namespace, "{namespace}".len()),
            Some((word, Some(count))) => (Part::Shard(shards(count)?), word.len() + 2),
            Some((_, None)) | None => (Part::Text("{"), 1),
        };
        parts.push(part);
        rest = &braced[length..];
    }
    parts.push(Part::Text(rest));
    Ok(parts)
}

fn shards(count: &str) -> Result<u64, String> {
    let digits = count.bytes().all(|byte| byte.is_ascii_digit());
    let count = count.parse().ok().filter(|_| digits);
    count
        .filter(|count| (1..=MOST_PLACES).contains(count))
        .ok_or_else(|| format!("{{shard:N}} takes a whole number from 1 to {MOST_PLACES}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_two_placeholders_are_replaced() {
        let filled = |template| with_shard(template, 7).expect("well-formed");
        for (template, text) in [
            ("db-{shard:4}.x/{shard:2}", "db-3.x/1"),
            ("{{shard:4}}", "{3}"),
            (
                "{} {a} {shard} {Namespace} {shard:4",
                "{} {a} {shard} {Namespace} {shard:4",
            ),
            ("%7Bnamespace%7D", "%7Bnamespace%7D"),
        ] {
            assert_eq!(filled(template), text, "{template}");
        }
        assert_eq!(filled("a{namespace}b"), format!("a{MARK}b"));
        for bad in [
            "",
            "0",
            "1025",
            "-1",
            "+1",
            "x",
            " 4",
            "99999999999999999999",
        ] {
            assert!(with_shard(&format!("{{shard:{bad}}}"), 7).is_err(), "{bad}");
        }
    }

    #[test]
    fn several_numbers_of_shards_repeat_after_their_common_multiple() {
        for (template, count) in [("x", 1), ("{shard:4}", 4), ("{shard:4}{shard:6}", 12)] {
            assert_eq!(period(template), Ok(count), "{template}");
        }
        assert!(period("{shard:1023}{shard:1024}").is_err());
    }

    #[test]
    fn a_namespace_stays_within_its_value() {
        let filled = |parameter, namespace| {
            let mut parameters = Parameters::from([(parameter, format!("a{MARK}"))]);
            fill(&mut parameters, Some(namespace)).ok()?;
            parameters.remove(parameter)
        };
        let hostile = r"x' host=evil,evil ?&\/";
        assert_eq!(filled("dbname", hostile), Some(format!("a{hostile}")));
        assert_eq!(filled("options", r"b \c").as_deref(), Some(r"ab\ \\c"));
        assert_eq!(filled("host", "b-1_c.d").as_deref(), Some("ab-1_c.d"));
        for refused in ["x,evil", "/tmp", "@x", "..", "a b", "[::1]", "a:1"] {
            for parameter in ["host", "hostaddr", "passfile", "service"] {
                assert_eq!(filled(parameter, refused), None, "{parameter} {refused}");
            }
        }
    }
}
