//! Arguments of a verb, of which clap hears only once the verb is asked for: to list those of all verbs takes longer than to parse
//! one's.

use clap::builder::Resettable;
use clap::{ArgMatches, Args, Command, Error, FromArgMatches};

/// The arguments `A`, as they would be without this.
#[derive(Debug)]
pub struct Deferred<A>(pub A);

impl<A: FromArgMatches> FromArgMatches for Deferred<A> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        A::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}

impl<A: Args> Args for Deferred<A> {
    fn augment_args(command: Command) -> Command {
        command.defer(|command| keeping_words(command, A::augment_args))
    }

    fn augment_args_for_update(command: Command) -> Command {
        command.defer(|command| keeping_words(command, A::augment_args_for_update))
    }
}

/// Gives the verb its arguments, whose own description would take the place of the verb's.
fn keeping_words(verb: Command, augment: fn(Command) -> Command) -> Command {
    let about = Resettable::from(verb.get_about().cloned());
    let long_about = Resettable::from(verb.get_long_about().cloned());
    augment(verb).about(about).long_about(long_about)
}
