//! A line typed on the controlling terminal, which does not show it.

use std::io;

use nix::sys::termios::{FlushArg, LocalFlags, SetArg, Termios, tcflush, tcgetattr, tcsetattr};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::unix::pipe::{OpenOptions, Receiver, Sender};

/// The controlling terminal, whatever the standard streams are (tty(4)).
const TERMINAL: &str = "/dev/tty";

/// The line, without its end; `None` where there is no terminal.
///
/// What was typed before is discarded, as by psql. Waits without blocking the thread; dropped, it puts the
/// terminal back as it was.
pub async fn read_unseen(prompt: &str) -> io::Result<Option<Vec<u8>>> {
    // Opened anew, so that being non-blocking is nobody else's affair. A terminal is read and written as a pipe is.
    let ways = OpenOptions::new().unchecked(true).clone();
    let (Ok(input), Ok(output)) = (ways.open_receiver(TERMINAL), ways.open_sender(TERMINAL)) else {
        return Ok(None);
    };
    let mut unseen = Unseen::on(input, output)?;
    unseen.output.write_all(prompt.as_bytes()).await?;
    let mut line = Vec::new();
    unseen.input.read_until(b'\n', &mut line).await?;
    let end = line.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n'));
    line.truncate(end.map_or(0, |last| last + 1));
    Ok(Some(line))
}

/// A terminal that does not echo until this is dropped.
struct Unseen {
    input: BufReader<Receiver>,
    output: Sender,
    before: Termios,
}

impl Unseen {
    fn on(input: Receiver, output: Sender) -> io::Result<Self> {
        let unseen = Self {
            before: tcgetattr(&output)?,
            input: BufReader::new(input),
            output,
        };
        let mut without_echo = unseen.before.clone();
        without_echo.local_flags.remove(LocalFlags::ECHO);
        // Not TCSAFLUSH, which would wait for a terminal that Ctrl-S has stopped.
        tcsetattr(&unseen.output, SetArg::TCSANOW, &without_echo)?;
        tcflush(&unseen.output, FlushArg::TCIFLUSH)?;
        Ok(unseen)
    }
}

impl Drop for Unseen {
    fn drop(&mut self) {
        let _ = tcsetattr(&self.output, SetArg::TCSANOW, &self.before);
        // The end of the line was not shown either.
        let _ = self.output.try_write(b"\n");
    }
}
