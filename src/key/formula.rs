//! From the parameters of a program to its key.

use md5::{Digest as _, Md5};
use sha2::Sha256;

use super::hash::{half, key as hashed};
use super::phash2::{Term, phash2};
use super::{LockKey, leading};
use crate::catalogue::{Formula, Hash, Parameter, Program};

/// What golang-migrate multiplies a CRC-32 with.
const SALT: u32 = 1_486_364_155;

impl Program {
    /// The key for what NAME says; why there is none, in words for the user.
    pub fn key(&self, name: &str) -> Result<LockKey, String> {
        let unfit = |why: String| {
            let word = self.word.unwrap_or(self.title);
            format!("--as {word}: {why}; NAME is {}", self.usage())
        };
        let values = self.values(name).map_err(unfit)?;
        self.key_of(name, &values)
            .ok_or_else(|| unfit("that has no key".to_owned()))
    }

    /// The key where everything is as the program has it by default; for those with one per database, in `database`.
    pub fn default_key(&self, database: Option<&str>) -> Option<LockKey> {
        let mut defaults = Vec::new();
        for (name, default) in self.parameters {
            defaults.push(if *name == "DATABASE" {
                database?
            } else {
                (*default)?
            });
        }
        self.key_of("", &defaults)
    }

    /// The parts of NAME, or their defaults; without parameters there are none.
    pub fn values<'a>(&self, name: &'a str) -> Result<Vec<&'a str>, String> {
        let [only_or_first, more @ ..] = self.parameters else {
            return Ok(Vec::new());
        };
        if more.is_empty() {
            return Ok(vec![name]);
        }
        let mut parts = name.split(',');
        let mut value = |(parameter, default): &Parameter| match parts.next() {
            Some("") => Err(format!("{parameter} is empty")),
            Some(value) => Ok(value),
            None => default.ok_or_else(|| format!("{parameter} is missing")),
        };
        let mut values = vec![value(only_or_first)?];
        for parameter in more {
            values.push(value(parameter)?);
        }
        match parts.next() {
            Some(_) => Err("it has too many parts".to_owned()),
            None => Ok(values),
        }
    }

    fn key_of(&self, name: &str, values: &[&str]) -> Option<LockKey> {
        let filled = |text: &str| filled(text, values);
        let number = |hash: Hash, text: &str| match hashed(hash, None, &filled(text))? {
            LockKey::Bigint(number) => Some(number),
            LockKey::Pair(..) => None,
        };
        let crc = |text: &str| crc32fast::hash(filled(text).as_bytes());
        Some(match self.formula {
            Formula::Constant(key) => LockKey::Bigint(key),
            Formula::ConstantPair(first, second) => LockKey::Pair(first, second),
            Formula::Named(names) => LockKey::Bigint(named(names, name)?),
            Formula::NamedPair(class, names) => LockKey::Pair(class, named(names, name)?),
            Formula::Hashed(hash, text) => hashed(hash, None, &filled(text))?,
            Formula::ClassAndHash(class, hash, text) => {
                LockKey::Pair(class, half(hash, &filled(text))?)
            }
            Formula::TwoHashes(hash, first, second) => {
                LockKey::Pair(half(hash, &filled(first))?, half(hash, &filled(second))?)
            }
            Formula::Plus(base, hash, text) => LockKey::Bigint(base + number(hash, text)?),
            Formula::PlusAbsolute(base, hash, text) => {
                LockKey::Bigint(base + number(hash, text)?.abs())
            }
            Formula::Negated(hash, text) => LockKey::Bigint(-number(hash, text)?),
            Formula::CrcTimes(factor, text) => LockKey::Bigint(factor * i64::from(crc(text))),
            Formula::SaltedCrc(text) => LockKey::Bigint(crc(text).wrapping_mul(SALT).into()),
            Formula::Sha256Word(text) => {
                let digest = Sha256::digest(filled(text));
                LockKey::Bigint(u32::from_be_bytes(leading(&digest)).into())
            }
            Formula::Md5Digits(text) => LockKey::Bigint(md5_digits(&filled(text))?),
            Formula::Ends(text) => LockKey::Bigint(ends(&filled(text))?),
            Formula::Ecto => LockKey::Bigint(ecto(values[0], values[1])?.into()),
            Formula::ClassAndOid(class) => {
                let oid: u32 = filled("{0}").parse().ok()?;
                LockKey::Pair(class, (oid ^ (1 << 31)).cast_signed())
            }
            Formula::Class(_) | Formula::Tag(_) | Formula::Library(_) => return None,
        })
    }
}

/// The text with the parameters in it; what they hold is not read again.
fn filled(text: &str, values: &[&str]) -> String {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        filled += before;
        let Some((at, after)) = after.split_once('}') else {
            break;
        };
        let value = at.parse().ok().and_then(|at: usize| values.get(at));
        filled += value.copied().unwrap_or_default();
        rest = after;
    }
    filled + rest
}

fn named<T: Copy>(names: &[(&str, T)], wanted: &str) -> Option<T> {
    let found = names.iter().find(|(name, _)| *name == wanted);
    found.map(|(_, key)| *key)
}

fn md5_digits(text: &str) -> Option<i64> {
    let digest = Md5::digest(text);
    let hexadecimal = digest.iter().map(|byte| format!("{byte:02x}"));
    let digits = hexadecimal.collect::<String>();
    let digits = digits.chars().filter(char::is_ascii_digit).take(10);
    digits.collect::<String>().parse().ok()
}

/// An Elixir module is an atom with a prefix; others than ASCII ones are not known here.
fn ecto(module: &str, prefix: &str) -> Option<u32> {
    let prefix = match prefix {
        "nil" => Term::Atom(prefix),
        text => Term::Binary(text),
    };
    let atom = format!("Elixir.{module}");
    let tuple = [Term::Atom("ecto"), prefix, Term::Atom(&atom)];
    module.is_ascii().then(|| phash2(&tuple))
}

fn ends(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    let (first, last) = (bytes.first_chunk::<4>()?, bytes.last_chunk::<4>()?);
    let whole = [u32::from_be_bytes(*first), u32::from_be_bytes(*last)].map(u64::from);
    Some(((whole[0] << 32) | whole[1]).cast_signed())
}
