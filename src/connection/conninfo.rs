//! Connection strings: URIs and keyword=value (PostgreSQL documentation, 34.1.1 "Connection Strings").

use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;

use super::keywords;
use crate::exit::Fault;

/// Parameters by libpq's keyword.
pub type Parameters = BTreeMap<&'static str, String>;

/// Whether `text` is a connection string rather than the name of a database (libpq's rule).
pub fn is_conninfo(text: &str) -> bool {
    is_uri(text) || text.contains('=')
}

fn is_uri(text: &str) -> bool {
    uri_body(text).is_some()
}

fn uri_body(text: &str) -> Option<&str> {
    ["postgresql://", "postgres://"]
        .iter()
        .find_map(|scheme| text.strip_prefix(scheme))
}

/// Reads a connection string of either form; `source` says in errors where it came from.
///
/// Errors never quote the string, which may hold a password.
pub fn parse(source: &str, text: &str) -> anyhow::Result<Parameters> {
    let parsed = match uri_body(text) {
        Some(body) => parse_uri(body),
        None => parse_keywords(text),
    };
    parsed.map_err(|fault| Fault::Usage.error(format!("{source}: {fault}")))
}

type Parsed<T> = Result<T, String>;

fn keyword(name: &str) -> Parsed<&'static str> {
    let known = keywords::find(name).map(|keyword| keyword.name);
    known.ok_or_else(|| {
        if name.chars().all(|c| c.is_ascii_lowercase() || c == '_') {
            format!("invalid connection option \"{name}\"")
        } else {
            "malformed connection string".to_owned()
        }
    })
}

/// `keyword = value` pairs; values may be quoted with `'`, and `\` escapes.
fn parse_keywords(text: &str) -> Parsed<Parameters> {
    let mut parameters = Parameters::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (name, after) = rest
            .split_once('=')
            .ok_or("malformed connection string: missing \"=\"")?;
        let (value, after) = keyword_value(after.trim_start())?;
        parameters.insert(keyword(name.trim_end())?, value);
        rest = after.trim_start();
    }
    Ok(parameters)
}

/// The value at the start of `text`, and what follows it.
fn keyword_value(text: &str) -> Parsed<(String, &str)> {
    let quoted = text.starts_with('\'');
    let mut value = String::new();
    let mut chars = text.char_indices().skip(usize::from(quoted));
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => value.extend(chars.next().map(|(_, escaped)| escaped)),
            '\'' if quoted => return Ok((value, &text[at + 1..])),
            c if c.is_ascii_whitespace() && !quoted => return Ok((value, &text[at..])),
            c => value.push(c),
        }
    }
    if quoted {
        Err("malformed connection string: unterminated quoted value".to_owned())
    } else {
        Ok((value, ""))
    }
}

/// `[user[:password]@][host[:port][,...]][/dbname][?keyword=value[&...]]`
fn parse_uri(body: &str) -> Parsed<Parameters> {
    let mut parameters = Parameters::new();
    // Up to the first of these, for a password may hold a `?`.
    let (userinfo, rest) = match body.find(['@', '/']) {
        Some(at) if body[at..].starts_with('@') => (&body[..at], &body[at + 1..]),
        _ => ("", body),
    };
    let (authority, mut query) = rest.split_once('?').unwrap_or((rest, ""));
    let (hosts, dbname) = authority.split_once('/').unwrap_or((authority, ""));
    let (user, password) = userinfo.split_once(':').unwrap_or((userinfo, ""));
    let (host, port) = hosts_and_ports(hosts)?;
    for (name, value) in [
        ("user", user),
        ("password", password),
        ("dbname", dbname),
        ("host", &host),
        ("port", &port),
    ] {
        insert_decoded(&mut parameters, name, value)?;
    }
    while !query.is_empty() {
        let (pair, after) = query.split_once('&').unwrap_or((query, ""));
        query = after;
        let (name, value) = pair
            .split_once('=')
            .ok_or("malformed URI: missing \"=\" in a query parameter")?;
        if value.contains('=') {
            return Err("malformed URI: extra \"=\" in a query parameter".to_owned());
        }
        match (decode(name)?.as_str(), value) {
            ("ssl", "true") => drop(parameters.insert("sslmode", "require".to_owned())),
            (name, value) => drop(parameters.insert(keyword(name)?, decode(value)?)),
        }
    }
    Ok(parameters)
}

fn insert_decoded(parameters: &mut Parameters, name: &'static str, value: &str) -> Parsed<()> {
    if !value.is_empty() {
        parameters.insert(name, decode(value)?);
    }
    Ok(())
}

/// Splits `host:port,[::1]:port` into libpq's two comma-separated lists.
fn hosts_and_ports(hosts: &str) -> Parsed<(String, String)> {
    let pairs = hosts
        .split(',')
        .map(host_and_port)
        .collect::<Parsed<Vec<_>>>()?;
    let (names, ports): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
    Ok((names.join(","), ports.join(",")))
}

fn host_and_port(text: &str) -> Parsed<(&str, &str)> {
    // Most likely the rest of a password, which the name of a host that is not found would give away. In front,
    // it stands for an abstract socket.
    if text.rfind('@').is_some_and(|at| at > 0) {
        return Err("malformed URI: an \"@\" in a user or password must be written %40".to_owned());
    }
    let Some(bracketed) = text.strip_prefix('[') else {
        return Ok(text.split_once(':').unwrap_or((text, "")));
    };
    let (address, after) = bracketed
        .split_once(']')
        .ok_or("malformed URI: missing \"]\" after an IPv6 address")?;
    if address.is_empty() {
        return Err("malformed URI: an IPv6 address may not be empty".to_owned());
    }
    match after.strip_prefix(':') {
        Some(port) => Ok((address, port)),
        None if after.is_empty() => Ok((address, "")),
        None => Err("malformed URI: unexpected text after \"]\"".to_owned()),
    }
}

fn decode(text: &str) -> Parsed<String> {
    let bytes = text.as_bytes();
    let broken = bytes.iter().enumerate().any(|(at, byte)| {
        let digits = bytes.get(at + 1..at + 3);
        *byte == b'%' && !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    });
    if broken {
        return Err("malformed URI: invalid percent-encoded token".to_owned());
    }
    let decoded = percent_decode_str(text)
        .decode_utf8()
        .map_err(|_| "malformed URI: not UTF-8 after percent-decoding")?;
    if decoded.contains('\0') {
        Err("malformed URI: forbidden value %00".to_owned())
    } else {
        Ok(decoded.into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(&'static str, String)> {
        parse("test", text)
            .unwrap_or_default()
            .into_iter()
            .collect()
    }

    fn pairs(expected: &[(&'static str, &str)]) -> Vec<(&'static str, String)> {
        expected
            .iter()
            .map(|(name, value)| (*name, (*value).to_owned()))
            .collect()
    }

    #[test]
    fn uris_are_read_as_libpq_reads_them() {
        assert_eq!(
            read("postgresql://u:p%40ss@h1:1,[::1]:2/db?sslmode=disable&connect_timeout=3"),
            pairs(&[
                ("connect_timeout", "3"),
                ("dbname", "db"),
                ("host", "h1,::1"),
                ("password", "p@ss"),
                ("port", "1,2"),
                ("sslmode", "disable"),
                ("user", "u"),
            ])
        );
        assert_eq!(
            read("postgres:///db?host=/var/run&port=6"),
            pairs(&[("dbname", "db"), ("host", "/var/run"), ("port", "6")])
        );
        assert_eq!(
            read("postgres://%2Ftmp/db"),
            pairs(&[("dbname", "db"), ("host", "/tmp")])
        );
        assert_eq!(read("postgres://"), pairs(&[]));
    }

    #[test]
    fn keyword_values_may_be_quoted_and_escaped() {
        assert_eq!(
            read(r"host = h password='a b\'c' user=x\ y"),
            pairs(&[("host", "h"), ("password", "a b'c"), ("user", "x y")])
        );
    }

    #[test]
    fn a_bad_string_is_refused_without_being_quoted() {
        for bad in [
            "host=h password=se cret",
            "password='secret",
            "postgres://u:secret@h/%zz",
            "postgres://[::1",
            "postgres://h/db?secret",
        ] {
            let error = parse("test", bad).expect_err(bad).to_string();
            assert!(!error.contains("cret"), "{bad}: {error}");
        }
    }
}
