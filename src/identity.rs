//! What a pglock session tells the server of itself, and how it is read back.
//!
//! Two places, written and read here and nowhere else:
//! - `application_name` (63 bytes of ASCII), which every role can see: `pglock: NAME (HOST:PID)`, with `?`
//!   (or `~` for a shared lock) instead of `:` while the session waits, `#RULE:NAME` where its key is not by
//!   pglock's own rule, and `#KEY` where the name is raw or does not fit; where there are slots `NAME#SLOT/SLOTS` or
//!   `NAME#SLOTS` stands for NAME;
//! - a comment at the start of the query text, for roles that may read it: the whole name and more.

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

use crate::claim::Claim;
use crate::key::{Lock, LockKey, LockName, Mode, Rule};

/// The pglock process behind a session.
#[derive(Debug)]
pub struct Identity {
    pub claim: Claim,
    pub host: String,
    pub wrapper_pid: u32,
    /// The command as a person would type it, without secrets.
    pub command: String,
}

/// Whether a session owns its lock or is between two tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// In this slot, where there are slots.
    Holding(u32),
    Waiting(Mode),
}

impl Stage {
    const ALL: [Self; 3] = [
        Self::Holding(0),
        Self::Waiting(Mode::Exclusive),
        Self::Waiting(Mode::Shared),
    ];

    fn mark(self) -> char {
        match self {
            Self::Holding(_) => ':',
            Self::Waiting(Mode::Exclusive) => '?',
            Self::Waiting(Mode::Shared) => '~',
        }
    }
}

/// What another role's `application_name` and query text told; nothing in it is trusted to be true.
#[derive(Debug, PartialEq, Eq)]
pub struct Told {
    pub stage: Stage,
    pub lock: Option<Lock>,
    /// How many slots it says the lock has.
    pub slots: Option<u32>,
    /// The locks that it says it wants or holds, too.
    pub also: Vec<Lock>,
    /// Whether it says that there are others, or more was said than the server kept.
    pub more: bool,
    pub host: Option<String>,
    pub wrapper_pid: Option<u32>,
    pub command: Option<String>,
    pub since: Option<Since>,
}

/// When a session got to where it is, in microseconds since 1970 on the server's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// The wait began.
    Waiting(i64),
    /// The lock was taken.
    Held(i64),
}

/// The server cuts off what is longer (NAMEDATALEN - 1).
pub const APPLICATION_NAME_BYTES: usize = 63;
/// The least that is kept of a host name when the lock's name needs the room.
const SHORTEST_HOST: usize = 12;
/// The server keeps the first `track_activity_query_size` bytes of a query, 1024 by default: longer
/// names and commands are left out or cut so that the rest is still found.
const LONGEST_NAME_IN_QUERY: usize = 800;
const LONGEST_COMMAND: usize = 300;

/// PostgreSQL replaces what is no printable ASCII; `|` separates the namespace, `#` the slots; without quotes, backslashes and
/// asterisks the whole can stand in an SQL literal as it is, and could in a comment.
const LABEL: &AsciiSet = &CONTROLS
    .add(b'%')
    .add(b'|')
    .add(b'#')
    .add(b'\'')
    .add(b'\\')
    .add(b'*');
/// Without `*` nothing within ends the comment or begins a nested one; the rest are this notation's own marks.
const FIELD: &AsciiSet = &CONTROLS.add(b'%').add(b'&').add(b'=').add(b'*');

const COMMENT_START: &str = "/*pglock ";
/// The blank keeps a `/` before it from beginning a nested comment.
const COMMENT_END: &str = " */";

impl Identity {
    /// This process, which takes what it claims for `command`.
    pub fn of_this_process(claim: Claim, command: String) -> Self {
        Self {
            claim,
            host: host_name(),
            wrapper_pid: std::process::id(),
            command,
        }
    }

    pub fn application_name(&self, stage: Stage) -> String {
        let mark = stage.mark();
        let pid = self.wrapper_pid;
        let room = APPLICATION_NAME_BYTES - format!("pglock{mark}  (:{pid})").len();
        let host = ascii(&self.host);
        let slots = match (self.claim.slots, stage) {
            (None, _) => String::new(),
            (Some(slots), Stage::Holding(slot)) => format!("#{slot}/{slots}"),
            (Some(slots), Stage::Waiting(_)) => format!("#{slots}"),
        };
        let lock = &self.claim.lock;
        let mut label = format!("{}{slots}", label(lock));
        if label.len() + host.len().min(SHORTEST_HOST) > room {
            label = format!("#{}{slots}", lock.key);
        }
        let host = &host[..host.len().min(room - label.len())];
        format!("pglock{mark} {label} ({host}:{pid})")
    }

    /// The comment that goes in front of a statement.
    ///
    /// ASCII only where the database's encoding may not hold every character.
    pub fn comment(&self, since: Option<Since>, server_is_utf8: bool) -> String {
        let encode = |text: &str| {
            if server_is_utf8 {
                encode_ascii_only_where_needed(text)
            } else {
                utf8_percent_encode(text, FIELD).to_string()
            }
        };
        let mut fields = vec![
            ("host", encode(&self.host)),
            ("pid", self.wrapper_pid.to_string()),
        ];
        fields.extend(since.map(|since| match since {
            Since::Waiting(since) => ("waiting", since.to_string()),
            Since::Held(since) => ("held", since.to_string()),
        }));
        match &self.claim.lock.name {
            None => fields.push(("key", self.claim.lock.key.to_string())),
            Some(lock) => {
                fields.extend(foreign_rule(lock).map(|rule| ("rule", rule.to_owned())));
                let namespace = lock.namespace.as_deref();
                fields.extend(namespace.map(|namespace| ("namespace", encode(namespace))));
                fields.push(("name", encode(&lock.name)));
            }
        }
        fields.extend(self.claim.also.iter().map(|also| match &also.name {
            // All are in the namespace of the first, and by its rule.
            Some(LockName { name, .. }) => ("also", encode(name)),
            None => ("also-key", also.key.to_string()),
        }));
        let all = fields.len();
        let mut length = 0;
        fields.retain(|(field, value)| {
            length += field.len() + value.len() + "=&".len();
            length <= LONGEST_NAME_IN_QUERY
                || !matches!(*field, "namespace" | "name" | "also" | "also-key")
        });
        if fields.len() < all {
            fields.push(("more", "1".to_owned()));
        }
        // Last, so that whoever reads its beginning knows that nothing before it was cut off.
        fields.push(("command", encode(&shortened(&self.command))));
        let fields: Vec<String> = fields
            .into_iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        format!("{COMMENT_START}{}{COMMENT_END}", fields.join("&"))
    }
}

/// UTF-8 passes as it is; only the marks and control characters are encoded.
fn encode_ascii_only_where_needed(text: &str) -> String {
    text.chars()
        .fold(String::with_capacity(text.len()), |mut out, c| {
            if c.is_ascii() {
                out.extend(utf8_percent_encode(c.encode_utf8(&mut [0; 4]), FIELD));
            } else {
                out.push(c);
            }
            out
        })
}

fn shortened(command: &str) -> String {
    match command.char_indices().nth(LONGEST_COMMAND) {
        None => command.to_owned(),
        Some((end, _)) => format!("{}...", &command[..end]),
    }
}

/// `NAME`, `NAMESPACE|NAME`, `#RULE:` and one of these, or `#KEY`.
fn label(lock: &Lock) -> String {
    let encode = |text: &str| utf8_percent_encode(text, LABEL).to_string();
    let Some(name) = &lock.name else {
        return format!("#{}", lock.key);
    };
    let rule = foreign_rule(name).map(|rule| format!("#{rule}:"));
    let namespace = name.namespace.as_deref();
    let namespace = namespace.map(|namespace| encode(namespace) + "|");
    rule.unwrap_or_default() + &namespace.unwrap_or_default() + &encode(&name.name)
}

/// The word for the rule, where it is not pglock's own.
fn foreign_rule(name: &LockName) -> Option<&'static str> {
    (!name.rule.is_own()).then(|| name.rule.word())
}

/// A host name is ASCII by its own rules (RFC 1123); anything else is encoded.
pub fn ascii(host: &str) -> String {
    utf8_percent_encode(host, LABEL).to_string()
}

/// What this host calls itself; empty if it does not say.
pub fn host_name() -> String {
    nix::unistd::gethostname()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

impl Told {
    /// Reads both places; `None` when the session does not look like pglock's.
    pub fn by(application_name: &str, query: &str) -> Option<Self> {
        let mut told = Self::from_application_name(application_name)?;
        told.add_comment(query);
        Some(told)
    }

    fn from_application_name(application_name: &str) -> Option<Self> {
        let rest = application_name.strip_prefix("pglock")?;
        let stage = Stage::ALL
            .into_iter()
            .find(|stage| rest.starts_with(stage.mark()))?;
        let rest = rest[1..].strip_prefix(' ')?;
        let (label, process) = rest.strip_suffix(')')?.rsplit_once(" (")?;
        let (host, pid) = process.rsplit_once(':')?;
        let (label, slot, slots) = without_slots(label);
        Some(Self {
            stage: match stage {
                Stage::Holding(_) => Stage::Holding(slot.unwrap_or(0)),
                Stage::Waiting(mode) => Stage::Waiting(mode),
            },
            lock: lock_of_label(label),
            slots,
            also: Vec::new(),
            more: false,
            host: Some(decoded(host)).filter(|host| !host.is_empty()),
            wrapper_pid: Some(pid.parse().ok()?),
            command: None,
            since: None,
        })
    }

    fn add_comment(&mut self, query: &str) {
        let Some(fields) = query.strip_prefix(COMMENT_START) else {
            return;
        };
        let mut rule = Some(Rule::default());
        let mut namespace = None;
        let mut name = None;
        let mut also = Vec::new();
        for (field, value) in comment_fields(fields) {
            match field {
                "host" => self.host = Some(value),
                "waiting" => self.since = value.parse().ok().map(Since::Waiting),
                "held" => self.since = value.parse().ok().map(Since::Held),
                "rule" => rule = Rule::of(&value),
                "namespace" => namespace = Some(value),
                "name" => name = Some(value),
                "also" => also.push(value),
                "also-key" => self.also.extend(raw(&value)),
                "more" => self.more = true,
                "command" => self.command = Some(value),
                _ => {}
            }
        }
        self.more |= self.command.is_none();
        if let Some(rule) = rule {
            let also = also.into_iter();
            let also = also.filter_map(|name| named(rule, namespace.clone(), name));
            self.also.extend(also);
            if let Some(name) = name {
                self.lock = named(rule, namespace, name);
            }
        }
    }
}

/// The fields of a comment; a last one that the server cut off is dropped unless it is the command.
fn comment_fields(text: &str) -> impl Iterator<Item = (&str, String)> {
    let (fields, whole) = match text.split_once(COMMENT_END) {
        Some((fields, _)) => (fields, true),
        None => (text, false),
    };
    let last = fields.matches('&').count();
    fields
        .split('&')
        .enumerate()
        .filter_map(move |(at, field)| {
            let (name, value) = field.split_once('=')?;
            let kept = whole || at < last || name == "command";
            kept.then(|| (name, decoded(value)))
        })
}

/// Splits `#SLOT/SLOTS` or `#SLOTS` off.
fn without_slots(label: &str) -> (&str, Option<u32>, Option<u32>) {
    // The first is that of a key.
    let Some((label, told)) = label
        .rsplit_once('#')
        .filter(|(label, _)| !label.is_empty())
    else {
        return (label, None, None);
    };
    match told.split_once('/') {
        Some((slot, slots)) => (label, slot.parse().ok(), slots.parse().ok()),
        None => (label, None, told.parse().ok()),
    }
}

fn lock_of_label(label: &str) -> Option<Lock> {
    let (rule, label) = match label.strip_prefix('#') {
        None => (Rule::default(), label),
        Some(rest) => match rest.split_once(':') {
            None => return raw(rest),
            Some((rule, label)) => (Rule::of(rule)?, label),
        },
    };
    let (namespace, name) = match label.split_once('|') {
        Some((namespace, name)) => (Some(decoded(namespace)), name),
        None => (None, label),
    };
    named(rule, namespace, decoded(name))
}

/// What is no lock by its own rule was not told by pglock.
fn named(rule: Rule, namespace: Option<String>, name: String) -> Option<Lock> {
    let name = LockName {
        namespace,
        name,
        rule,
    };
    name.try_into().ok()
}

fn raw(key: &str) -> Option<Lock> {
    let key = key.parse::<LockKey>().ok()?;
    Some(Lock { key, name: None })
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(namespace: Option<&str>, name: &str) -> Identity {
        by_rule(Rule::default(), namespace, name)
    }

    fn by_rule(rule: Rule, namespace: Option<&str>, name: &str) -> Identity {
        let namespace = namespace.map(str::to_owned);
        let lock = named(rule, namespace, name.to_owned()).expect("it has a key");
        Identity {
            claim: Claim::of(lock),
            host: "web-1.example".to_owned(),
            wrapper_pid: 4242,
            command: "sh -c 'x && y' */ &=% /* /".to_owned(),
        }
    }

    #[test]
    fn what_is_told_is_read_back() {
        let odd = "  q\"uo'te/*x*/ #|%&=\n\u{1}é漢 ".to_owned();
        for (namespace, name) in [
            (None, "nightly-report"),
            (Some("billing"), "nightly-report"),
            (Some("#a|b/c"), "#x"),
            (None, "#1"),
            (None, "a/b (c:1)"),
            (None, odd.as_str()),
            (None, "n".repeat(200).as_str()),
            (None, "漢".repeat(200).as_str()),
        ] {
            let said = identity(namespace, name);
            for utf8 in [true, false] {
                let query = said.comment(Some(Since::Waiting(7)), utf8) + "SELECT 1";
                assert_eq!(query.matches("/*").count(), 1, "{query}");
                assert_eq!(query.matches("*/").count(), 1, "{query}");
                assert!(utf8 || query.is_ascii());
                let told = Told::by(&said.application_name(Stage::Waiting(Mode::Shared)), &query);
                let told = told.expect("a pglock session is recognised");
                assert_eq!(
                    told.lock.as_ref().map(|lock| lock.key),
                    Some(said.claim.lock.key),
                    "{name}"
                );
                let kept = utf8 || name.len() < LONGEST_NAME_IN_QUERY / 3;
                assert_eq!(
                    told.lock.is_some_and(|lock| lock.name.is_some()),
                    kept,
                    "{name}"
                );
                assert_eq!(told.host.as_deref(), Some("web-1.example"));
                assert_eq!(told.command.as_deref(), Some(said.command.as_str()));
                assert_eq!(told.since, Some(Since::Waiting(7)));
                assert_eq!(told.stage, Stage::Waiting(Mode::Shared));
            }
        }
    }

    #[test]
    fn the_rule_is_told_with_the_name_in_both_places() {
        for (word, namespace, name) in [
            ("crc32", None, "plumless"),
            ("hashtext", Some("a|b"), "#x:y"),
            ("golang-migrate", None, "app,public"),
        ] {
            let rule = Rule::of(word).expect("known");
            let said = by_rule(rule, namespace, name);
            let label = said.application_name(Stage::Holding(0));
            assert_eq!(
                lock_told(&label, "").as_ref(),
                Some(&said.claim.lock),
                "{label}"
            );
            let query = said.comment(None, true);
            assert_eq!(lock_told("pglock: #1 (h:1)", &query), Some(said.claim.lock));
        }
        assert_eq!(lock_told("pglock: #no-such-rule:x (h:1)", ""), None);
        let unknown = "/*pglock rule=no-such-rule&name=x */";
        assert_eq!(
            lock_told("pglock: #1 (h:1)", unknown).and_then(|lock| lock.name),
            None
        );
    }

    fn lock_told(application_name: &str, query: &str) -> Option<Lock> {
        Told::by(application_name, query).expect("recognised").lock
    }

    #[test]
    fn an_application_name_fits_and_keeps_the_key_whatever_the_name() {
        for name in ["x", &"n".repeat(200), "漢漢漢漢漢漢漢"] {
            let mut said = identity(None, name);
            said.host = "a-rather-long-host-name.in.some.cluster.example.org".to_owned();
            said.wrapper_pid = 4_194_304;
            for stage in Stage::ALL {
                let shown = said.application_name(stage);
                assert!(shown.is_ascii() && shown.len() <= 63, "{shown}");
                let told = Told::by(&shown, "").expect("recognised");
                assert_eq!(told.lock.map(|lock| lock.key), Some(said.claim.lock.key));
                assert_eq!(told.wrapper_pid, Some(4_194_304));
            }
        }
    }

    #[test]
    fn slots_and_other_locks_are_told_with_the_lock() {
        for name in ["jobs", "a#1/2", "|", &"n".repeat(200)] {
            for namespace in [None, Some("#")] {
                let mut said = identity(namespace, name);
                said.claim.slots = Some(12);
                said.claim.also = ["x", "y&z"]
                    .map(|also| {
                        let namespace = namespace.map(str::to_owned);
                        named(Rule::default(), namespace, also.to_owned()).expect("it has a key")
                    })
                    .to_vec();
                let comment = said.comment(None, true);
                for stage in [
                    Stage::Holding(0),
                    Stage::Holding(11),
                    Stage::Waiting(Mode::Exclusive),
                ] {
                    let shown = said.application_name(stage);
                    assert!(shown.len() <= 63, "{shown}");
                    let told = Told::by(&shown, &comment).expect("recognised");
                    assert_eq!((told.stage, told.slots), (stage, Some(12)), "{shown}");
                    assert_eq!(told.lock.map(|lock| lock.key), Some(said.claim.lock.key));
                    assert_eq!(told.also, said.claim.also);
                    assert!(!told.more);
                }
            }
        }
    }

    #[test]
    fn what_was_left_out_of_a_comment_or_cut_off_is_known_to_be_missing() {
        let mut said = identity(None, "nightly-report");
        let others = |count: usize| {
            let names = (0..count).map(|at| format!("{at}-{}", "n".repeat(100)));
            let locks = names.map(|name| named(Rule::default(), None, name).expect("it has a key"));
            locks.collect::<Vec<_>>()
        };
        let told = |query: &str| Told::by("pglock? #1 (h:1)", query).expect("recognised");
        for (count, more) in [(0, false), (3, false), (20, true)] {
            said.claim.also = others(count);
            let comment = said.comment(None, true);
            assert_eq!(told(&comment).more, more, "{comment}");
            assert_eq!(told(&comment).also.len() < count, more);
            let cut_off = comment.find("&command").expect("it is told");
            assert!(told(&comment[..cut_off]).more);
        }
        assert!(!told("SELECT 1").more);
    }

    #[test]
    fn a_comment_that_was_cut_off_yields_no_half_name() {
        let said = identity(None, "nightly-report");
        let query = said.comment(None, true);
        for end in 0..query.len() {
            let told = Told::by("pglock: #1 (h:1)", &query[..end]).expect("recognised");
            let name = told.lock.and_then(|lock| lock.name);
            assert!(
                name.is_none_or(|name| name.name == "nightly-report"),
                "{}",
                &query[..end]
            );
        }
    }

    #[test]
    fn other_programs_are_not_taken_for_pglock() {
        for other in [
            "",
            "psql",
            "pglock",
            "pglock list",
            "pglock: x",
            "pglock? (a:b)",
        ] {
            assert_eq!(Told::by(other, "/*pglock name=x*/"), None, "{other}");
        }
    }
}
