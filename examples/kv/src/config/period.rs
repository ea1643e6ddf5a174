//! A length of time as etcd's flags write it: `1h30m`, `10m`, `5s`, `500ms`, `0`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A length of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Period(pub Duration);

/// Why a length of time is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no length of time: write it as in 1h30m, 5s or 500ms")]
pub struct PeriodError(String);

const UNITS: [(&str, u64); 7] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

impl FromStr for Period {
    type Err = PeriodError;

    fn from_str(text: &str) -> Result<Self, PeriodError> {
        let error = || PeriodError(text.to_owned());
        let (mut rest, mut total) = (text, Duration::ZERO);
        if text == "0" {
            return Ok(Self(total));
        }
        while !rest.is_empty() || text.is_empty() {
            let is_number = |c: char| c.is_ascii_digit() || c == '.';
            let (number, behind) = rest.split_at(rest.find(|c| !is_number(c)).ok_or_else(error)?);
            let (unit, behind) = behind.split_at(behind.find(is_number).unwrap_or(behind.len()));
            let (_, nanos) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(error)?;
            let nanos = Duration::from_nanos(*nanos);
            let part = match number.parse::<u32>() {
                Ok(whole) => nanos.checked_mul(whole),
                Err(_) => number.parse::<f64>().ok().and_then(|number| {
                    Duration::try_from_secs_f64(nanos.as_secs_f64() * number).ok()
                }),
            };
            total = part.and_then(|part| total.checked_add(part)).ok_or_else(error)?;
            rest = behind;
        }
        Ok(Self(total))
    }
}

/// In the largest units that leave nothing over.
impl fmt::Display for Period {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos();
        if nanos == 0 {
            return formatter.write_str("0s");
        }
        let fits = |(_, unit): &&(&str, u64)| nanos.is_multiple_of(u128::from(*unit));
        let largest = UNITS.iter().rev().find(fits);
        let (name, unit) = largest.unwrap_or(&UNITS[0]);
        write!(formatter, "{}{name}", nanos / u128::from(*unit))
    }
}

impl From<Period> for String {
    fn from(period: Period) -> Self {
        period.to_string()
    }
}

impl TryFrom<String> for Period {
    type Error = PeriodError;

    fn try_from(text: String) -> Result<Self, PeriodError> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_of_time_is_read_as_go_reads_it() {
        let period = |text: &str| text.parse::<Period>().map(|period| period.0);
        for (text, expected) in [
            ("0", Duration::ZERO),
            ("0s", Duration::ZERO),
            ("10m", Duration::from_secs(600)),
            ("500ms", Duration::from_millis(500)),
            ("1h30m", Duration::from_secs(5400)),
            ("1.5s", Duration::from_millis(1500)),
            ("1m0.5s", Duration::from_millis(60_500)),
            ("250us", Duration::from_micros(250)),
        ] {
            assert_eq!(period(text), Ok(expected), "{text}");
            let shown = Period(expected).to_string();
            assert_eq!(period(&shown), Ok(expected), "{shown}");
        }
        for text in ["", "5", "s", "-1s", "1x", "1s ", "1.2.3s", "m5", "99999999999999999999h"] {
            period(text).expect_err(text);
        }
    }
}
