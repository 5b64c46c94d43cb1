//! Who takes part in a soak, and how each of them calls pglock.

use crate::options::Crew;

/// Several heartbeats between two samples, and no more than two busy cores can answer in time.
const LEASE: [&str; 2] = ["--lease", "6s"];

/// One after the other, for as many holders as there are.
const KINDS: [Kind; 8] = [
    Kind::Plain,
    Kind::Transaction,
    Kind::Plain,
    Kind::SharedHolder,
    Kind::Plain,
    Kind::SharedWaiters,
    Kind::Plain,
    Kind::Slots,
];

/// How many hold a lock with slots, each of them one.
const SLOTS: usize = 2;

/// How a lock is held and waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Plain,
    Transaction,
    SharedHolder,
    SharedWaiters,
    Slots,
}

/// What a pglock is here for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Holder,
    Waiter,
}

/// What lies between a pglock and the server.
#[derive(Clone, Copy, Debug)]
pub enum Line {
    Socket,
    Tcp,
}

/// One pglock to start.
#[derive(Debug)]
pub struct Part {
    /// Which lock, by its number.
    pub lock: usize,
    pub line: Line,
    pub arguments: Vec<String>,
}

/// The locks, and how many hold each.
pub struct Plan {
    locks: Vec<(Kind, usize)>,
    crew: Crew,
}

impl Plan {
    pub fn of(crew: Crew) -> Self {
        let (mut locks, mut left) = (Vec::new(), crew.holders);
        for kind in KINDS.into_iter().cycle() {
            let holders = if kind == Kind::Slots { SLOTS } else { 1 }.min(left);
            if holders == 0 {
                break;
            }
            left -= holders;
            locks.push((kind, holders));
        }
        Self { locks, crew }
    }

    /// Those who have to hold all locks before anybody waits.
    pub fn holders(&self) -> Vec<Part> {
        let locks = self.locks.iter().enumerate();
        let each = locks.flat_map(|(lock, (_, holders))| std::iter::repeat_n(lock, *holders));
        each.enumerate()
            .map(|(number, lock)| self.part(lock, Role::Holder, number))
            .collect()
    }

    /// Those who wait, spread evenly over the locks.
    pub fn waiters(&self) -> Vec<Part> {
        let numbers = 0..self.crew.waiters;
        let count = self.locks.len();
        numbers
            .map(|number| self.part(number % count, Role::Waiter, number + number / count))
            .collect()
    }

    fn part(&self, lock: usize, role: Role, number: usize) -> Part {
        let (kind, holders) = self.locks[lock];
        let slots = holders.to_string();
        let options: &[&str] = match (kind, role) {
            (Kind::Transaction, _) => &["--scope", "transaction"],
            (Kind::SharedHolder, Role::Holder) | (Kind::SharedWaiters, Role::Waiter) => {
                &["--shared"]
            }
            (Kind::Slots, _) => &["--slots", &slots],
            (Kind::Plain, _)
            | (Kind::SharedHolder, Role::Waiter)
            | (Kind::SharedWaiters, Role::Holder) => &[],
        };
        let name = format!("soak-{lock}");
        let words = ["run"].iter().chain(&LEASE).chain(options);
        // It proves that it runs by repeating a line, and stays until its standard input ends.
        let command = [&*name, "--", "cat"];
        Part {
            lock,
            line: if number.is_multiple_of(2) {
                Line::Socket
            } else {
                Line::Tcp
            },
            arguments: words
                .chain(&command)
                .map(|word| (*word).to_owned())
                .collect(),
        }
    }
}
