//! A stream of a process, collected by a thread while the process runs.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// How soon a stream ends after its process, if something that the process left behind still has it open.
const PERIOD_MS: u8 = 20;

/// What a process writes to one descriptor.
pub struct Stream {
    shared: Arc<Shared>,
    reader: JoinHandle<()>,
}

#[derive(Default)]
struct Shared {
    bytes: Mutex<Vec<u8>>,
    writer_ended: AtomicBool,
}

impl Stream {
    /// Begins to collect from the reading end of a pipe, or from a terminal's master.
    pub fn collect(source: impl Into<OwnedFd>) -> Self {
        let shared = Arc::new(Shared::default());
        let (file, theirs) = (File::from(source.into()), Arc::clone(&shared));
        let reader = thread::spawn(move || read(file, &theirs));
        Self { shared, reader }
    }

    /// What has come so far.
    pub fn so_far(&self) -> Vec<u8> {
        self.shared.bytes.lock().unwrap().clone()
    }

    /// Says that the process was reaped, so that its descendants' silence ends the stream as well as its end does.
    pub fn writer_ended(&self) {
        self.shared.writer_ended.store(true, Ordering::SeqCst);
    }

    /// Everything the reaped process has written.
    pub fn finish(self) -> Vec<u8> {
        self.writer_ended();
        self.reader.join().expect("the reader does not panic");
        std::mem::take(&mut self.shared.bytes.lock().unwrap())
    }

    /// Whether everything the reaped process has written was collected.
    pub fn is_complete(&self) -> bool {
        self.reader.is_finished()
    }
}

fn read(mut source: File, shared: &Shared) {
    let mut buffer = [0; 8192];
    loop {
        // Asked before the poll: what an ended process wrote is in the pipe by then, so an empty pipe means the end.
        let last = shared.writer_ended.load(Ordering::SeqCst);
        let mut descriptors = [PollFd::new(source.as_fd(), PollFlags::POLLIN)];
        match poll(&mut descriptors, PollTimeout::from(PERIOD_MS)) {
            Ok(0) if last => return,
            Ok(0) | Err(_) => continue,
            Ok(_) => {}
        }
        match source.read(&mut buffer) {
            Ok(count) if count > 0 => shared
                .bytes
                .lock()
                .unwrap()
                .extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // A terminal ends with EIO.
            Ok(_) | Err(_) => return,
        }
    }
}
