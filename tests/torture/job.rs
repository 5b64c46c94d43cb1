//! The job that pglock runs: this program again, which holds the file of its key for as long as it lives.
//!
//! The kernel gives that lock (flock(2)) back in the moment in which the process dies, whatever it dies of. So a job that does not
//! get it has met another job of the same key, and no other way to fail to get it exists.

use std::env::{self, ArgsOs};
use std::error::Error;
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::getpid;

use crate::clock;
use crate::journal::{Event, Journal};
use crate::plan::{JobPlan, Sharing, Style};

/// The first argument of a job.
pub const WORD: &str = "job";

/// How often a job that is not alone looks whether it is by now.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// What a job is told by its arguments.
struct Task {
    journal: PathBuf,
    key_file: PathBuf,
    run: usize,
    sharing: FlockArg,
    is_deaf: bool,
    length: Duration,
    code: u8,
}

/// The words of the command that is this plan's job.
pub fn command(plan: &JobPlan, run: usize, directory: &Path) -> Vec<OsString> {
    let program = env::current_exe().expect("this program is somewhere");
    let sharing = match plan.sharing {
        Sharing::Exclusive => "exclusive",
        Sharing::Shared => "shared",
    };
    let hearing = match plan.style {
        Style::Deaf => "deaf",
        Style::Plain | Style::Shell | Style::DeafShell | Style::Family => "hearing",
    };
    let job: [OsString; 9] = [
        program.into(),
        WORD.into(),
        directory.join("journal").into(),
        directory.join(format!("key-{}", plan.key)).into(),
        run.to_string().into(),
        sharing.into(),
        hearing.into(),
        plan.length.as_millis().to_string().into(),
        plan.code.to_string().into(),
    ];
    // A shell that catches TERM outlives its job, so that the lock does. It says who was killed, which is no message of pglock's.
    let script = match plan.style {
        Style::Plain | Style::Deaf => return job.into(),
        Style::Shell => r#"exec 2>/dev/null; trap : TERM; "$0" "$@"; exit $?"#,
        Style::DeafShell => r#"exec 2>/dev/null; trap "" TERM; "$0" "$@"; exit $?"#,
        Style::Family => {
            r#"exec 2>/dev/null; trap : TERM; setsid sleep 60 & far=$!; sleep 60 & near=$!
               "$0" "$@"; code=$?; kill $far $near; wait; exit $code"#
        }
    };
    let shell = ["sh", "-c", script].map(OsString::from);
    shell.into_iter().chain(job).collect()
}

/// Does what the arguments after [`WORD`] say.
pub fn carry_out(arguments: ArgsOs) -> Result<ExitCode, Box<dyn Error>> {
    let task = Task::read(arguments).ok_or("a job is started by its campaign only")?;
    if task.is_deaf {
        let mut signals = SigSet::empty();
        signals.add(Signal::SIGTERM);
        signals.thread_block()?;
    }
    let mut journal = Journal::open(&task.journal, task.run)?;
    let mut held = task.lock(File::open(&task.key_file)?);
    journal.write(Event::Started {
        process: getpid(),
        backend: env::var("PGLOCK_BACKEND_PID")?.parse()?,
        key: env::var("PGLOCK_KEY")?.parse()?,
        alone: held.is_ok(),
    })?;
    let end = clock::now() + task.length;
    while let Err(file) = held
        && clock::now() < end
    {
        sleep(LOOK_AGAIN);
        held = task.lock(file);
        if held.is_ok() {
            journal.write(Event::Alone)?;
        }
    }
    sleep(end.saturating_sub(clock::now()));
    journal.write(Event::Ended { code: task.code })?;
    Ok(ExitCode::from(task.code))
}

impl Task {
    fn read(arguments: ArgsOs) -> Option<Self> {
        let words: Vec<String> = arguments
            .map(OsString::into_string)
            .collect::<Result<_, _>>()
            .ok()?;
        let [journal, key_file, run, sharing, hearing, length, code] = &words[..] else {
            return None;
        };
        Some(Self {
            journal: journal.into(),
            key_file: key_file.into(),
            run: run.parse().ok()?,
            sharing: match sharing.as_str() {
                "exclusive" => FlockArg::LockExclusiveNonblock,
                "shared" => FlockArg::LockSharedNonblock,
                _ => return None,
            },
            is_deaf: hearing == "deaf",
            length: Duration::from_millis(length.parse().ok()?),
            code: code.parse().ok()?,
        })
    }

    /// Takes the file of the key, or gives it back if another job has it.
    fn lock(&self, file: File) -> Result<Flock<File>, File> {
        Flock::lock(file, self.sharing).map_err(|(file, _)| file)
    }
}
