//! A worker: one run of pglock after the other, on one post.

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::clock;
use crate::job;
use crate::plan::{JobPlan, Sharing, Verb};
use crate::run::{End, Runs};
use crate::testbed::{MARK, Testbed};
use crate::way::Post;

/// How often to look whether pglock has ended: bounds the error of [`End::at`].
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Longer than any run takes that is as it should be.
const LIMIT: Duration = Duration::from_secs(60);

/// The shortest lease, so that what happens when it runs out happens often.
const LEASE: [&str; 4] = ["--lease", "3s", "--grace", "500ms"];

/// Runs these jobs, one after the other, until it is time to end.
pub fn work(
    testbed: &Testbed,
    runs: &Runs,
    post: Post,
    plans: impl Iterator<Item = JobPlan>,
) -> io::Result<()> {
    for plan in plans {
        if testbed.is_over() {
            break;
        }
        let id = runs.start(post.way, plan, |id| spawn(testbed, post, &plan, id))?;
        let started = clock::now();
        let status = loop {
            if let Some(status) = runs.reap(id)? {
                break status;
            }
            if clock::since(started) > LIMIT {
                return Err(io::Error::other(format!(
                    "run {id} has not ended in {LIMIT:?}"
                )));
            }
            sleep(LOOK_AGAIN);
        };
        let at = clock::now();
        let file = stderr_file(testbed, id);
        let stderr = String::from_utf8_lossy(&fs::read(&file)?).into_owned();
        fs::remove_file(file)?;
        runs.conclude(id, End { at, status, stderr });
    }
    Ok(())
}

fn spawn(testbed: &Testbed, post: Post, plan: &JobPlan, id: usize) -> io::Result<Child> {
    let mut pglock = testbed
        .pglock(post.way)
        .env(MARK, testbed.mark())
        .args(arguments(post, plan))
        .arg(format!("torture-{}", plan.key))
        .args(job::command(plan, id, testbed.directory()));
    pglock
        .command()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(stderr_file(testbed, id))?)
        .spawn()
}

fn arguments(post: Post, plan: &JobPlan) -> Vec<String> {
    let mut words = match plan.verb {
        Verb::Try => vec!["try".to_owned()],
        Verb::Run(patience) => vec![
            "run".to_owned(),
            format!("--timeout={}ms", patience.as_millis()),
        ],
    };
    words.extend(LEASE.map(str::to_owned));
    words.extend(["--scope".to_owned(), post.scope.to_owned()]);
    match plan.sharing {
        Sharing::Exclusive => {}
        Sharing::Shared => words.push("--shared".to_owned()),
    }
    words
}

fn stderr_file(testbed: &Testbed, id: usize) -> PathBuf {
    testbed.directory().join(format!("stderr-{id}"))
}
