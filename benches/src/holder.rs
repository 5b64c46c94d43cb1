//! A program that holds its lock for as long as is wanted.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::processes;

/// Dropped, it lets go and is waited for.
pub struct Holder {
    program: Child,
    /// The process ID of the command that runs under the lock.
    work: u32,
}

impl Holder {
    /// Starts a program with `Work::Stay`, and waits until that runs.
    pub fn start(mut command: Command) -> Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut program = command
            .spawn()
            .with_context(|| format!("{command:?} does not start"))?;
        let output = program.stdout.take().context("its output is a pipe")?;
        // Some say things of their own before.
        let mut lines = BufReader::new(output).lines().map_while(Result::ok);
        let said = lines.find_map(|line| line.trim().parse().ok());
        let mut holder = Self { program, work: 0 };
        let Some(work) = said else {
            bail!("{command:?} did not run its command: {}", holder.end()?);
        };
        holder.work = work;
        Ok(holder)
    }

    /// The program and what it has started beside the command.
    pub fn processes(&self) -> Vec<u32> {
        let mut processes = processes::tree(self.program.id());
        processes.retain(|pid| *pid != self.work);
        processes
    }

    fn end(&mut self) -> Result<std::process::ExitStatus> {
        drop(self.program.stdin.take());
        Ok(self.program.wait()?)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // The end of its input is the command's end. How the program ends then is of no interest.
        let _ = self.end();
    }
}
