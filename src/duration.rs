//! DURATION as typed: `90`, `90s`, `5m`, `1h30m`, `250ms`; a bare number is seconds.

use std::time::Duration;

use crate::exit::Fault;

/// Ten years, leap days and all: more than anybody waits, and less than clocks can count.
const LONGEST: Duration = Duration::from_secs(10 * 366 * 24 * 60 * 60);

/// Reads the value of `option`.
///
/// A value that is no duration, or longer than ten years, is a usage error.
pub fn parse(option: &str, typed: &str) -> anyhow::Result<Duration> {
    seconds(typed)
        .or_else(|| humantime::parse_duration(typed).ok())
        .filter(|read| *read <= LONGEST)
        .ok_or_else(|| {
            let typed = crate::text::printable(&crate::command_line::mask(typed));
            Fault::Usage.error(format!(
                "{option}: '{typed}' is no duration; write 90, 90s, 5m, 1h30m or 250ms"
            ))
        })
}

/// A bare number, possibly with a fraction, as flock(1) and sleep(1) take it.
fn seconds(typed: &str) -> Option<Duration> {
    let plain = typed
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.');
    plain
        .then(|| typed.parse().ok())
        .flatten()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_the_contract_is_read() {
        let millis = |typed| parse("--timeout", typed).map(|read| read.as_millis()).ok();
        assert_eq!(millis("90"), Some(90_000));
        assert_eq!(millis("0"), Some(0));
        assert_eq!(millis("0.5"), Some(500));
        assert_eq!(millis("90s"), Some(90_000));
        assert_eq!(millis("5m"), Some(300_000));
        assert_eq!(millis("1h30m"), Some(5_400_000));
        assert_eq!(millis("250ms"), Some(250));
        for bad in [
            "",
            "-1",
            "x",
            "5 parsecs",
            "1e3",
            ".",
            "99999999999999999999999",
            "9999999999999999999",
            "11years",
        ] {
            assert_eq!(millis(bad), None, "{bad}");
        }
    }
}
