//! Where parameters come from, and which source wins.

use std::env;
use std::path::{Path, PathBuf};

use super::conninfo::{self, Parameters};
use super::keywords::KEYWORDS;
use super::{home, service_file};
use crate::cli::ConnectionArgs;
use crate::environment;
use crate::exit::Fault;

/// Where Debian's libpq looks for system-wide files, and what upstream's default prefix gives.
const SYSTEM_DIRECTORIES: [&str; 2] = ["/etc/postgresql-common", "/usr/local/pgsql/etc"];

/// Options, then `PGLOCK_URL`, then the service, then PG* variables, then `DATABASE_URL` if none of these says
/// where to connect.
pub fn gather(args: &ConnectionArgs) -> anyhow::Result<Parameters> {
    let mut parameters = from_options(args)?;
    fill(&mut parameters, from_url("PGLOCK_URL")?);
    let variables = from_variables()?;
    let service = from_service(&parameters, &variables)?;
    fill(&mut parameters, service);
    fill(&mut parameters, variables);
    if !says_where(&parameters) {
        fill(&mut parameters, from_url("DATABASE_URL")?);
        let service = from_service(&parameters, &Parameters::new())?;
        fill(&mut parameters, service);
    }
    Ok(parameters)
}

/// Adds what is not there yet.
fn fill(parameters: &mut Parameters, lower: Parameters) {
    for (name, value) in lower {
        parameters.entry(name).or_insert(value);
    }
}

fn says_where(parameters: &Parameters) -> bool {
    ["host", "hostaddr", "port", "dbname", "service"]
        .iter()
        .any(|name| parameters.get(name).is_some_and(|value| !value.is_empty()))
}

/// As psql: a connection string in -d wins over -h, -p and -U.
fn from_options(args: &ConnectionArgs) -> anyhow::Result<Parameters> {
    let mut parameters = match &args.dbname {
        Some(text) if conninfo::is_conninfo(text) => conninfo::parse("--dbname", text)?,
        Some(name) if !name.is_empty() => Parameters::from([("dbname", name.clone())]),
        Some(_) | None => Parameters::new(),
    };
    let given = [
        ("host", &args.host),
        ("port", &args.port),
        ("user", &args.username),
    ];
    let given = given
        .into_iter()
        .filter_map(|(name, value)| Some((name, value.clone().filter(|value| !value.is_empty())?)));
    fill(&mut parameters, given.collect());
    Ok(parameters)
}

fn from_url(variable: &'static str) -> anyhow::Result<Parameters> {
    match environment::variable(variable)? {
        None => Ok(Parameters::new()),
        Some(text) if conninfo::is_conninfo(&text) => conninfo::parse(variable, &text),
        Some(_) => {
            Err(Fault::Usage.error(format!("{variable} is no PostgreSQL connection string")))
        }
    }
}

fn from_variables() -> anyhow::Result<Parameters> {
    let mut parameters = Parameters::new();
    for keyword in &KEYWORDS {
        let Some(variable) = keyword.variable else {
            continue;
        };
        if let Some(value) = environment::variable(variable)? {
            parameters.insert(keyword.name, value);
        }
    }
    Ok(parameters)
}

/// The parameters of the service that `parameters` names, else `variables`.
fn from_service(parameters: &Parameters, variables: &Parameters) -> anyhow::Result<Parameters> {
    let named = |name| parameters.get(name).or_else(|| variables.get(name));
    let Some(service) = named("service") else {
        return Ok(Parameters::new());
    };
    let users = match named("servicefile") {
        // Only the files in their usual places may be missing.
        Some(file) if !Path::new(file).exists() => {
            return Err(Fault::Usage.error(format!("service file \"{file}\" not found")));
        }
        Some(file) => Some(PathBuf::from(file)),
        None => home::file(".pg_service.conf"),
    };
    let files: Vec<PathBuf> = users.into_iter().chain(system_service_files()).collect();
    service_file::read(service, files.iter().map(PathBuf::as_path))
}

fn system_service_files() -> impl Iterator<Item = PathBuf> {
    let directories = match env::var_os("PGSYSCONFDIR") {
        Some(directory) => vec![PathBuf::from(directory)],
        None => SYSTEM_DIRECTORIES.map(PathBuf::from).to_vec(),
    };
    directories
        .into_iter()
        .map(|directory| directory.join("pg_service.conf"))
}
