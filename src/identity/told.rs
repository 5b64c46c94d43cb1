//! What a session has told, read back.

use percent_encoding::percent_decode_str;

use super::{COMMENT_END, COMMENT_START, Since, Stage};
use crate::key::{Lock, LockKey, LockName, Rule};

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
pub(super) fn named(rule: Rule, namespace: Option<String>, name: String) -> Option<Lock> {
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
