//! What a session says of itself.

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use super::{COMMENT_END, COMMENT_START, Since, Stage};
use crate::claim::Claim;
use crate::key::{Lock, LockName};

/// The pglock process behind a session.
#[derive(Debug)]
pub struct Identity {
    pub claim: Claim,
    pub host: String,
    pub wrapper_pid: u32,
    /// The command as a person would type it, without secrets.
    pub command: String,
}

/// The server cuts off what is longer (NAMEDATALEN - 1).
pub const APPLICATION_NAME_BYTES: usize = 63;
/// The least that is kept of a host name when the lock's name needs the room.
const SHORTEST_HOST: usize = 12;
/// The server keeps the first `track_activity_query_size` bytes of a query, 1024 by default: longer
/// names and commands are left out or cut so that the rest is still found.
pub(super) const LONGEST_NAME_IN_QUERY: usize = 800;
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
