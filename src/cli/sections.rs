//! What help and the manual page say of exit statuses and of the environment.

/// What each exit status means, for --help and the manual page.
pub const EXIT_STATUS: [(&str, &str); 13] = [
    ("the command's own", "the command ran to its end"),
    (
        "128+N",
        "the command was killed by signal N, or pglock got signal N while waiting (nothing was run)",
    ),
    (
        "0, 1",
        "list -q: held, not held; release: freed, nothing was held; key --check: no key is shared, one is",
    ),
    (
        "75",
        "the lock was not obtained, or is still held after release (-E changes it for run and try)",
    ),
    ("120", "permission denied by the server"),
    (
        "121",
        "cannot connect: refused, timed out, authentication, TLS, too many connections",
    ),
    (
        "122",
        "this server or pooler cannot hold such a lock (transaction pooler, standby, look-alike); nothing was run",
    ),
    (
        "123",
        "the lock was lost while the command ran; the command was stopped, unless --on-lost warn",
    ),
    ("124", "the command overran --max-runtime and was stopped"),
    (
        "125",
        "pglock failed otherwise: usage, configuration, an unexpected server error",
    ),
    (
        "126",
        "the command cannot be executed (the lock was released)",
    ),
    ("127", "the command was not found (the lock was released)"),
    ("0", "everything else that was asked for was done"),
];

/// The environment that pglock reads and sets, for --help and the manual page.
pub const ENVIRONMENT: [(&str, &str); 12] = [
    (
        "PGLOCK_NAMESPACE",
        "as --namespace; empty means unset; set for the command if there is one",
    ),
    (
        "PGLOCK_URL",
        "where to connect: a URI or a keyword=value string, {namespace} and {shard:N} in it as in -d; options win over it",
    ),
    (
        "PGHOST, PGPORT, PGDATABASE, PGUSER, PGPASSFILE, PGSERVICE, PGSSLMODE and the other PG* variables",
        "as for psql, after options and PGLOCK_URL",
    ),
    (
        "PGCONNECT_TIMEOUT",
        "seconds for name look-up, TCP, TLS and authentication; 10 by default, 0 waits for ever",
    ),
    (
        "DATABASE_URL",
        "used only if nothing else says where to connect",
    ),
    (
        "PGLOCK_NAME, PGLOCK_KEY",
        "set for the command: the lock's name, and its key (N, or A,B in a namespace)",
    ),
    (
        "PGLOCK_BACKEND_PID",
        "set for the command: the process ID of the server's backend that holds the lock",
    ),
    (
        "PGLOCK_HELD",
        "set for the command, and read: what this pglock and those that run it hold, KEY@BACKEND_PID each, so that none waits for itself",
    ),
    (
        "PGLOCK_SLOT",
        "set for the command with --slots: the number of its slot, from 0",
    ),
    (
        "PGLOCK_TOKEN",
        "set for the command with --token: 24 hexadecimal digits that rise with every acquisition",
    ),
    (
        "COLUMNS",
        "how wide the output of list and check is to be, instead of the terminal's width",
    ),
    (
        "NO_COLOR, TERM",
        "list is coloured on a terminal, unless NO_COLOR is set or TERM is dumb",
    ),
];

/// The end of `pglock --help`.
pub fn sections() -> String {
    let list = |title: &str, items: &[(&str, &str)]| {
        items
            .iter()
            .fold(format!("{title}:\n"), |text, (term, meaning)| {
                format!("{text}  {term}\n          {meaning}\n")
            })
    };
    [
        list("Exit status", &EXIT_STATUS),
        list("Environment", &ENVIRONMENT),
    ]
    .join("\n")
}
