//! Whose turn it is: when one who waits in line tries, and when it only looks. A pure function of what it is told.

use std::time::Duration;

use crate::session::Look;

/// The first in line tries this often: holders that are no pglock, or were killed, tell nobody.
const TRY_AGAIN: Duration = Duration::from_secs(1);
/// And looks instead now and then.
const TRIES_PER_LOOK: u8 = 5;
/// The others look; those further back less often, unless so many ahead are stopped or cut off that it takes a few
/// seconds.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
const IN_FRONT: u32 = 10;
const PAUSE_IN_FRONT: u32 = 2;
const PAUSE_FURTHER_BACK: u32 = 5;
/// What the second in line leaves the first, once both were told that the lock is free; those further back leave more,
/// so that they come after it if the first does nothing.
const COURTESY: Duration = Duration::from_millis(250);
const MOST_COURTEOUS: u32 = 3;

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
    /// Have those behind look, and then wait as before.
    PassOn,
    /// Say that the lock is free, and whose turn it is.
    Announce,
}

/// What one in line learns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    Joined {
        ahead: u32,
    },
    /// A holder has left, and this is the first in line; what it leaves may be what not all in line wait for.
    ToldIsMine {
        is_particular: bool,
    },
    /// A holder has left the lock, and this ticket is the first.
    ToldIsOf {
        first: i64,
    },
    /// Something has become free, perhaps.
    ToldSomething,
    Looked(Look),
    /// The lock was asked for in vain.
    Busy,
    /// Those behind were told.
    PassedOn,
    /// Those in front were.
    Announced,
}

/// One in line, as far as it knows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Turn {
    /// More is waited for than others in line need, who are served while only some of it is free. One who takes some
    /// in vain is in their way, so it looks before it tries.
    wants_more: bool,
    ahead: u32,
    /// What was told is for others to know, if it was in vain.
    is_to_pass_on: bool,
    /// The lock was free, this ticket the first, and so many ahead, who are to have a moment's time before the next look.
    seen_idle: Option<(i64, u32)>,
    tries: u8,
}

impl Turn {
    pub fn new(wants_more: bool) -> Self {
        Self {
            wants_more,
            ..Self::default()
        }
    }

    /// How many are ahead, at the last look.
    pub fn ahead(self) -> u32 {
        self.ahead
    }

    /// The whole of the decisions; `None` where it stays at what was to be done, and when.
    pub fn on(&mut self, heard: Heard) -> Option<Next> {
        Some(match heard {
            Heard::Joined { ahead } => {
                self.ahead = ahead;
                now(if ahead == 0 { What::Try } else { What::Look })
            }
            // Who is told it again and again must not wait for ever.
            Heard::ToldIsOf { first } if self.seen_idle == Some((first, 1)) => return None,
            Heard::ToldIsOf { first } => {
                // Only the first two are told.
                self.seen_idle = Some((first, 1));
                after(COURTESY, What::Look)
            }
            Heard::ToldIsMine { is_particular } => {
                self.is_to_pass_on |= is_particular;
                self.seen_idle = None;
                self.ahead = 0;
                now(What::Try)
            }
            Heard::ToldSomething => {
                self.is_to_pass_on |= self.wants_more;
                if self.seen_idle.is_some() {
                    return None;
                }
                now(What::Look)
            }
            Heard::Looked(look) => self.looked(&look),
            Heard::Announced => after(COURTESY * self.ahead.clamp(1, MOST_COURTEOUS), What::Look),
            Heard::Busy if self.is_to_pass_on => now(What::PassOn),
            Heard::Busy => self.later(),
            Heard::PassedOn => {
                self.is_to_pass_on = false;
                self.later()
            }
        })
    }

    fn looked(&mut self, look: &Look) -> Next {
        self.ahead = look.ahead;
        let had_time = self.seen_idle.take();
        let now_ahead = (look.first, look.ahead);
        if look.ahead == 0 && (look.is_free || !self.wants_more) {
            return now(What::Try);
        }
        match look.is_free {
            // Whoever is ahead had time to take it: it is stopped, or cut off, or waits for more.
            true if had_time == Some(now_ahead) => now(What::Try),
            // Nobody may have been told: the holder was killed, or is no pglock.
            true => {
                self.seen_idle = Some(now_ahead);
                now(What::Announce)
            }
            false if self.is_to_pass_on => now(What::PassOn),
            false => self.look_later(),
        }
    }

    fn later(&mut self) -> Next {
        if self.ahead > 0 {
            self.look_later()
        } else {
            self.try_later()
        }
    }

    fn try_later(&mut self) -> Next {
        self.tries = (self.tries + 1) % TRIES_PER_LOOK;
        // Several that joined at the same moment may each believe to be the first.
        let looks = self.wants_more || self.tries == 0;
        after(TRY_AGAIN, if looks { What::Look } else { What::Try })
    }

    fn look_later(self) -> Next {
        let pause = if self.ahead <= IN_FRONT {
            self.ahead.clamp(1, PAUSE_IN_FRONT)
        } else {
            PAUSE_FURTHER_BACK
        };
        after(LOOK_AGAIN * pause, What::Look)
    }
}

fn now(what: What) -> Next {
    after(Duration::ZERO, what)
}

fn after(after: Duration, what: What) -> Next {
    Next { after, what }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looked(ahead: u32, is_free: bool) -> Heard {
        Heard::Looked(Look {
            ahead,
            first: 1,
            is_free,
            free: Vec::new(),
        })
    }

    const MINE: Heard = Heard::ToldIsMine {
        is_particular: false,
    };
    const OF_THE_FIRST: Heard = Heard::ToldIsOf { first: 1 };

    /// Each is heard in turn, and leads to that.
    fn assert_course(mut turn: Turn, course: &[(Heard, Option<Next>)]) {
        for (at, (heard, next)) in course.iter().enumerate() {
            assert_eq!(turn.on(heard.clone()), *next, "{at}: {heard:?}");
        }
    }

    #[test]
    fn the_first_tries_and_the_others_look() {
        assert_course(
            Turn::new(false),
            &[
                (Heard::Joined { ahead: 0 }, Some(now(What::Try))),
                (Heard::Busy, Some(after(TRY_AGAIN, What::Try))),
                (MINE, Some(now(What::Try))),
                (Heard::Busy, Some(after(TRY_AGAIN, What::Try))),
            ],
        );
        assert_course(
            Turn::new(false),
            &[
                (Heard::Joined { ahead: 3 }, Some(now(What::Look))),
                (looked(3, false), Some(after(2 * LOOK_AGAIN, What::Look))),
                (looked(1, false), Some(after(LOOK_AGAIN, What::Look))),
                (looked(0, false), Some(now(What::Try))),
            ],
        );
    }

    #[test]
    fn one_behind_another_that_does_not_take_a_free_lock_overtakes() {
        assert_course(
            Turn::new(false),
            &[
                (Heard::Joined { ahead: 1 }, Some(now(What::Look))),
                (OF_THE_FIRST, Some(after(COURTESY, What::Look))),
                // The first is stopped, and others that come and go say so often.
                (OF_THE_FIRST, None),
                (Heard::ToldSomething, None),
                (looked(1, true), Some(now(What::Try))),
                (Heard::Busy, Some(after(LOOK_AGAIN, What::Look))),
            ],
        );
    }

    #[test]
    fn a_lock_that_nobody_told_of_is_announced_first() {
        assert_course(
            Turn::new(false),
            &[
                (Heard::Joined { ahead: 4 }, Some(now(What::Look))),
                (looked(4, true), Some(now(What::Announce))),
                (Heard::Announced, Some(after(3 * COURTESY, What::Look))),
                (Heard::ToldSomething, None),
                (looked(4, true), Some(now(What::Try))),
            ],
        );
    }

    /// Somebody was served meanwhile: it is another's turn now.
    #[test]
    fn one_behind_another_whose_turn_has_just_come_does_not_overtake() {
        assert_course(
            Turn::new(false),
            &[
                (Heard::Joined { ahead: 2 }, Some(now(What::Look))),
                (
                    Heard::ToldIsOf { first: 0 },
                    Some(after(COURTESY, What::Look)),
                ),
                (looked(1, true), Some(now(What::Announce))),
                (Heard::Announced, Some(after(COURTESY, What::Look))),
                (looked(1, false), Some(after(LOOK_AGAIN, What::Look))),
            ],
        );
        // The first is stopped, and those between are served.
        assert_course(
            Turn::new(false),
            &[
                (Heard::Joined { ahead: 3 }, Some(now(What::Look))),
                (looked(3, true), Some(now(What::Announce))),
                (Heard::Announced, Some(after(3 * COURTESY, What::Look))),
                (looked(2, true), Some(now(What::Announce))),
                (Heard::Announced, Some(after(2 * COURTESY, What::Look))),
                (looked(2, true), Some(now(What::Try))),
            ],
        );
    }

    #[test]
    fn what_is_free_for_others_is_passed_on_to_them() {
        let another_slot = Heard::ToldIsMine {
            is_particular: true,
        };
        assert_course(
            Turn::new(false),
            &[
                (Heard::Joined { ahead: 0 }, Some(now(What::Try))),
                (another_slot, Some(now(What::Try))),
                (MINE, Some(now(What::Try))),
                (Heard::Busy, Some(now(What::PassOn))),
                (Heard::PassedOn, Some(after(TRY_AGAIN, What::Try))),
            ],
        );
        assert_course(
            Turn::new(true),
            &[
                (Heard::Joined { ahead: 0 }, Some(now(What::Try))),
                (Heard::Busy, Some(after(TRY_AGAIN, What::Look))),
                (Heard::ToldSomething, Some(now(What::Look))),
                (looked(0, false), Some(now(What::PassOn))),
                (Heard::PassedOn, Some(after(TRY_AGAIN, What::Look))),
                (looked(0, true), Some(now(What::Try))),
            ],
        );
    }
}
