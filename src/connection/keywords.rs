//! libpq's connection parameters (PostgreSQL documentation, 34.1.2 and 34.15): which there are, the variable that
//! stands for each, and what pglock does about it.

/// What pglock does with a parameter that was given a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Does as libpq does.
    Honoured,
    /// Takes note and does nothing: the connection is as safe and leads to the same place without it.
    Harmless,
    /// Refuses every value but these, since the connection would be less than what was asked for.
    Only(&'static [&'static str]),
}

/// One of libpq's keywords.
#[derive(Debug)]
pub struct Keyword {
    pub name: &'static str,
    pub variable: Option<&'static str>,
    pub policy: Policy,
}

const fn keyword(name: &'static str, variable: &'static str, policy: Policy) -> Keyword {
    Keyword {
        name,
        variable: Some(variable),
        policy,
    }
}

const fn unset_by_variable(name: &'static str, policy: Policy) -> Keyword {
    Keyword {
        name,
        variable: None,
        policy,
    }
}

use Policy::{Harmless, Honoured, Only};

/// Every keyword of PostgreSQL 18's libpq.
pub const KEYWORDS: [Keyword; 52] = [
    keyword("service", "PGSERVICE", Honoured),
    keyword("servicefile", "PGSERVICEFILE", Honoured),
    keyword("host", "PGHOST", Honoured),
    keyword("hostaddr", "PGHOSTADDR", Honoured),
    keyword("port", "PGPORT", Honoured),
    keyword("dbname", "PGDATABASE", Honoured),
    keyword("user", "PGUSER", Honoured),
    keyword("password", "PGPASSWORD", Honoured),
    keyword("passfile", "PGPASSFILE", Honoured),
    keyword("connect_timeout", "PGCONNECT_TIMEOUT", Honoured),
    keyword("options", "PGOPTIONS", Honoured),
    keyword("target_session_attrs", "PGTARGETSESSIONATTRS", Honoured),
    keyword("load_balance_hosts", "PGLOADBALANCEHOSTS", Honoured),
    keyword("requirepeer", "PGREQUIREPEER", Honoured),
    keyword("channel_binding", "PGCHANNELBINDING", Honoured),
    keyword("sslmode", "PGSSLMODE", Honoured),
    keyword("sslnegotiation", "PGSSLNEGOTIATION", Honoured),
    keyword("sslrootcert", "PGSSLROOTCERT", Honoured),
    keyword("sslcert", "PGSSLCERT", Honoured),
    keyword("sslkey", "PGSSLKEY", Honoured),
    keyword("sslsni", "PGSSLSNI", Honoured),
    keyword(
        "ssl_min_protocol_version",
        "PGSSLMINPROTOCOLVERSION",
        Honoured,
    ),
    keyword(
        "ssl_max_protocol_version",
        "PGSSLMAXPROTOCOLVERSION",
        Honoured,
    ),
    unset_by_variable("sslpassword", Honoured),
    unset_by_variable("keepalives", Honoured),
    unset_by_variable("keepalives_idle", Honoured),
    unset_by_variable("keepalives_interval", Honoured),
    unset_by_variable("keepalives_count", Honoured),
    unset_by_variable("tcp_user_timeout", Honoured),
    keyword("sslcertmode", "PGSSLCERTMODE", Only(&["allow", "disable"])),
    keyword("sslcrl", "PGSSLCRL", Honoured),
    keyword("sslcrldir", "PGSSLCRLDIR", Honoured),
    keyword("require_auth", "PGREQUIREAUTH", Only(&[])),
    keyword("gssencmode", "PGGSSENCMODE", Only(&["disable", "prefer"])),
    keyword("gssdelegation", "PGGSSDELEGATION", Only(&["0"])),
    unset_by_variable("replication", Only(&["false", "off", "no", "0"])),
    unset_by_variable("scram_client_key", Only(&[])),
    unset_by_variable("scram_server_key", Only(&[])),
    unset_by_variable("oauth_issuer", Only(&[])),
    unset_by_variable("oauth_client_id", Only(&[])),
    unset_by_variable("oauth_client_secret", Only(&[])),
    unset_by_variable("oauth_scope", Only(&[])),
    keyword(
        "min_protocol_version",
        "PGMINPROTOCOLVERSION",
        Only(&["3.0"]),
    ),
    keyword("max_protocol_version", "PGMAXPROTOCOLVERSION", Harmless),
    keyword("application_name", "PGAPPNAME", Harmless),
    unset_by_variable("fallback_application_name", Harmless),
    keyword("client_encoding", "PGCLIENTENCODING", Harmless),
    keyword("sslcompression", "PGSSLCOMPRESSION", Harmless),
    unset_by_variable("sslkeylogfile", Harmless),
    keyword("krbsrvname", "PGKRBSRVNAME", Harmless),
    keyword("gsslib", "PGGSSLIB", Harmless),
    // Obsolete, and still taken without a word.
    keyword("requiressl", "PGREQUIRESSL", Harmless),
];

/// The keyword of this name.
pub fn find(name: &str) -> Option<&'static Keyword> {
    KEYWORDS.iter().find(|keyword| keyword.name == name)
}

impl Keyword {
    /// Whether pglock can do what this value asks for.
    pub fn accepts(&self, value: &str) -> bool {
        match self.policy {
            Honoured | Harmless => true,
            Only(values) => value.is_empty() || values.contains(&value),
        }
    }
}
