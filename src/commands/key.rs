//! `pglock key`: the key of a name, without a server.

use crate::cli::KeyArgs;
use crate::exit::Outcome;
use crate::naming::Naming;
use crate::output;

pub fn key(args: &KeyArgs) -> anyhow::Result<Outcome> {
    let naming = Naming::resolve(&args.naming)?;
    let keys = args
        .name
        .iter()
        .map(|name| Ok(naming.lock(name)?.key.to_string()));
    let keys = keys.collect::<anyhow::Result<Vec<String>>>()?;
    output::write(&(keys.join("\n") + "\n"))?;
    Ok(Outcome::Done)
}
