//! Where and with what was measured.

use std::fs;
use std::process::Command;
use std::thread::available_parallelism;
use std::time::SystemTime;

use anyhow::Result;
use nix::sys::utsname::uname;
use serde::Serialize;

use crate::options::Options;
use crate::site::Site;

#[derive(Serialize)]
pub struct Machine {
    pub date: String,
    pub processor: String,
    pub processors: usize,
    pub kernel: String,
    /// The mean of the last minute, before anything was measured.
    pub load: f64,
    pub versions: Vec<Version>,
}

#[derive(Serialize)]
pub struct Version {
    pub name: &'static str,
    pub version: String,
}

impl Machine {
    pub fn look(site: &Site, options: &Options) -> Result<Self> {
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let load = load.split(' ').next().and_then(|load| load.parse().ok());
        Ok(Self {
            date: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            processor: processor(),
            processors: available_parallelism()?.get(),
            kernel: uname()?.release().to_string_lossy().into_owned(),
            load: load.unwrap_or(0.0),
            versions: versions(site, options)?,
        })
    }

    pub fn summary(&self) -> String {
        let Self {
            date,
            processor,
            processors,
            kernel,
            load,
            versions,
        } = self;
        let versions: Vec<&str> = versions.iter().map(|each| each.version.as_str()).collect();
        format!(
            "{date}, {processors} x {processor}, Linux {kernel}, load {load}\n{}",
            versions.join("; ")
        )
    }
}

fn versions(site: &Site, options: &Options) -> Result<Vec<Version>> {
    let mut versions = vec![Version {
        name: "server",
        version: format!("PostgreSQL {}", site.ask("SHOW server_version")?),
    }];
    let mut programs = vec![
        ("pglock", Command::new(&site.pglock), "--version"),
        ("psql", Command::new(&site.psql), "--version"),
        ("flock", Command::new("flock"), "--version"),
    ];
    if let Some(binary) = &options.other_build {
        programs.push(("pglock (static)", Command::new(binary), "--version"));
    }
    if site.etcd.is_some() {
        programs.push(("etcdctl", Command::new("etcdctl"), "version"));
    }
    if site.peers.is_some() {
        programs.push(("node", Command::new("node"), "--version"));
        programs.push(("python", Command::new("python3"), "--version"));
    }
    for (name, mut program, option) in programs {
        let output = program.arg(option).output()?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = said.lines().next().unwrap_or_default();
        // Of most the line names the program.
        let version = if line.contains(|letter: char| letter.is_ascii_alphabetic() && letter != 'v')
        {
            line.to_owned()
        } else {
            format!("{name} {line}")
        };
        versions.push(Version { name, version });
    }
    Ok(versions)
}

fn processor() -> String {
    let known = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = known.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "model name").then(|| value.trim().to_owned())
    });
    name.unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}
