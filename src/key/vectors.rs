//! Every vector of the catalogue, against the formula beside it.

use super::LockKey;
use crate::catalogue::{Evidence, Formula, PROGRAMS, Program, SCHEMES};

#[test]
fn every_scheme_gives_its_vectors() {
    for scheme in SCHEMES {
        assert!(!scheme.vectors.is_empty(), "{}", scheme.word);
        for (name, key) in scheme.vectors {
            let computed = super::hash::key(scheme.hash, None, name);
            assert_eq!(computed, key.parse().ok(), "{} of {name}", scheme.word);
        }
    }
}

#[test]
fn every_program_gives_its_vectors() {
    for program in PROGRAMS {
        let has_no_formula = matches!(
            program.formula,
            Formula::Class(_) | Formula::Tag(_) | Formula::Library(_)
        );
        assert_eq!(
            program.vectors.is_empty(),
            has_no_formula,
            "{}",
            program.title
        );
        for (name, key) in program.vectors {
            let computed = program.key(name);
            let expected = key.parse().map_err(|_| String::new());
            assert_eq!(computed, expected, "{} for {name}", program.title);
        }
    }
}

#[test]
fn every_word_has_one_meaning() {
    let mut words: Vec<&str> = SCHEMES.iter().map(|scheme| scheme.word).collect();
    words.extend(PROGRAMS.iter().filter_map(|program| program.word));
    let all = words.len();
    words.sort_unstable();
    words.dedup();
    assert_eq!(words.len(), all);
    // A label `#WORD:NAME` is told apart from `#KEY`.
    assert!(words.iter().all(|word| word.parse::<LockKey>().is_err()));
}

#[test]
fn no_small_number_is_sure() {
    let is_small = |key: i64| key.abs() < 10_000_000;
    let sure = PROGRAMS
        .iter()
        .filter(|program| program.evidence == Evidence::Sure);
    for Program { title, formula, .. } in sure {
        let small = match formula {
            Formula::Constant(key) => is_small(*key),
            Formula::Named(names) => names.iter().any(|(_, key)| is_small(*key)),
            Formula::Class(class) => is_small((*class).into()),
            _ => false,
        };
        assert!(!small, "{title} has a key that anybody may take");
    }
}
