//! Where to connect.

use clap::Args;

/// Where to connect; accepted before and after the subcommand.
#[derive(Debug, Args)]
#[command(next_help_heading = "Connection")]
pub struct ConnectionArgs {
    /// Database name, or a connection URI or keyword=value string
    ///
    /// As psql's -d: parameters of a connection string win over -h, -p and -U. Of options given twice the last
    /// one counts. {namespace} stands for the lock's namespace, and {shard:N} for a number below N that the
    /// lock's name decides: SHA-256(NAME), its first 8 bytes as an unsigned number, modulo N.
    #[arg(
        short,
        long,
        global = true,
        value_name = "DBNAME",
        overrides_with = "dbname"
    )]
    pub dbname: Option<String>,

    /// Server host name, or the directory of its Unix socket
    #[arg(
        short = 'h',
        long,
        global = true,
        value_name = "HOST",
        overrides_with = "host"
    )]
    pub host: Option<String>,

    /// Server port
    #[arg(
        short,
        long,
        global = true,
        value_name = "PORT",
        overrides_with = "port"
    )]
    pub port: Option<String>,

    /// Role to connect as
    #[arg(
        short = 'U',
        long,
        global = true,
        value_name = "USER",
        overrides_with = "username"
    )]
    pub username: Option<String>,

    /// Ask for the password before connecting, even if one is known
    ///
    /// Without it pglock asks, as psql does, when the server wants a password and none is known, if there is a
    /// terminal.
    #[arg(short = 'W', long, global = true, overrides_with_all = ["password", "no_password"])]
    pub password: bool,

    /// Never ask for a password
    ///
    /// A server that wants one which is not known is then an error, as without a terminal (status 121).
    #[arg(long, global = true, overrides_with_all = ["password", "no_password"])]
    pub no_password: bool,
}

impl ConnectionArgs {
    /// The options that say where to connect, as words of a command line.
    pub fn as_typed(&self) -> Vec<String> {
        let options = [
            ("-d", &self.dbname),
            ("-h", &self.host),
            ("-p", &self.port),
            ("-U", &self.username),
        ];
        let typed = options.into_iter().filter_map(|(option, value)| {
            let value = value.as_ref()?;
            Some([option.to_owned(), value.clone()])
        });
        typed.flatten().collect()
    }
}
