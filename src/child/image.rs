//! What a child becomes between its birth and execve(2).

use std::ffi::{CString, OsStr, OsString, c_char};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use nix::errno::Errno;
use nix::libc;
use nix::unistd::{Pid, close, read, setpgid, write};

use super::Command;
use crate::guardian::HandOver;
use crate::signals::{self, Inherited};

/// Everything execve(2) needs, made before the child is born: that one must allocate nothing, as it may do so in pglock's memory.
pub struct Image {
    candidates: Vec<CString>,
    words: CStrings,
    environment: CStrings,
}

/// C strings and an array of pointers to them that a null pointer ends.
struct CStrings {
    pointers: Vec<*const c_char>,
    /// What they point to.
    _strings: Vec<CString>,
}

impl From<Vec<CString>> for CStrings {
    fn from(strings: Vec<CString>) -> Self {
        let pointers = strings.iter().map(|string| string.as_ptr());
        Self {
            pointers: pointers.chain([std::ptr::null()]).collect(),
            _strings: strings,
        }
    }
}

impl Image {
    pub fn of(command: &Command) -> anyhow::Result<Self> {
        let added = |name: &OsString| command.environment.iter().any(|(added, _)| name == added);
        let kept = std::env::vars_os().filter(|(name, _)| !added(name));
        let added = command.environment.iter();
        let added = added.filter_map(|(name, value)| Some((name.into(), value.as_ref()?.into())));
        let environment = kept.chain(added);
        Ok(Self {
            candidates: candidates(&command.words[0])?,
            words: c_strings(command.words.iter().cloned())?.into(),
            environment: c_strings(
                environment.map(|(name, value)| [name, value].join(OsStr::new("="))),
            )?
            .into(),
        })
    }

    /// Tries the candidates in order, as execvp(3), but never hands a file to a shell.
    fn exec(&self) -> Errno {
        let mut refused = None;
        for path in &self.candidates {
            let (words, environment) = (&self.words.pointers, &self.environment.pointers);
            // SAFETY: all are C strings that live as long as `self`, and the arrays of them end with a null pointer.
            #[expect(unsafe_code, reason = "the safe form allocates")]
            unsafe {
                libc::execve(path.as_ptr(), words.as_ptr(), environment.as_ptr())
            };
            // It comes back only if it has failed. A directory that is not there, or does not answer, is not the last.
            match Errno::last() {
                Errno::EACCES => refused = Some(Errno::EACCES),
                Errno::ENOENT | Errno::ENOTDIR => {}
                Errno::ENAMETOOLONG | Errno::ESTALE | Errno::ENODEV | Errno::ETIMEDOUT
                    if self.candidates.len() > 1 => {}
                errno => return errno,
            }
        }
        refused.unwrap_or(Errno::ENOENT)
    }
}

/// Why a newborn has not become the command.
pub enum Failure {
    /// The command cannot be executed.
    Execution(Errno),
    /// It did not come to that.
    Preparation(Errno),
}

impl Failure {
    fn to_bytes(&self) -> [u8; 5] {
        let (kind, errno) = match self {
            Self::Execution(errno) => (0, errno),
            Self::Preparation(errno) => (1, errno),
        };
        let [a, b, c, d] = (*errno as i32).to_ne_bytes();
        [kind, a, b, c, d]
    }

    pub fn from_bytes([kind, errno @ ..]: [u8; 5]) -> Self {
        let errno = Errno::from_raw(i32::from_ne_bytes(errno));
        match kind {
            0 => Self::Execution(errno),
            _ => Self::Preparation(errno),
        }
    }
}

/// The calling process, in the moment before it becomes the command.
pub struct Newborn<'a> {
    pub image: &'a Image,
    pub own_group: bool,
    pub inherited: &'a Inherited,
    pub hand_over: Option<HandOver<'a>>,
    /// Where pglock hears why it could not; one in its group waits there for [`let_go`].
    pub report: &'a OwnedFd,
}

impl Newborn<'_> {
    /// Turns the calling process into the command, or reports the errno and ends.
    pub fn turn_into_command(&self) -> ! {
        let failure = match self.prepare() {
            Ok(()) => Failure::Execution(self.image.exec()),
            Err(errno) => Failure::Preparation(errno),
        };
        let _ = write(self.report, &failure.to_bytes());
        // SAFETY: _exit(2) ends the process at once and runs none of the parent's handlers.
        #[expect(unsafe_code, reason = "_exit(2) has no safe form")]
        unsafe {
            libc::_exit(1)
        }
    }

    /// Undoes what pglock and Rust's start-up did to the inherited process state.
    fn prepare(&self) -> nix::Result<()> {
        if self.own_group {
            setpgid(Pid::from_raw(0), Pid::from_raw(0))?;
        }
        if let Some(hand_over) = self.hand_over {
            hand_over.send(self.own_group)?;
        }
        if !self.own_group {
            // Whoever hears of the command may signal the group: the canary has to be there by then.
            // Without pglock there is nobody to hold the lock for it.
            if read(self.report, &mut [0])? == 0 {
                return Err(Errno::ECANCELED);
            }
        }
        for fd in signals::closed_at_start() {
            close(fd)?;
        }
        self.inherited.restore()
    }
}

/// Lets a command in pglock's group begin, once its canary is there.
pub fn let_go(start: &OwnedFd) {
    // An error means that it was killed, which its status will tell.
    let _ = write(start, &[0]);
}

/// The paths that execvp(3) would try: the program itself when it names a path, else one for each
/// directory of PATH.
fn candidates(program: &OsStr) -> anyhow::Result<Vec<CString>> {
    if program.is_empty() || program.as_bytes().contains(&b'/') {
        return c_strings([program.to_owned()]);
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into());
    c_strings(
        std::env::split_paths(&path).map(|directory| match directory.as_os_str() {
            current if current.is_empty() => program.to_owned(),
            _ => directory.join(program).into_os_string(),
        }),
    )
}

/// What the C library searches without PATH (confstr(3), `_CS_PATH`).
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// Arguments, paths and environment came from the kernel as C strings, so no NUL is met.
fn c_strings(words: impl IntoIterator<Item = OsString>) -> anyhow::Result<Vec<CString>> {
    words
        .into_iter()
        .map(|word| Ok(CString::new(word.into_vec())?))
        .collect()
}
