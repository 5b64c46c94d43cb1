//! Where and how to connect, resolved once.

use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Context as _;
use nix::unistd::{User, geteuid};

use super::conninfo::Parameters;
use super::given::Given;
use super::home;
use super::hosts::{Host, hosts};
use super::keywords;
use super::password_file;
use super::places::Place;
use super::prompt::Prompt;
use super::tcp_settings::TcpSettings;
use super::tls_settings::TlsSettings;
use crate::exit::Fault;

/// Everything needed to open a session. Passwords have no way into any output: there is no Debug.
pub struct Settings {
    /// Tried in this order until one answers.
    pub hosts: Vec<Host>,
    pub user: String,
    pub database: String,
    /// Command-line options for the server (PGOPTIONS), sent only when the user gave some.
    pub server_options: Option<String>,
    pub tls: TlsSettings,
    /// Covers name look-up, TCP, TLS and authentication of one host; `None` waits for ever.
    pub connect_timeout: Option<Duration>,
    /// Whose process must listen on a Unix socket.
    pub required_peer: Option<String>,
    pub tcp: TcpSettings,
    pub target: TargetSession,
    pub prompt: Rc<Prompt>,
}

/// `target_session_attrs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetSession {
    Any,
    ReadWrite,
    ReadOnly,
    Primary,
    Standby,
    PreferStandby,
}

/// The contract's default, where libpq would wait for ever.
const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

impl Settings {
    /// As [`Self::resolve`], for a session that is to hold a lock: of several hosts the primary is wanted.
    pub fn resolve_for_lock(place: Place, prompt: Rc<Prompt>) -> anyhow::Result<Self> {
        let mut settings = Self::resolve(place, prompt)?;
        if settings.hosts.len() > 1 && settings.target == TargetSession::Any {
            settings.target = TargetSession::Primary;
        }
        Ok(settings)
    }

    /// Makes sense of a place's parameters, and reads the password file; errors are [`Fault::Usage`].
    pub fn resolve(place: Place, prompt: Rc<Prompt>) -> anyhow::Result<Self> {
        let parameters = place.0;
        refuse_what_cannot_be_done(&parameters)?;
        let mut given = Given::of(parameters);
        let user = given.text("user").map_or_else(operating_system_user, Ok)?;
        let database = given.text("dbname").unwrap_or_else(|| user.clone());
        let mut hosts = hosts(&mut given)?;
        let password = given.text("password");
        let password_file = given.text("passfile").map(PathBuf::from);
        let password_file = password_file.or_else(|| home::file(".pgpass"));
        for host in &mut hosts {
            let from_file =
                || password_file::find(password_file.as_deref()?, host.target(&database, &user));
            host.password = password.clone().or_else(from_file);
        }
        if given.choice(
            "load_balance_hosts",
            &[("disable", false), ("random", true)],
            false,
        )? {
            fastrand::shuffle(&mut hosts);
        }
        Ok(Self {
            hosts,
            user,
            database,
            server_options: given.text("options"),
            tls: TlsSettings::resolve(&mut given)?,
            connect_timeout: connect_timeout(&mut given)?,
            required_peer: given.text("requirepeer"),
            tcp: TcpSettings::resolve(&mut given)?,
            target: target_session(&mut given)?,
            prompt,
        })
    }
}

/// A parameter that asks for a safer connection than pglock can make is an error.
fn refuse_what_cannot_be_done(parameters: &Parameters) -> anyhow::Result<()> {
    for (name, value) in parameters {
        if keywords::find(name).is_some_and(|keyword| !keyword.accepts(value)) {
            let value = crate::text::printable(value);
            return Err(Fault::Usage.error(format!("{name}={value} cannot be honoured")));
        }
    }
    Ok(())
}

/// Whole seconds; zero and negative numbers mean no limit, as in libpq.
fn connect_timeout(given: &mut Given) -> anyhow::Result<Option<Duration>> {
    let Some(seconds) = given.number("connect_timeout")? else {
        return Ok(Some(DEFAULT_CONNECT_TIMEOUT));
    };
    Ok(positive(seconds).map(Duration::from_secs))
}

fn positive(number: i32) -> Option<u64> {
    u64::try_from(number).ok().filter(|number| *number > 0)
}

fn target_session(given: &mut Given) -> anyhow::Result<TargetSession> {
    let words = [
        ("any", TargetSession::Any),
        ("read-write", TargetSession::ReadWrite),
        ("read-only", TargetSession::ReadOnly),
        ("primary", TargetSession::Primary),
        ("standby", TargetSession::Standby),
        ("prefer-standby", TargetSession::PreferStandby),
    ];
    given.choice("target_session_attrs", &words, TargetSession::Any)
}

fn operating_system_user() -> anyhow::Result<String> {
    let user = User::from_uid(geteuid()).context("looking up the operating system user")?;
    user.map(|user| user.name)
        .ok_or_else(|| Fault::Usage.error(format!("user ID {} has no name; give -U", geteuid())))
}

#[cfg(test)]
mod tests {
    use super::super::{conninfo, fuzz};
    use super::*;

    #[test]
    fn fuzzed_parameters_are_understood_or_refused_without_being_quoted() {
        fuzz::each_conninfo(|text| {
            let whole = conninfo::parse("fuzz", text).unwrap_or_default();
            let alone = [
                "host",
                "hostaddr",
                "port",
                "connect_timeout",
                "keepalives_count",
            ];
            let alone = alone.map(|name| Parameters::from([(name, text.to_owned())]));
            for parameters in alone.into_iter().chain([whole]) {
                let mut given = Given::of(parameters);
                let faults = [
                    hosts(&mut given).err(),
                    connect_timeout(&mut given).err(),
                    TcpSettings::resolve(&mut given).err(),
                    target_session(&mut given).err(),
                ];
                for fault in faults.into_iter().flatten() {
                    let message = fault.to_string();
                    assert!(!message.contains("s3cret"), "{message}");
                }
            }
        });
    }
}
