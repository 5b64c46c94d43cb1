//! How a NAME becomes a key.

use clap::Args;

use super::super::catalogue::{PROGRAMS, SCHEMES};
use super::words::Words;

/// How a NAME becomes a key.
#[derive(Debug, Default, Args)]
pub struct NamingArgs {
    /// Put NAME into this namespace: the two-integer form of the key
    ///
    /// Locks of different namespaces never collide with one another or with plain names, unless both
    /// 32-bit hashes agree. PGLOCK_NAMESPACE in the environment does the same, except that `list` without
    /// NAME is narrowed down to a namespace only by the option.
    #[arg(short = 'N', long, value_name = "NS", conflicts_with = "raw")]
    pub namespace: Option<String>,

    /// NAME is the key itself: a 64-bit integer, or A,B with two 32-bit integers
    ///
    /// Write a pair that begins with a minus sign after --: pglock key --raw -- -1,5
    #[arg(long)]
    pub raw: bool,

    /// Turn NAME into a key as other software does [default: sha256]
    ///
    /// General: sha256, sha256-le, sha224, sha1, sha1-le, md5, hashtext, hashtextextended, crc32, crc32-signed,
    /// fnv1-32, fnv1a-32, fnv1-64, fnv1a-64, java, dotnet, djb2x, djb2x-reversed, blake2b. Those of libraries that lock
    /// by name: advisory-lock, closure-tree, distributed-lock, django-pglock, django-pglocks, heimdall, jakm-pglock,
    /// oca-connector, pals, pg-lock, pglocker, sqlalchemy-dlock, sqlx, symfony, with-advisory-lock, yii. With --namespace
    /// only hashes of 32 bits (NS and NAME are hashed to an int4 each), sha256 and heimdall go. `pglock key --all NAME`
    /// shows what each gives, and pglock(1) says what it is.
    #[arg(
        long,
        value_name = "SCHEME",
        value_parser = Words(schemes),
        hide_possible_values = true,
        conflicts_with = "raw"
    )]
    pub hash: Option<String>,

    /// Take the very lock that this program takes; NAME says for what, or is only a label
    ///
    /// rails-migrations, sqlx-migrate, golang-migrate and grafana lock a database: NAME is the database's name,
    /// which must be the one that is connected to.
    /// flyway and liquibase-sessionlock: SCHEMA,TABLE. Those that have but one lock (prisma-migrate, goose, tern, sqitch,
    /// node-pg-migrate, kysely, ...) take any NAME, as a label. pglock(1) lists all programs and what NAME is to each.
    #[arg(
        long = "as",
        value_name = "PROGRAM",
        value_parser = Words(programs),
        hide_possible_values = true,
        conflicts_with_all = ["raw", "hash", "namespace"]
    )]
    pub program: Option<String>,
}

fn schemes() -> Vec<(&'static str, &'static str)> {
    let words = SCHEMES.iter().map(|scheme| (scheme.word, scheme.gives));
    words.collect()
}

fn programs() -> Vec<(&'static str, &'static str)> {
    let words = PROGRAMS
        .iter()
        .filter_map(|program| Some((program.word?, program.title)));
    words.collect()
}
