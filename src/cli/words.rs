//! A value that is one of many words: completions offer them, and what is no such word is found out when it is resolved.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Command, Error};

/// A word and what it means, for each that there is; they are not looked at unless somebody asks for them.
#[derive(Clone, Copy)]
pub struct Words(pub fn() -> Vec<(&'static str, &'static str)>);

impl TypedValueParser for Words {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<String, Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let words = (self.0)().into_iter();
        Some(Box::new(words.map(|(word, meaning)| {
            PossibleValue::new(word).help(meaning)
        })))
    }
}
