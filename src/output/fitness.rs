//! `check` for people: one screen, a line for each subject.

use std::time::Duration;

use super::findings;
use crate::connection::{LinkView, Transport, Verified};
use crate::inventory::{
    ConnectionsView, DeadHostDetection, EncryptionView, FitnessView, LockTrial, RightsView,
    ServerView, SettingView,
};
use crate::session::{Keepalive, Pooling, Scope};

/// What could not be asked.
const UNKNOWN: &str = "unknown";

/// `width` is the terminal's, `None` where there is none and lines may be as long as they like.
pub fn render(view: &FitnessView, width: Option<u16>) -> String {
    let mut findings = vec![
        ("fit", fit(view)),
        ("server", or_unknown(view.server.as_ref(), server)),
        ("connection", link(view)),
        ("session", or_unknown(view.server.as_ref(), session)),
        ("pooler", pooler(view.pooling).to_owned()),
        ("TLS", tls(view)),
        ("lock", lock(&view.lock).to_owned()),
        ("defaults", or_unknown(view.settings.as_deref(), defaults)),
        ("dead host", dead_host(view)),
        ("rights", or_unknown(view.rights.as_ref(), rights)),
        (
            "free",
            or_unknown(view.connections.as_ref(), free_connections),
        ),
    ];
    // On a line of its own it can be copied.
    let grant = view.rights.as_ref().and_then(|rights| rights.grant.clone());
    findings.extend(grant.map(|grant| ("more rights", grant)));
    findings::render(&findings, width)
}

fn or_unknown<T: ?Sized>(view: Option<&T>, words: impl Fn(&T) -> String) -> String {
    view.map_or_else(|| UNKNOWN.to_owned(), words)
}

fn fit(view: &FitnessView) -> String {
    match (&view.reason, view.scope) {
        (Some(reason), _) => format!("no: {reason}"),
        (None, Scope::Session) => "yes".to_owned(),
        (None, Scope::Transaction) => "yes, with --scope transaction".to_owned(),
    }
}

/// `version()` without the platform.
fn server(server: &ServerView) -> String {
    let product = server.product.split(" on ").next().unwrap_or_default();
    match server.standby {
        Some(true) => format!("{product}, a standby"),
        Some(false) => format!("{product}, a primary"),
        None => product.to_owned(),
    }
}

/// The address that a name has led to is the server's to tell, unless a pooler stands between.
fn link(view: &FitnessView) -> String {
    let Some(LinkView {
        host,
        port,
        transport,
        ..
    }) = &view.connection
    else {
        return UNKNOWN.to_owned();
    };
    let is_direct = view.pooling == Some(Pooling::None);
    let address = view.server.as_ref().filter(|_| is_direct);
    let address = address.and_then(|server| server.address.as_ref());
    match (transport, address) {
        (Transport::Tcp, Some(address)) if address != host => {
            format!("{host} port {port} ({address})")
        }
        (Transport::Tcp, _) => format!("{host} port {port}"),
        (Transport::Unix, _) => format!("Unix socket in {host}, port {port}"),
    }
}

fn session(server: &ServerView) -> String {
    let known = |value: &Option<String>| value.clone().unwrap_or_else(|| UNKNOWN.to_owned());
    let session = format!(
        "database {}, role {}",
        known(&server.database),
        known(&server.user)
    );
    match server.backend_pid {
        Some(pid) => format!("{session}, backend {pid}"),
        None => session,
    }
}

fn pooler(pooling: Option<Pooling>) -> &'static str {
    match pooling {
        Some(Pooling::None) => "none seen",
        Some(Pooling::Session) => "session pooling: a session keeps its backend",
        Some(Pooling::Transaction) => "transaction pooling: a backend is lent for a transaction",
        Some(Pooling::Statement) => "statement pooling: a backend is lent for a statement",
        Some(Pooling::Unknown) => "one stands between; how it pools cannot be told",
        None => UNKNOWN,
    }
}

/// Protocol and cipher are the server's to tell, and its client is the pooler if there is one.
fn tls(view: &FitnessView) -> String {
    let Some(link) = &view.connection else {
        return UNKNOWN.to_owned();
    };
    let at_server = view.server_tls.as_ref();
    let is_direct = view.pooling == Some(Pooling::None);
    let sslmode = link.sslmode;
    let here = match (link.certificate, link.transport) {
        (None, Transport::Unix) => "off (Unix socket)".to_owned(),
        (None, Transport::Tcp) => format!("off (sslmode={sslmode})"),
        (Some(verified), _) => {
            let protocol = at_server.filter(|_| is_direct).map(encryption);
            let protocol = protocol.unwrap_or_else(|| "on".to_owned());
            let certificate = certificate(verified);
            format!("{protocol}; certificate {certificate} (sslmode={sslmode})")
        }
    };
    match at_server {
        Some(there) if !is_direct => format!("{here}; from pooler to server {}", encryption(there)),
        Some(_) | None => here,
    }
}

fn encryption(at_server: &EncryptionView) -> String {
    let words = [&at_server.protocol, &at_server.cipher];
    let words: Vec<&str> = words.into_iter().flatten().map(String::as_str).collect();
    match (at_server.encrypted, words.is_empty()) {
        (true, false) => words.join(" "),
        (true, true) => "on".to_owned(),
        (false, _) => "off".to_owned(),
    }
}

fn certificate(verified: Verified) -> &'static str {
    match verified {
        Verified::Nothing => "not verified",
        Verified::Signature => "signed by a trusted authority, host name not compared",
        Verified::SignatureAndHost => "verified, and for this host",
    }
}

fn lock(lock: &LockTrial) -> &'static str {
    match (lock.taken, lock.seen, lock.freed) {
        (true, true, true) => "taken, seen and freed",
        (true, true, false) => "taken and seen, but not freed",
        (true, false, _) => "taken, but not seen",
        (false, ..) => "not taken",
    }
}

fn defaults(settings: &[SettingView]) -> String {
    if settings.is_empty() {
        return "none that would hurt".to_owned();
    }
    let settings: Vec<String> = settings.iter().map(setting).collect();
    format!("{}; pglock is not subject to them", settings.join(", "))
}

fn setting(setting: &SettingView) -> String {
    let SettingView { name, value, unit } = setting;
    let milliseconds = value.parse().ok().filter(|_| unit.as_deref() == Some("ms"));
    match milliseconds {
        Some(length) => {
            let length = humantime::format_duration(Duration::from_millis(length));
            format!("{name}={}", length.to_string().replace(' ', ""))
        }
        None => format!("{name}={value}{}", unit.as_deref().unwrap_or_default()),
    }
}

fn dead_host(view: &FitnessView) -> String {
    let lease = humantime::format_duration(Duration::from_secs_f64(view.lease_seconds));
    let told = || or_unknown(view.keepalive.as_ref(), keepalive);
    match view.dead_host_detection {
        Some(DeadHostDetection::InForce) => {
            format!("found out within the lease of {lease} ({})", told())
        }
        Some(DeadHostDetection::NotInForce) => {
            format!("not found out within the lease of {lease} ({})", told())
        }
        Some(DeadHostDetection::NotNeeded) => "not needed on a Unix socket".to_owned(),
        Some(DeadHostDetection::PoolerOnly) => {
            "reaches only the link between pooler and server".to_owned()
        }
        None if !view.lock.taken => "not asked, for want of a lock".to_owned(),
        None => UNKNOWN.to_owned(),
    }
}

fn keepalive(keepalive: &Keepalive) -> String {
    let word = |value: Option<u64>| value.map_or_else(|| "?".to_owned(), |value| value.to_string());
    format!(
        "tcp_keepalives_idle={}, _interval={}, _count={}, tcp_user_timeout={}",
        word(keepalive.tcp_keepalives_idle),
        word(keepalive.tcp_keepalives_interval),
        word(keepalive.tcp_keepalives_count),
        word(keepalive.tcp_user_timeout),
    )
}

fn rights(rights: &RightsView) -> String {
    let may = match (
        rights.superuser,
        rights.may_see_others,
        rights.may_end_others,
    ) {
        (true, ..) => "superuser: may see and end every session",
        (false, true, true) => "may see every session, and end all but superusers'",
        (false, true, false) => "may see every session, and end those of this role",
        (false, false, true) => "may see the sessions of this role, and end all but superusers'",
        (false, false, false) => "may see and end the sessions of this role",
    };
    may.to_owned()
}

fn free_connections(connections: &ConnectionsView) -> String {
    let ConnectionsView {
        free,
        max,
        reserved,
        in_use,
        role_limit,
        role_in_use,
        database_limit,
        database_in_use,
    } = connections;
    let limit = |whose: &str, limit: &Option<i64>, in_use: &i64| {
        limit.map(|limit| format!("; the {whose} has {in_use} of {limit}"))
    };
    let own = [
        limit("role", role_limit, role_in_use),
        limit("database", database_limit, database_in_use),
    ];
    let own: String = own.into_iter().flatten().collect();
    format!("{free} connections of {max} ({in_use} in use, {reserved} reserved{own})")
}
