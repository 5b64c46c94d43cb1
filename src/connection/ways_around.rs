//! How to get past a transaction pooler, as those who run one say.

use super::hosts::{Address, Host};
use super::settings::Settings;

/// What to do instead of connecting to this pooler.
pub fn way_around_pooler(settings: &Settings) -> &'static str {
    settings.hosts.first().map_or(ANY, way_around)
}

const ANY: &str =
    "connect to the server itself or to a port in session mode (PgBouncer: pool_mode=session)";
const NEON: &str = "leave \"-pooler\" out of the host name (Neon's direct connection)";
const SUPABASE: &str =
    "use port 5432 instead of 6543 (Supabase's session mode), or the direct connection";
const RDS_PROXY: &str = "connect to the instance or cluster endpoint instead of the RDS Proxy";

/// Told by the host name, which each of them documents.
fn way_around(host: &Host) -> &'static str {
    let Address::Tcp(name) = &host.address else {
        return ANY;
    };
    match name.as_str() {
        name if name.ends_with(".neon.tech") && name.contains("-pooler.") => NEON,
        name if name.ends_with(".pooler.supabase.com") => SUPABASE,
        name if name.ends_with(".rds.amazonaws.com") && name.contains(".proxy-") => RDS_PROXY,
        _ => ANY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_provider_has_a_way_of_its_own() {
        let host = |name: &str, address| Host {
            name: name.to_owned(),
            is_given: true,
            address,
            port: 5432,
            password: None,
        };
        let by_name = [
            ("ep-a-1.eu-central-1.aws.neon.tech", ANY),
            ("ep-a-1-pooler.eu-central-1.aws.neon.tech", NEON),
            ("a-pooler.example.com", ANY),
            ("aws-0-eu-central-1.pooler.supabase.com", SUPABASE),
            ("db.abc.supabase.co", ANY),
            ("a.proxy-abc.eu-central-1.rds.amazonaws.com", RDS_PROXY),
            ("a.abc.eu-central-1.rds.amazonaws.com", ANY),
            ("127.0.0.1", ANY),
        ];
        for (name, way) in by_name {
            let host = host(name, Address::Tcp(name.to_owned()));
            assert_eq!(way_around(&host), way, "{name}");
        }
        let directory = "/run/a-pooler.neon.tech";
        let socket = host(directory, Address::UnixSocket(directory.into()));
        assert_eq!(way_around(&socket), ANY);
    }
}
