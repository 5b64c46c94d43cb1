//! Work that may take its time, beside what must go on meanwhile.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use tokio::sync::oneshot;

/// Does `work` on a thread of its own, so that neither signals nor the time for connecting wait for it; one that nobody waits for any more
/// is left behind. Where the user may have no more threads it is done here.
pub async fn aside<T: Send + 'static>(
    thread: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let work = Arc::new(Mutex::new(Some(work)));
    let take = |work: &Mutex<Option<_>>| work.lock().unwrap_or_else(PoisonError::into_inner).take();
    let (done, result) = oneshot::channel();
    let theirs = Arc::clone(&work);
    let started = thread::Builder::new()
        .name(thread.to_owned())
        .spawn(move || {
            if let Some(work) = take(&theirs) {
                // Nobody may wait for it any more.
                let _ = done.send(work());
            }
        });
    if started.is_err()
        && let Some(work) = take(&work)
    {
        return Ok(work());
    }
    result.await.map_err(io::Error::other)
}
