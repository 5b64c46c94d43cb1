//! Whose turn it is: when one who waits in line tries, and when it only looks. A pure function of what it is told.

use std::time::Duration;

/// The first in line tries this often: holders that are no pglock, or were killed, tell nobody.
const TRY_AGAIN: Duration = Duration::from_secs(1);
/// And looks instead now and then.
const TRIES_PER_LOOK: u8 = 5;
/// The others look; those further back less often.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: u32 = 5;
/// What the second in line leaves the first, once both were told that the lock is free.
const COURTESY: Duration = Duration::from_millis(250);

/// What to do, and after how long, unless something is heard meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    pub after: Duration,
    pub what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Ask for the lock.
    Try,
    /// Ask how many are ahead, and whether the lock is free.
    Look,
}

/// What one in line learns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    Joined {
        ahead: u32,
    },
    /// A holder has left, and this is the first in line or not; `None` if that was not understood.
    Told {
        is_first: Option<bool>,
    },
    Looked {
        ahead: u32,
        is_free: bool,
    },
    /// The lock was asked for in vain.
    Busy,
}

/// One in line, as far as it knows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Turn {
    ahead: u32,
    /// The last look found the lock free, and somebody ahead who had not taken it.
    seen_idle: bool,
    tries: u8,
}

impl Turn {
    /// How many are ahead, at the last look.
    pub fn ahead(self) -> u32 {
        self.ahead
    }

    /// The whole of the decisions.
    pub fn on(&mut self, heard: Heard) -> Next {
        let now = |what| Next {
            after: Duration::ZERO,
            what,
        };
        match heard {
            Heard::Joined { ahead: 0 }
            | Heard::Looked { ahead: 0, .. }
            | Heard::Told {
                is_first: Some(true),
            } => {
                self.ahead = 0;
                now(What::Try)
            }
            Heard::Joined { ahead } => {
                self.ahead = ahead;
                self.look_later()
            }
            Heard::Told { is_first: None } => now(What::Look),
            Heard::Told {
                is_first: Some(false),
            } => {
                self.seen_idle = true;
                Next {
                    after: COURTESY,
                    what: What::Look,
                }
            }
            // Whoever is ahead had time to take it: it is stopped, or cut off.
            Heard::Looked { is_free: true, .. } if self.seen_idle => {
                self.seen_idle = false;
                now(What::Try)
            }
            Heard::Looked { ahead, is_free } => {
                self.ahead = ahead;
                self.seen_idle = is_free;
                self.look_later()
            }
            Heard::Busy if self.ahead == 0 => {
                self.tries = (self.tries + 1) % TRIES_PER_LOOK;
                Next {
                    after: TRY_AGAIN,
                    // Several that joined at the same moment may each believe to be the first.
                    what: if self.tries == 0 {
                        What::Look
                    } else {
                        What::Try
                    },
                }
            }
            Heard::Busy => self.look_later(),
        }
    }

    fn look_later(self) -> Next {
        let pause = if self.seen_idle {
            1
        } else {
            self.ahead.clamp(1, LONGEST_PAUSE)
        };
        Next {
            after: LOOK_AGAIN * pause,
            what: What::Look,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(after: Duration, what: What) -> Next {
        Next { after, what }
    }

    #[test]
    fn the_first_tries_and_the_others_look() {
        let mut first = Turn::default();
        let at_once = next(Duration::ZERO, What::Try);
        assert_eq!(first.on(Heard::Joined { ahead: 0 }), at_once);
        assert_eq!(first.on(Heard::Busy), next(TRY_AGAIN, What::Try));
        let told = Heard::Told {
            is_first: Some(true),
        };
        assert_eq!(first.on(told), at_once);

        let mut fourth = Turn::default();
        assert_eq!(
            fourth.on(Heard::Joined { ahead: 3 }),
            next(3 * LOOK_AGAIN, What::Look)
        );
        let looked = |ahead, is_free| Heard::Looked { ahead, is_free };
        assert_eq!(fourth.on(looked(1, false)), next(LOOK_AGAIN, What::Look));
        assert_eq!(fourth.on(looked(0, false)), at_once);
    }

    #[test]
    fn one_behind_another_that_does_not_take_a_free_lock_overtakes() {
        let mut second = Turn::default();
        second.on(Heard::Joined { ahead: 1 });
        let free = Heard::Looked {
            ahead: 1,
            is_free: true,
        };
        let told = Heard::Told {
            is_first: Some(false),
        };
        assert_eq!(second.on(told), next(COURTESY, What::Look));
        assert_eq!(second.on(free), next(Duration::ZERO, What::Try));
        assert_eq!(second.on(Heard::Busy), next(LOOK_AGAIN, What::Look));
        assert_eq!(second.on(free), next(LOOK_AGAIN, What::Look));
        assert_eq!(second.on(free), next(Duration::ZERO, What::Try));
    }
}
