//! `pglock key`: the keys of names, without a server.

use std::collections::HashMap;
use std::io::Read as _;
use std::path::Path;
use std::{fs, io};

use anyhow::Context as _;

use crate::catalogue::SCHEMES;
use crate::cli::KeyArgs;
use crate::exit::{Fault, Outcome};
use crate::key::{Lock, LockKey, Rule};
use crate::naming::Naming;
use crate::output::{self, Look, keys};
use crate::text::{self, printable};

pub fn key(args: &KeyArgs) -> anyhow::Result<Outcome> {
    let naming = Naming::resolve(&args.naming)?;
    if let Some(file) = &args.check {
        return check(&naming, file);
    }
    if args.all {
        return all(&naming, &args.name);
    }
    let keys = args
        .name
        .iter()
        .map(|name| Ok(naming.lock(name)?.key.to_string()));
    let keys = keys.collect::<anyhow::Result<Vec<String>>>()?;
    output::write(&(keys.join("\n") + "\n"))?;
    Ok(Outcome::Done)
}

/// What each scheme makes of the one name.
fn all(naming: &Naming, names: &[String]) -> anyhow::Result<Outcome> {
    let [name] = names else {
        return Err(Fault::Usage.error("--all shows the keys of one NAME"));
    };
    naming.lock(name)?;
    let keys = SCHEMES.iter().filter_map(|scheme| {
        let key = Rule::Hash(scheme).key(naming.namespace(), name).ok()?;
        Some([
            scheme.word.to_owned(),
            key.to_string(),
            key.form().to_owned(),
        ])
    });
    output::write(&keys::render(keys, Look::of_terminal()))?;
    Ok(Outcome::Done)
}

/// The pairs of different locks that have one key by chance, in the order of the file.
fn check(naming: &Naming, file: &Path) -> anyhow::Result<Outcome> {
    let text = read(file)?;
    let mut owners: HashMap<LockKey, Vec<Lock>> = HashMap::new();
    let mut found = String::new();
    for (at, line) in text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.is_empty())
    {
        let lock = naming
            .lock(line)
            .with_context(|| format!("{}, line {}", file.display(), at + 1))?;
        let owners = owners.entry(lock.key).or_default();
        if owners.contains(&lock) {
            continue;
        }
        for other in owners.iter().filter(|other| other.collides_with(&lock)) {
            let pair = format!("{other} and {lock} share key {}", lock.key);
            found += &(printable(&pair) + "\n");
        }
        owners.push(lock);
    }
    output::write(&found)?;
    Ok(if found.is_empty() {
        Outcome::Done
    } else {
        Outcome::KeysShared
    })
}

fn read(file: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    let read = if file == Path::new("-") {
        io::stdin().read_to_string(&mut text).map(drop)
    } else {
        fs::read_to_string(file).map(|read| text = read)
    };
    read.map_err(|error| {
        let why = text::of_io(&error);
        Fault::Usage.error(format!("reading {}: {why}", file.display()))
    })?;
    Ok(text)
}
