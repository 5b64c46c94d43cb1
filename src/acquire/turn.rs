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
    /// Have those behind try, and then wait as before.
    PassOn,
}

/// What one in line learns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// The lock was free, and this ticket the first, who had not taken it.
    seen_idle: Option<i64>,
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

    /// The whole of the decisions.
    pub fn on(&mut self, heard: Heard) -> Next {
        match heard {
            Heard::Joined { ahead } => {
                self.ahead = ahead;
                now(if ahead == 0 { What::Try } else { What::Look })
            }
            Heard::ToldIsOf { first } => {
                self.seen_idle = Some(first);
                after(COURTESY, What::Look)
            }
            Heard::ToldIsMine { is_particular } => {
                self.is_to_pass_on = is_particular;
                self.ahead = 0;
                now(What::Try)
            }
            Heard::ToldSomething => {
                self.is_to_pass_on = self.wants_more;
                now(What::Look)
            }
            Heard::Looked(look) => self.looked(look),
            Heard::Busy if self.is_to_pass_on => self.pass_on(),
            Heard::Busy | Heard::PassedOn if self.ahead > 0 => self.look_later(),
            Heard::Busy | Heard::PassedOn => self.try_later(),
        }
    }

    fn looked(&mut self, look: Look) -> Next {
        let Look {
            ahead,
            first,
            is_free,
        } = look;
        self.ahead = ahead;
        if ahead == 0 && (is_free || !self.wants_more) {
            return now(What::Try);
        }
        let was_idle = self.seen_idle.take() == Some(first);
        match is_free {
            // Whoever is ahead had time to take it: it is stopped, or cut off, or waits for more.
            true if was_idle => now(What::Try),
            true => {
                self.seen_idle = Some(first);
                after(COURTESY, What::Look)
            }
            false if self.is_to_pass_on => self.pass_on(),
            false => self.look_later(),
        }
    }

    fn pass_on(&mut self) -> Next {
        self.is_to_pass_on = false;
        now(What::PassOn)
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
        })
    }

    const MINE: Heard = Heard::ToldIsMine {
        is_particular: false,
    };

    #[test]
    fn the_first_tries_and_the_others_look() {
        let mut first = Turn::new(false);
        assert_eq!(first.on(Heard::Joined { ahead: 0 }), now(What::Try));
        assert_eq!(first.on(Heard::Busy), after(TRY_AGAIN, What::Try));
        assert_eq!(first.on(MINE), now(What::Try));
        assert_eq!(first.on(Heard::Busy), after(TRY_AGAIN, What::Try));

        let mut fourth = Turn::new(false);
        assert_eq!(fourth.on(Heard::Joined { ahead: 3 }), now(What::Look));
        assert_eq!(
            fourth.on(looked(3, false)),
            after(2 * LOOK_AGAIN, What::Look)
        );
        assert_eq!(fourth.on(looked(1, false)), after(LOOK_AGAIN, What::Look));
        assert_eq!(fourth.on(looked(0, false)), now(What::Try));
    }

    #[test]
    fn one_behind_another_that_does_not_take_a_free_lock_overtakes() {
        let mut second = Turn::new(false);
        second.on(Heard::Joined { ahead: 1 });
        assert_eq!(
            second.on(Heard::ToldIsOf { first: 1 }),
            after(COURTESY, What::Look)
        );
        assert_eq!(second.on(looked(1, true)), now(What::Try));
        assert_eq!(second.on(Heard::Busy), after(LOOK_AGAIN, What::Look));
        assert_eq!(second.on(looked(1, true)), after(COURTESY, What::Look));
        assert_eq!(second.on(looked(1, true)), now(What::Try));
    }

    /// The lock that is free now is another's to take than the one that was free before.
    #[test]
    fn one_behind_another_that_has_just_become_the_first_does_not_overtake() {
        let mut third = Turn::new(false);
        third.on(Heard::Joined { ahead: 2 });
        third.on(Heard::ToldIsOf { first: 0 });
        assert_eq!(third.on(looked(1, true)), after(COURTESY, What::Look));
        assert_eq!(third.on(looked(1, false)), after(LOOK_AGAIN, What::Look));
    }

    #[test]
    fn what_is_free_for_others_is_passed_on_to_them() {
        let mut plain = Turn::new(false);
        plain.on(Heard::Joined { ahead: 0 });
        // Another slot has become free than the one that is waited for.
        let another_slot = Heard::ToldIsMine {
            is_particular: true,
        };
        assert_eq!(plain.on(another_slot), now(What::Try));
        assert_eq!(plain.on(Heard::Busy), now(What::PassOn));
        assert_eq!(plain.on(Heard::PassedOn), after(TRY_AGAIN, What::Try));

        let mut wants_two = Turn::new(true);
        wants_two.on(Heard::Joined { ahead: 0 });
        assert_eq!(wants_two.on(Heard::Busy), after(TRY_AGAIN, What::Look));
        assert_eq!(wants_two.on(Heard::ToldSomething), now(What::Look));
        assert_eq!(wants_two.on(looked(0, false)), now(What::PassOn));
        assert_eq!(wants_two.on(Heard::PassedOn), after(TRY_AGAIN, What::Look));
        assert_eq!(wants_two.on(looked(0, true)), now(What::Try));
    }
}
