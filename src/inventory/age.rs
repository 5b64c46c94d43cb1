//! How long something has lasted, as people say it.

/// The units that are told, each with its seconds; a second one only of the next smaller kind.
const UNITS: [(&str, u64); 4] = [("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)];

/// `5s`, `3m`, `3m 5s`, `2d 4h`: at most two units, and none that is zero.
pub fn told(seconds: u64) -> String {
    let largest = UNITS.iter().position(|(_, unit)| seconds >= *unit);
    let at = largest.unwrap_or(UNITS.len() - 1);
    let (name, unit) = UNITS[at];
    let whole = format!("{}{name}", seconds / unit);
    match UNITS.get(at + 1) {
        Some((name, smaller)) if seconds % unit >= *smaller => {
            format!("{whole} {}{name}", seconds % unit / smaller)
        }
        Some(_) | None => whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_units_are_told_and_none_that_is_zero() {
        for (seconds, age) in [
            (0, "0s"),
            (59, "59s"),
            (60, "1m"),
            (185, "3m 5s"),
            (3600, "1h"),
            (3659, "1h"),
            (86_399, "23h 59m"),
            (187_200, "2d 4h"),
            (86_400 * 400 + 59, "400d"),
        ] {
            assert_eq!(told(seconds), age);
        }
    }
}
