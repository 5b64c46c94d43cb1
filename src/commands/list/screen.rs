//! A terminal that is painted anew: its alternate screen, and the keys that are typed meanwhile.

use std::env;
use std::future::pending;
use std::io::{self, IsTerminal as _, stdout};

use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{
    LocalFlags, SetArg, SpecialCharacterIndices, Termios, tcgetattr, tcsetattr,
};
use nix::unistd::Pid;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::{OpenOptions, Receiver};

use crate::output;

/// The alternate screen, without a cursor (xterm's "Control Sequences", DECSET).
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
/// The first place, and the end of a line and of the screen (ECMA-48, CUP, EL and ED).
const HOME: &str = "\x1b[H";
const ERASE_LINE: &str = "\x1b[K";
const ERASE_BELOW: &str = "\x1b[J";
/// What Ctrl-Z types where it does not stop the process at once.
const CTRL_Z: u8 = 0x1a;

/// The painted terminal; dropped, it is as it was before.
pub struct Screen {
    keyboard: Option<Keyboard>,
}

/// The keys one by one, and the settings to go back to.
struct Keyboard {
    input: Receiver,
    before: Termios,
}

/// What a person wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    Quit,
    Suspend,
    Look,
}

impl Screen {
    /// `None` where standard output is no terminal, or one that cannot be painted.
    pub fn open() -> io::Result<Option<Self>> {
        let can_paint = env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb");
        if !(stdout().is_terminal() && can_paint) {
            return Ok(None);
        }
        let mut screen = Self {
            keyboard: Keyboard::open()?,
        };
        screen.enter()?;
        Ok(Some(screen))
    }

    fn enter(&mut self) -> io::Result<()> {
        if let Some(keyboard) = &self.keyboard {
            keyboard.take()?;
        }
        show(ENTER)
    }

    fn leave(&self) {
        // A terminal that has gone needs no restoring.
        let _ = show(LEAVE);
        if let Some(keyboard) = &self.keyboard {
            keyboard.give_back();
        }
    }

    /// The next key that means something; never, where there is no keyboard. Cancel-safe.
    pub async fn wish(&mut self) -> io::Result<Wish> {
        let Some(keyboard) = &mut self.keyboard else {
            return pending().await;
        };
        loop {
            let wish = match keyboard.input.read_u8().await {
                Ok(b'q' | b'Q') => Wish::Quit,
                Ok(CTRL_Z) => Wish::Suspend,
                Ok(b' ' | b'\n' | b'\r') => Wish::Look,
                Ok(_) => continue,
                Err(end) if end.kind() == io::ErrorKind::UnexpectedEof => Wish::Quit,
                Err(error) => return Err(error),
            };
            return Ok(wish);
        }
    }

    /// Stops the process and whoever shares the terminal with it, as Ctrl-Z does, until it is continued.
    pub fn suspend(&mut self) -> io::Result<()> {
        self.leave();
        kill(Pid::from_raw(0), Signal::SIGTSTP)?;
        self.enter()
    }

    /// Paints a terminal again that others have used, after a stop that nobody announced.
    pub fn resume(&mut self) -> io::Result<()> {
        self.enter()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Keyboard {
    /// The controlling terminal, opened anew so that being non-blocking is nobody else's affair.
    fn open() -> io::Result<Option<Self>> {
        let Ok(input) = OpenOptions::new().unchecked(true).open_receiver("/dev/tty") else {
            return Ok(None);
        };
        let before = tcgetattr(&input)?;
        Ok(Some(Self { input, before }))
    }

    /// Keys come one by one and are not shown. Ctrl-C still interrupts; Ctrl-Z is a key, before whose effect the
    /// screen can be left.
    fn take(&self) -> io::Result<()> {
        let mut settings = self.before.clone();
        settings
            .local_flags
            .remove(LocalFlags::ICANON | LocalFlags::ECHO);
        settings.control_chars[SpecialCharacterIndices::VMIN as usize] = 1;
        settings.control_chars[SpecialCharacterIndices::VTIME as usize] = 0;
        settings.control_chars[SpecialCharacterIndices::VSUSP as usize] = DISABLED;
        Ok(tcsetattr(&self.input, SetArg::TCSANOW, &settings)?)
    }

    fn give_back(&self) {
        let _ = tcsetattr(&self.input, SetArg::TCSANOW, &self.before);
    }
}

/// `_POSIX_VDISABLE` on Linux.
const DISABLED: u8 = 0;

/// Shows these lines in place of all that an open screen showed; one fewer than it has.
///
/// Each line is erased before it is written: after a line as wide as the screen its last character would be.
pub fn paint(lines: &[String]) -> io::Result<()> {
    let lines: Vec<String> = lines
        .iter()
        .map(|line| format!("{ERASE_LINE}{line}\n"))
        .collect();
    show(&format!("{HOME}{}{ERASE_BELOW}", lines.concat()))
}

fn show(text: &str) -> io::Result<()> {
    output::write(text).map_err(io::Error::other)
}
