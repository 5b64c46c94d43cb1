//! What other software takes for its locks: plain data, and the types that it is written in.
//!
//! The command line reads the words from here, [`crate::key`] the formulas, and `list` the titles.

mod programs;
mod schemes;

pub use self::programs::PROGRAMS;
pub use self::schemes::SCHEMES;

/// A way from a NAME to a key that more than one program may use: a value of `--hash`.
#[derive(Debug)]
pub struct Scheme {
    /// What `--hash` calls it.
    pub word: &'static str,
    /// The key in one line, for help and manual page.
    pub gives: &'static str,
    pub hash: Hash,
    /// Where the derivation stands.
    #[allow(dead_code, reason = "whoever doubts the row looks there")]
    pub source: &'static str,
    #[allow(dead_code, reason = "tests compute them")]
    pub vectors: &'static [Vector],
}

/// A NAME, and its key as `pglock key` prints it.
pub type Vector = (&'static str, &'static str);

/// Software with keys of its own: a value of `--as`, and what `list` recognises.
#[derive(Debug)]
pub struct Program {
    /// What `--as` calls it; `None` where NAME cannot decide the key, or another row with that word is the newer.
    pub word: Option<&'static str>,
    /// What `list` calls it.
    pub title: &'static str,
    /// What NAME holds, separated by commas; without any NAME is only a label.
    pub parameters: &'static [Parameter],
    pub formula: Formula,
    pub evidence: Evidence,
    /// Where the derivation stands.
    #[allow(dead_code, reason = "whoever doubts the row looks there")]
    pub source: &'static str,
    #[allow(dead_code, reason = "tests compute them")]
    pub vectors: &'static [Vector],
}

/// What a part of NAME is, and what it is where NAME leaves it out.
pub type Parameter = (&'static str, Option<&'static str>);

/// What a key that fits says of its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// Nobody else has it, but by a chance of one in billions.
    Sure,
    /// A small number, one that others take too, or the hash of 32 bits of a word that others may choose.
    Maybe,
    /// The key alone says nothing.
    None,
}

/// How a program's key comes about. `{0}` in a text stands for the first parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Formula {
    /// Always this one.
    Constant(i64),
    ConstantPair(i32, i32),
    /// One for each of these names, which NAME must be one of.
    Named(&'static [(&'static str, i64)]),
    /// The second half for each of these names, behind one first half.
    NamedPair(i32, &'static [(&'static str, i32)]),
    /// The hash of a text.
    Hashed(Hash, &'static str),
    /// A constant, and the hash of a text.
    ClassAndHash(i32, Hash, &'static str),
    /// The hashes of two texts.
    TwoHashes(Hash, &'static str, &'static str),
    /// A number plus the hash of a text.
    Plus(i64, Hash, &'static str),
    /// A number plus the absolute value of the hash of a text.
    PlusAbsolute(i64, Hash, &'static str),
    /// The negated hash of a text.
    Negated(Hash, &'static str),
    /// The CRC-32 of a text times a number.
    CrcTimes(i64, &'static str),
    /// The CRC-32 of a text times golang-migrate's salt, modulo 2^32.
    SaltedCrc(&'static str),
    /// The first 4 bytes of a text's SHA-256, as an unsigned number.
    Sha256Word(&'static str),
    /// The first 10 decimal digits in the hexadecimal MD5 of a text.
    Md5Digits(&'static str),
    /// The first and the last 4 characters of a text, as they are.
    Ends(&'static str),
    /// Erlang's hash of what Ecto's migrations lock: the first parameter is a module, the second a text or nil.
    Ecto,
    /// A constant, and the oid of a table less 2^31.
    ClassAndOid(i32),
    /// A constant, and a number that only the program knows.
    Class(i32),
    /// Any with one of these tags, which only code within the server can lock with.
    Tag(&'static [u16]),
    /// Any that a scheme gives.
    Library(Hash),
}

/// How a text becomes a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hash {
    Sha256,
    Sha256Little,
    Sha256Words,
    Sha224,
    Sha1,
    Sha1Little,
    Md5,
    Hashtext,
    HashtextExtended,
    Crc32,
    Crc32Signed,
    Fnv1x32,
    Fnv1ax32,
    Fnv1x64,
    Fnv1ax64,
    Java,
    Dotnet,
    Djb2x,
    Djb2xReversed,
    Blake2b,
    WithAdvisoryLock,
    DistributedLock,
    Sqlx,
    Yii,
    PgLock,
    Heimdall,
    JakmPglock,
    ClosureTree,
}

impl Scheme {
    pub fn of(word: &str) -> Option<&'static Self> {
        SCHEMES.iter().find(|scheme| scheme.word == word)
    }
}

impl Program {
    pub fn of(word: &str) -> Option<&'static Self> {
        PROGRAMS.iter().find(|program| program.word == Some(word))
    }

    /// Whether each database has a lock of its own by its name.
    pub fn is_per_database(&self) -> bool {
        self.parameters.iter().any(|(name, _)| *name == "DATABASE")
    }

    /// What NAME is to hold, as help shows it: `DATABASE[,SCHEMA[,TABLE]]`.
    pub fn usage(&self) -> String {
        let one_of = |words: Vec<&str>| format!("one of {}", words.join(", "));
        match self.formula {
            Formula::Named(names) => one_of(names.iter().map(|(name, _)| *name).collect()),
            Formula::NamedPair(_, names) => one_of(names.iter().map(|(name, _)| *name).collect()),
            _ if self.parameters.is_empty() => "any label".to_owned(),
            _ => self.optional_parameters(),
        }
    }

    fn optional_parameters(&self) -> String {
        let mut usage = String::new();
        for (at, (name, _)) in self.parameters.iter().enumerate() {
            usage += if at == 0 { "" } else { "[," };
            usage += name;
        }
        usage + &"]".repeat(self.parameters.len() - 1)
    }
}
