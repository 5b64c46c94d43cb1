//! Whose key it is, as far as key and database tell: the index over [`crate::catalogue`].

use std::collections::HashMap;
use std::fmt;

use serde::{Serialize, Serializer};

use crate::catalogue::{Evidence, Formula, Hash, PROGRAMS, Program};
use crate::key::{LockKey, ShownKey, name_in_distributed_lock};

/// The software that a key may belong to, by the best evidence that there is: one, or several that are possible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The last in the order in which they are told.
    title: &'static str,
    /// Others, for whom as much speaks.
    others: Vec<&'static str>,
    has_sure_evidence: bool,
    /// The lock's name to a possible owner, where the key holds it.
    name: Option<String>,
}

/// Where to look keys up; what a database decides is computed once for each.
pub struct Owners {
    keys: HashMap<LockKey, Vec<&'static Program>>,
    keys_of_databases: HashMap<String, HashMap<LockKey, Vec<&'static Program>>>,
    /// Whose keys have something in common.
    patterns: Vec<&'static Program>,
}

/// `with_advisory_lock` hashes: what is below is a small number that somebody chose.
const SMALLEST_HASH: i32 = 1 << 16;

impl Owners {
    pub fn new() -> Self {
        Self {
            keys: index(None),
            keys_of_databases: HashMap::new(),
            patterns: PROGRAMS
                .iter()
                .filter(|program| has_pattern(program))
                .collect(),
        }
    }

    /// Whose key this is in `database`; `None` if nothing is known of it.
    pub fn of(&mut self, key: ShownKey, database: Option<&str>) -> Option<Owner> {
        let mut owner = None;
        let typed = key.in_sql();
        for program in typed
            .and_then(|key| self.keys.get(&key))
            .into_iter()
            .flatten()
        {
            Owner::add(&mut owner, program.title, program.evidence);
        }
        if let Some((key, database)) = typed.zip(database) {
            for program in self.keys_of(database).get(&key).into_iter().flatten() {
                Owner::add(&mut owner, program.title, program.evidence);
            }
        }
        for program in &self.patterns {
            Owner::add_by_pattern(&mut owner, program, key);
        }
        owner
    }

    fn keys_of(&mut self, database: &str) -> &HashMap<LockKey, Vec<&'static Program>> {
        if !self.keys_of_databases.contains_key(database) {
            let keys = index(Some(database));
            self.keys_of_databases.insert(database.to_owned(), keys);
        }
        &self.keys_of_databases[database]
    }
}

fn has_pattern(program: &Program) -> bool {
    matches!(
        program.formula,
        Formula::Class(_)
            | Formula::ClassAndHash(..)
            | Formula::ClassAndOid(_)
            | Formula::Plus(..)
            | Formula::Tag(_)
            | Formula::Library(_)
    )
}

/// Every key that a program has by default: everywhere, or in this database alone.
fn index(database: Option<&str>) -> HashMap<LockKey, Vec<&'static Program>> {
    let mut index: HashMap<LockKey, Vec<&'static Program>> = HashMap::new();
    for program in PROGRAMS {
        if program.evidence == Evidence::None || program.is_per_database() != database.is_some() {
            continue;
        }
        let named: Vec<LockKey> = match program.formula {
            Formula::Named(names) => names.iter().map(|(_, key)| LockKey::Bigint(*key)).collect(),
            Formula::NamedPair(class, names) => {
                let pair = |(_, second): &(&str, i32)| LockKey::Pair(class, *second);
                names.iter().map(pair).collect()
            }
            _ => program.default_key(database).into_iter().collect(),
        };
        for key in named {
            index.entry(key).or_default().push(program);
        }
    }
    index
}

impl Owner {
    pub fn add(owner: &mut Option<Self>, title: &'static str, evidence: Evidence) {
        let has_sure_evidence = match evidence {
            Evidence::Sure => true,
            Evidence::Maybe => false,
            Evidence::None => return,
        };
        match owner {
            Some(known) if known.has_sure_evidence && !has_sure_evidence => {}
            Some(known) if known.has_sure_evidence == has_sure_evidence => {
                let other = if title > known.title {
                    std::mem::replace(&mut known.title, title)
                } else {
                    title
                };
                if other != known.title
                    && let Err(place) = known.others.binary_search(&other)
                {
                    known.others.insert(place, other);
                }
            }
            Some(_) | None => {
                *owner = Some(Self {
                    title,
                    others: Vec::new(),
                    has_sure_evidence,
                    name: None,
                });
            }
        }
    }

    pub fn is_sure(&self) -> bool {
        self.has_sure_evidence && self.others.is_empty()
    }

    /// What all keys of a program have in common.
    fn add_by_pattern(owner: &mut Option<Self>, program: &Program, key: ShownKey) {
        let mut in_key = None;
        let fits = match (program.formula, key) {
            (
                Formula::Class(class)
                | Formula::ClassAndHash(class, ..)
                | Formula::ClassAndOid(class),
                ShownKey::Lock(LockKey::Pair(first, _)),
            ) => first == class,
            // The hash is one of 32 bits.
            (Formula::Plus(base, ..), ShownKey::Lock(LockKey::Bigint(key))) => {
                i32::try_from(key.wrapping_sub(base)).is_ok()
            }
            (
                Formula::Library(Hash::WithAdvisoryLock),
                ShownKey::Lock(LockKey::Pair(first, second)),
            ) => first >= SMALLEST_HASH && second == 0,
            (
                Formula::Library(Hash::DistributedLock),
                ShownKey::Lock(LockKey::Pair(first, second)),
            ) => {
                in_key = name_in_distributed_lock(first, second);
                in_key.is_some()
            }
            (Formula::Tag(tags), ShownKey::Extension(.., tag)) => tags.contains(&tag),
            _ => false,
        };
        if fits {
            Self::add(owner, program.title, program.evidence);
        }
        if let Some(owner) = owner {
            owner.name = in_key.or(owner.name.take());
        }
    }
}

/// `Prisma Migrate`, `possibly Airflow or SpiceDB`, `possibly DistributedLock (my_lock)`.
impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_sure() {
            return f.write_str(self.title);
        }
        f.write_str("possibly ")?;
        if !self.others.is_empty() {
            write!(f, "{} or ", self.others.join(", "))?;
        }
        f.write_str(self.title)?;
        match &self.name {
            Some(name) if !self.has_sure_evidence => write!(f, " ({name})"),
            _ => Ok(()),
        }
    }
}

impl Serialize for Owner {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(key: &str, database: &str) -> Option<String> {
        let key: LockKey = key.parse().expect("a key");
        let owner = Owners::new().of(key.into(), Some(database))?;
        Some(owner.to_string())
    }

    #[test]
    fn every_vector_of_a_program_that_can_be_known_leads_back_to_it() {
        for program in PROGRAMS {
            for (name, key) in program.vectors {
                let values = program.values(name).expect("a vector");
                let is_default =
                    program
                        .parameters
                        .iter()
                        .zip(&values)
                        .all(|((parameter, default), value)| {
                            *parameter == "DATABASE" || *default == Some(*value)
                        });
                let is_known = is_default || has_pattern(program);
                if program.evidence == Evidence::None || !is_known {
                    continue;
                }
                let database = values.first().copied().unwrap_or("elsewhere");
                let found = owner(key, database).unwrap_or_default();
                assert!(
                    found.contains(program.title),
                    "{name} of {} is taken for '{found}'",
                    program.title
                );
            }
        }
    }

    #[test]
    fn what_is_sure_is_said_and_what_several_take_is_possible() {
        for (key, database, known) in [
            ("72707369", "x", "Prisma Migrate"),
            ("4615154450383096620", "app_production", "Rails migrations"),
            ("2307577224067799112", "app_production", "sqlx migrate"),
            ("1005908165", "app_production", "golang-migrate"),
            (
                "2783953652",
                "app_production",
                "possibly Grafana or golang-migrate",
            ),
            ("77430801598678", "x", "Flyway"),
            (
                "-8525285245963000605",
                "x",
                "possibly Supabase Storage or postgres-migrations",
            ),
            ("1", "x", "possibly Airflow, Coder or SpiceDB"),
            // What Symfony's lock of that name has, too.
            ("4097083626", "x", "possibly goose"),
            ("832201495", "x", "possibly Wolverine"),
            ("16185446,-2147467264", "x", "pg_repack"),
            ("1202238042,0", "x", "possibly with_advisory_lock"),
            (
                "-605618483,-118112257",
                "x",
                "possibly DistributedLock (my_lock)",
            ),
            ("0,42", "x", "possibly Pulp"),
        ] {
            assert_eq!(owner(key, database).as_deref(), Some(known), "{key}");
        }
    }

    #[test]
    fn the_locks_of_extensions_are_known_by_their_tags() {
        for (tag, known) in [
            (5, Some("possibly Citus")),
            (10, Some("possibly Citus or pg_auto_failover")),
            (11, Some("possibly pg_auto_failover")),
            (29_749, Some("TimescaleDB")),
            (3, None),
        ] {
            let owner = Owners::new().of(ShownKey::Extension(0, 42, tag), Some("x"));
            let owner = owner.map(|owner| owner.to_string());
            assert_eq!(owner.as_deref(), known, "{tag}");
        }
    }

    #[test]
    fn chance_and_small_numbers_name_nobody_with_certainty() {
        for key in -2000..200_000 {
            let found = owner_of(LockKey::Bigint(key));
            assert!(found.is_none_or(|owner| !owner.is_sure()), "{key}");
        }
        for first in -100..100 {
            for second in -100..100 {
                let found = owner_of(LockKey::Pair(first, second));
                assert!(
                    found.is_none_or(|owner| !owner.is_sure()),
                    "{first},{second}"
                );
            }
        }
        // Another database's Rails, and a multiple of its salt by chance.
        assert_eq!(owner("4615154450383096620", "other"), None);
        assert_eq!(owner("2053462845", "other"), None);
        let mut owners = Owners::new();
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..100_000 {
            let keys = [
                LockKey::Bigint(random.i64(..)),
                LockKey::Bigint(random.u32(..).into()),
                LockKey::Pair(random.i32(..), random.i32(..)),
            ];
            for key in keys {
                let found = owners.of(key.into(), Some("app_production"));
                assert!(found.is_none_or(|owner| !owner.is_sure()), "{key}");
            }
        }
    }

    fn owner_of(key: LockKey) -> Option<Owner> {
        thread_local! {
            static OWNERS: std::cell::RefCell<Owners> = Owners::new().into();
        }
        OWNERS.with_borrow_mut(|owners| owners.of(key.into(), Some("x")))
    }
}
