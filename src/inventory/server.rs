//! What a server says of itself, of this role and of this session: one query for each subject.

use serde::Serialize;
use tokio_postgres::SimpleQueryRow;

use crate::session::{Session, shielded_settings};

/// Which server, and as whom it sees this session.
#[derive(Debug, Serialize)]
pub struct ServerView {
    /// Name, version and platform, as `version()` gives them.
    pub product: String,
    pub version: Option<String>,
    /// Where the server itself was connected to; `None` for a Unix socket.
    pub address: Option<String>,
    pub port: Option<u16>,
    pub database: Option<String>,
    pub user: Option<String>,
    pub standby: Option<bool>,
    pub backend_pid: Option<i32>,
}

/// How the server's end of the connection is encrypted.
#[derive(Debug, Serialize)]
pub struct EncryptionView {
    pub encrypted: bool,
    pub protocol: Option<String>,
    pub cipher: Option<String>,
}

/// A default of the role's or the database's that would hurt a lock, had pglock not set another.
#[derive(Debug, Serialize)]
pub struct SettingView {
    pub name: String,
    pub value: String,
    pub unit: Option<String>,
}

/// What this role may do to the sessions of others.
#[derive(Debug, Serialize)]
pub struct RightsView {
    pub superuser: bool,
    pub may_see_others: bool,
    pub may_end_others: bool,
    /// The statement that would give the rights that are missing.
    pub grant: Option<String>,
}

/// How many connections the server has, for everybody and for this role and database.
#[derive(Debug, Serialize)]
pub struct ConnectionsView {
    /// How many more this role can open now in this database.
    pub free: i64,
    pub max: i64,
    pub reserved: i64,
    pub in_use: i64,
    /// `None` where there is no limit, as for superusers.
    pub role_limit: Option<i64>,
    pub role_in_use: i64,
    pub database_limit: Option<i64>,
    pub database_in_use: i64,
}

/// The server, and as whom it sees the session.
pub async fn server(session: &mut Session) -> anyhow::Result<Option<ServerView>> {
    const QUERY: &str = "\
        SELECT version() AS product, current_setting('server_version', true) AS version, \
            host(inet_server_addr()) AS address, inet_server_port() AS port, current_database() AS database, \
            current_user AS role, pg_is_in_recovery() AS standby, pg_backend_pid() AS backend_pid";
    let rows = session.query(QUERY).await?;
    Ok(rows.first().map(|row| ServerView {
        product: text(row, "product").unwrap_or_default(),
        version: text(row, "version"),
        address: text(row, "address"),
        port: number(row, "port").and_then(|port| port.try_into().ok()),
        database: text(row, "database"),
        user: text(row, "role"),
        standby: text(row, "standby").map(|standby| standby == "t"),
        backend_pid: number(row, "backend_pid").and_then(|pid| pid.try_into().ok()),
    }))
}

/// The encryption of the server's end, which every role may see of its own session.
pub async fn encryption(session: &mut Session) -> anyhow::Result<Option<EncryptionView>> {
    const QUERY: &str =
        "SELECT ssl, version AS protocol, cipher FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    let rows = session.query(QUERY).await?;
    Ok(rows.first().map(|row| EncryptionView {
        encrypted: is_true(row, "ssl"),
        protocol: text(row, "protocol"),
        cipher: text(row, "cipher"),
    }))
}

/// The defaults that would hurt; `reset_val` is what the session had before pglock set anything.
pub async fn hurtful_settings(session: &mut Session) -> anyhow::Result<Vec<SettingView>> {
    let harmful = shielded_settings()
        .map(|(name, harmless)| format!("(name = '{name}' AND reset_val <> '{harmless}')"))
        .collect::<Vec<_>>();
    let query = format!(
        "SELECT name, reset_val, unit FROM pg_settings WHERE {} ORDER BY name",
        harmful.join(" OR ")
    );
    let rows = session.query(&query).await?;
    let setting = |row| SettingView {
        name: text(row, "name").unwrap_or_default(),
        value: text(row, "reset_val").unwrap_or_default(),
        unit: text(row, "unit"),
    };
    Ok(rows.iter().map(setting).collect())
}

/// What the predefined roles give (PostgreSQL documentation, 22.5 "Predefined Roles").
pub async fn rights(session: &mut Session) -> anyhow::Result<Option<RightsView>> {
    const QUERY: &str = "\
        SELECT rolsuper, quote_ident(rolname) AS role, pg_has_role('pg_read_all_stats', 'USAGE') AS may_see, \
            pg_has_role('pg_signal_backend', 'USAGE') AS may_end \
        FROM pg_roles WHERE rolname = current_user";
    let rows = session.query(QUERY).await?;
    Ok(rows.first().map(|row| {
        let given = |column| is_true(row, column);
        let missing = [
            ("may_see", "pg_read_all_stats"),
            ("may_end", "pg_signal_backend"),
        ];
        let missing = missing.iter().filter(|(column, _)| !given(column));
        let missing: Vec<&str> = missing.map(|(_, role)| *role).collect();
        let grantee = text(row, "role").unwrap_or_default();
        RightsView {
            superuser: given("rolsuper"),
            may_see_others: given("may_see"),
            may_end_others: given("may_end"),
            grant: (!missing.is_empty())
                .then(|| format!("GRANT {} TO {grantee}", missing.join(", "))),
        }
    }))
}

/// The statement with which a superuser lets this role see the sessions of others.
pub async fn grant_to_see(session: &mut Session) -> anyhow::Result<Option<String>> {
    const QUERY: &str = "SELECT quote_ident(current_user) AS role";
    let rows = session.query(QUERY).await?;
    let role = rows.first().and_then(|row| text(row, "role"));
    Ok(role.map(|role| format!("GRANT pg_read_all_stats TO {role}")))
}

/// The connections in use and their limits.
///
/// Of others' sessions a role without rights sees no type: all that have a database and a role are counted then.
pub async fn connections(session: &mut Session) -> anyhow::Result<Option<ConnectionsView>> {
    const QUERY: &str = "\
        SELECT current_setting('max_connections') AS max, \
            current_setting('superuser_reserved_connections')::int8 \
                + coalesce(current_setting('reserved_connections', true), '0')::int8 AS reserved, \
            CASE WHEN NOT r.rolsuper AND r.rolconnlimit >= 0 THEN r.rolconnlimit END AS role_limit, \
            CASE WHEN NOT r.rolsuper AND d.datconnlimit >= 0 THEN d.datconnlimit END AS database_limit, \
            count(a.pid) AS in_use, count(a.pid) FILTER (WHERE a.usesysid = r.oid) AS role_in_use, \
            count(a.pid) FILTER (WHERE a.datid = d.oid) AS database_in_use, r.rolsuper \
        FROM pg_roles r JOIN pg_database d ON d.datname = current_database() \
            LEFT JOIN pg_stat_activity a ON a.datid IS NOT NULL AND a.usesysid IS NOT NULL \
                AND coalesce(a.backend_type, 'client backend') = 'client backend' \
        WHERE r.rolname = current_user \
        GROUP BY r.oid, r.rolsuper, r.rolconnlimit, d.oid, d.datconnlimit";
    let rows = session.query(QUERY).await?;
    Ok(rows.first().map(|row| {
        let count = |name| number(row, name).unwrap_or_default();
        let mut view = ConnectionsView {
            free: 0,
            max: count("max"),
            reserved: count("reserved"),
            in_use: count("in_use"),
            role_limit: number(row, "role_limit"),
            role_in_use: count("role_in_use"),
            database_limit: number(row, "database_limit"),
            database_in_use: count("database_in_use"),
        };
        view.free = view.free_for(is_true(row, "rolsuper"));
        view
    }))
}

impl ConnectionsView {
    /// The lowest of what the limits leave; the reserved ones are for superusers.
    fn free_for(&self, superuser: bool) -> i64 {
        let reserved = if superuser { 0 } else { self.reserved };
        let of_role = self.role_limit.map(|limit| limit - self.role_in_use);
        let of_database = self
            .database_limit
            .map(|limit| limit - self.database_in_use);
        let of_all = self.max - reserved - self.in_use;
        let limits = [Some(of_all), of_role, of_database];
        limits.into_iter().flatten().min().unwrap_or(0).max(0)
    }
}

fn text(row: &SimpleQueryRow, name: &str) -> Option<String> {
    row.try_get(name).ok().flatten().map(str::to_owned)
}

fn number(row: &SimpleQueryRow, name: &str) -> Option<i64> {
    text(row, name)?.parse().ok()
}

fn is_true(row: &SimpleQueryRow, name: &str) -> bool {
    text(row, name).as_deref() == Some("t")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_limit_counts_and_none_is_below_zero() {
        let view = |role_limit, database_limit, in_use| ConnectionsView {
            free: 0,
            max: 100,
            reserved: 3,
            in_use,
            role_limit,
            role_in_use: 5,
            database_limit,
            database_in_use: 7,
        };
        assert_eq!(view(None, None, 10).free_for(false), 87);
        assert_eq!(view(None, None, 10).free_for(true), 90);
        assert_eq!(view(Some(9), None, 10).free_for(false), 4);
        assert_eq!(view(Some(90), Some(10), 10).free_for(false), 3);
        assert_eq!(view(None, None, 98).free_for(false), 0);
    }
}
