//! What becomes of the holders of all locks that are to be freed.

use crate::exit::Outcome;

#[derive(Debug, Default)]
pub struct Tally {
    /// At least one was freed, or would be.
    pub freed: bool,
    /// A line for each holder that the role may not end or ask.
    pub denied: Vec<String>,
    /// A line for each that is left for another reason.
    pub still_held: Vec<String>,
}

impl Tally {
    /// A refusal counts most, then a lock that is still held.
    pub fn outcome(mut self) -> Outcome {
        if !self.denied.is_empty() {
            self.denied.append(&mut self.still_held);
            return Outcome::Denied(self.denied);
        }
        match (self.still_held.is_empty(), self.freed) {
            (false, _) => Outcome::StillHeld(self.still_held),
            (true, true) => Outcome::Done,
            (true, false) => Outcome::NothingHeld,
        }
    }
}
