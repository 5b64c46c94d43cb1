//! The keys of madelson's `DistributedLock`: short names stand in the key itself and can be read back.

use sha1::{Digest as _, Sha1};

use super::{LockKey, leading, little_endian};

/// Characters that fit, of 7 bits each.
const MOST_CHARACTERS: usize = 9;

/// A short ASCII name as it is, a key in hexadecimal digits, else the name's SHA-1.
pub fn key(name: &str) -> LockKey {
    let as_it_is = || short(name).map(pair);
    as_it_is()
        .or_else(|| hexadecimal(name))
        .unwrap_or_else(|| LockKey::Bigint(little_endian(&Sha1::digest(name))))
}

/// The name behind a key, if it is one that people give: letters, digits, `_`, `-` and `.`.
///
/// The longest leave so little room for doubt that only lower-case ones are believed.
pub fn name(first: i32, second: i32) -> Option<String> {
    let whole = (u64::from(first.cast_unsigned()) << 32) | u64::from(second.cast_unsigned());
    let padding = whole.trailing_ones() as usize;
    let length = MOST_CHARACTERS.checked_sub(padding / 7)?;
    let characters = whole >> (padding + 1).min(63);
    if length == 0 || !padding.is_multiple_of(7) {
        return None;
    }
    let name: String = (0..length)
        .rev()
        .map(|at| char::from(((characters >> (7 * at)) & 0x7f).to_le_bytes()[0]))
        .collect();
    let is_usual = |c: char| match c {
        'a'..='z' | '0'..='9' | '_' | '-' => true,
        'A'..='Z' | '.' => length < MOST_CHARACTERS,
        _ => false,
    };
    name.chars().all(is_usual).then_some(name)
}

/// The characters, a zero, and ones in the place of those that are missing.
fn short(name: &str) -> Option<u64> {
    if !name.is_ascii() || name.len() > MOST_CHARACTERS {
        return None;
    }
    let characters = name
        .bytes()
        .fold(0, |key, byte| (key << 7) | u64::from(byte));
    let missing = 7 * (MOST_CHARACTERS - name.len());
    Some((characters << (missing + 1)) | ((1 << missing) - 1))
}

/// 16 digits are a bigint; `XXXXXXXX,XXXXXXXX` are two int4.
fn hexadecimal(name: &str) -> Option<LockKey> {
    let digits = |text: &str, length: usize| {
        let is_key = text.len() == length && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_key.then(|| u64::from_str_radix(text, 16).ok()).flatten()
    };
    match name.split_once(',') {
        None => digits(name, 16).map(|key| LockKey::Bigint(key.cast_signed())),
        Some((first, second)) => Some(pair((digits(first, 8)? << 32) | digits(second, 8)?)),
    }
}

fn pair(whole: u64) -> LockKey {
    let bytes = whole.to_be_bytes();
    let half = |at: usize| i32::from_be_bytes(leading(&bytes[at..]));
    LockKey::Pair(half(0), half(4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_name_is_read_back_from_its_key() {
        for known in ["a", "my_lock", "MyLock.2", "nine_char"] {
            let LockKey::Pair(first, second) = key(known) else {
                panic!("{known} is short")
            };
            assert_eq!(name(first, second).as_deref(), Some(known));
        }
        for (first, second) in [(0, 0), (-1, -1), (0, 42), (1, 5), (1_196_905_043, 7)] {
            assert_eq!(name(first, second), None, "{first},{second}");
        }
    }
}
