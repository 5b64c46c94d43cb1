//! Where parameters come from, and which source wins.

use std::env;
use std::path::{Path, PathBuf};

use super::conninfo::{self, Parameters};
use super::keywords::KEYWORDS;
use super::template::{self, Subject};
use super::{home, service_file};
use crate::cli::ConnectionArgs;
use crate::environment;
use crate::exit::Fault;

/// Where Debian's libpq looks for system-wide files, and what upstream's default prefix gives.
const SYSTEM_DIRECTORIES: [&str; 2] = ["/etc/postgresql-common", "/usr/local/pgsql/etc"];

const DBNAME: &str = "--dbname";
const PGLOCK_URL: &str = "PGLOCK_URL";
const DATABASE_URL: &str = "DATABASE_URL";

/// Options, then `PGLOCK_URL`, then the service, then PG* variables, then `DATABASE_URL` if none of these says
/// where to connect. Only `--dbname` and `PGLOCK_URL` may be templates.
pub fn gather(args: &ConnectionArgs, subject: Subject<'_>) -> anyhow::Result<Parameters> {
    let mut parameters = from_options(args, subject)?;
    if let Some(template) = environment::variable(PGLOCK_URL)? {
        let text = template::with_shard(&template, subject.number).map_err(of(PGLOCK_URL))?;
        fill(&mut parameters, from_url(PGLOCK_URL, &text)?)?;
    }
    template::fill(&mut parameters, subject.namespace)?;
    let variables = from_variables()?;
    let service = from_service(&parameters, &variables)?;
    fill(&mut parameters, service)?;
    fill(&mut parameters, variables)?;
    if !says_where(&parameters) {
        if let Some(text) = environment::variable(DATABASE_URL)? {
            fill(&mut parameters, from_url(DATABASE_URL, &text)?)?;
        }
        let service = from_service(&parameters, &Parameters::new())?;
        fill(&mut parameters, service)?;
    }
    Ok(parameters)
}

/// A URI where a name belongs would be quoted in the error that follows, with its password.
fn refuse_misplaced_uris(parameters: &Parameters) -> anyhow::Result<()> {
    for name in ["host", "dbname"] {
        if parameters
            .get(name)
            .is_some_and(|value| value.contains(":/"))
        {
            return Err(Fault::Usage.error(format!(
                "{name} holds a URI that is none of PostgreSQL's: postgres://… and postgresql://…, with -d"
            )));
        }
    }
    Ok(())
}

/// How many [`Subject::number`]s, from 0, lead to every place that there is.
pub fn period(args: &ConnectionArgs) -> anyhow::Result<u64> {
    let of_option = args.dbname.as_deref().map_or(Ok(1), template::period);
    let of_option = of_option.map_err(of(DBNAME))?;
    let url = environment::variable(PGLOCK_URL)?;
    let of_url = url.as_deref().map_or(Ok(1), template::period);
    let both = of_url.and_then(|of_url| template::common_multiple(of_option, of_url));
    both.map_err(of(PGLOCK_URL))
}

/// Says where a fault is.
fn of(source: &str) -> impl Fn(String) -> anyhow::Error {
    move |fault| Fault::Usage.error(format!("{source}: {fault}"))
}

/// Adds what is not there yet.
fn fill(parameters: &mut Parameters, lower: Parameters) -> anyhow::Result<()> {
    refuse_misplaced_uris(&lower)?;
    for (name, value) in lower {
        parameters.entry(name).or_insert(value);
    }
    Ok(())
}

fn says_where(parameters: &Parameters) -> bool {
    ["host", "hostaddr", "port", "dbname", "service"]
        .iter()
        .any(|name| parameters.get(name).is_some_and(|value| !value.is_empty()))
}

/// As psql: a connection string in -d wins over -h, -p and -U.
fn from_options(args: &ConnectionArgs, subject: Subject<'_>) -> anyhow::Result<Parameters> {
    let dbname = args.dbname.as_deref();
    let dbname = dbname.map(|template| template::with_shard(template, subject.number));
    let mut parameters = Parameters::new();
    match dbname.transpose().map_err(of(DBNAME))? {
        Some(text) if conninfo::is_conninfo(&text) => {
            fill(&mut parameters, conninfo::parse(DBNAME, &text)?)?;
        }
        Some(name) if !name.is_empty() => {
            fill(&mut parameters, Parameters::from([("dbname", name)]))?;
        }
        Some(_) | None => {}
    }
    let given = [
        ("host", &args.host),
        ("port", &args.port),
        ("user", &args.username),
    ];
    let given = given
        .into_iter()
        .filter_map(|(name, value)| Some((name, value.clone().filter(|value| !value.is_empty())?)));
    fill(&mut parameters, given.collect())?;
    Ok(parameters)
}

fn from_url(variable: &str, text: &str) -> anyhow::Result<Parameters> {
    if conninfo::is_conninfo(text) {
        return conninfo::parse(variable, text);
    }
    Err(Fault::Usage.error(format!(
        "{variable} is no PostgreSQL connection string; write postgres://USER@HOST/DATABASE or host=HOST dbname=DATABASE"
    )))
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
