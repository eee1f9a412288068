//! Decimal numbers compared as text: exact at any size, and without work that depends on the size of an exponent.

use std::io::Write as _;

/// A decimal number in the one form in which equal numbers are equal: `±0.d₁d₂… × 10^point`.
///
/// The digits stay where they are in the text, before and after its decimal point, without the zeros at either end.
/// Zero has no digits, no sign and its point at 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decimal<'a> {
    negative: bool,
    whole: &'a str,
    fraction: &'a str,
    point: i64,
}

impl<'a> Decimal<'a> {
    /// Reads `-?digits(.digits)?`, the notation of a header. Leading zeros are allowed.
    pub(super) fn plain(text: &'a str) -> Option<Self> {
        let (negative, text) = match text.strip_prefix('-') {
            Some(magnitude) => (true, magnitude),
            None => (false, text),
        };
        let (whole, fraction) = match text.split_once('.') {
            Some((whole, fraction)) => (digits(whole)?, digits(fraction)?),
            None => (digits(text)?, ""),
        };
        Self::normal(negative, whole, fraction)
    }

    /// Reads a JSON number, the notation of a message.
    ///
    /// None when the exponent is out of all proportion, as such a number equals none that could be written out.
    pub(crate) fn json(text: &'a str) -> Option<Self> {
        let Some((mantissa, exponent)) = text.split_once(['e', 'E']) else { return Self::plain(text) };
        let number = Self::plain(mantissa)?;
        if number.is_zero() {
            return Some(number);
        }
        Some(Self { point: number.point.checked_add(integer(exponent)?)?, ..number })
    }

    fn normal(negative: bool, whole: &'a str, fraction: &'a str) -> Option<Self> {
        let whole = whole.trim_start_matches('0');
        let fraction = fraction.trim_end_matches('0');
        let point = i64::try_from(whole.len()).ok()?;
        let number = if whole.is_empty() {
            let digits = fraction.trim_start_matches('0');
            let zeros = i64::try_from(fraction.len() - digits.len()).ok()?;
            Self { negative, whole, fraction: digits, point: -zeros }
        } else if fraction.is_empty() {
            Self { negative, whole: whole.trim_end_matches('0'), fraction, point }
        } else {
            Self { negative, whole, fraction, point }
        };
        Some(if number.is_zero() { Self { negative: false, point: 0, ..number } } else { number })
    }

    fn is_zero(&self) -> bool {
        self.whole.is_empty() && self.fraction.is_empty()
    }

    /// Appends the one text that all notations of this number share: `-?digits` and `e` and the point.
    pub(crate) fn write_to(&self, out: &mut Vec<u8>) {
        if self.negative {
            out.push(b'-');
        }
        out.extend_from_slice(self.whole.as_bytes());
        out.extend_from_slice(self.fraction.as_bytes());
        // Writing to a vector does not fail.
        let _ = write!(out, "e{}", self.point);
    }

    /// The number in decimal digits if it is an integer of no more than `max` of them.
    pub(super) fn integer(&self, max: i64) -> Option<String> {
        if self.is_zero() {
            return Some("0".to_owned());
        }
        let digits = self.whole.len() + self.fraction.len();
        let zeros = usize::try_from(self.point).ok()?.checked_sub(digits)?;
        if self.point > max {
            return None;
        }
        let sign = if self.negative { "-" } else { "" };
        Some(format!("{sign}{}{}{}", self.whole, self.fraction, "0".repeat(zeros)))
    }

    fn digits(&self) -> impl Iterator<Item = u8> {
        self.whole.bytes().chain(self.fraction.bytes())
    }
}

impl PartialEq for Decimal<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.negative == other.negative && self.point == other.point && self.digits().eq(other.digits())
    }
}

fn digits(text: &str) -> Option<&str> {
    (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())).then_some(text)
}

/// Reads `[+-]?digits`, any number of leading zeros included. None when it does not fit.
fn integer(text: &str) -> Option<i64> {
    let magnitude = digits(text.strip_prefix(['+', '-']).unwrap_or(text))?
        .bytes()
        .try_fold(0_i64, |number, digit| number.checked_mul(10)?.checked_add(i64::from(digit - b'0')))?;
    Some(if text.starts_with('-') { -magnitude } else { magnitude })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn equal(json: &str, plain: &str) -> bool {
        let plain = Decimal::plain(plain).expect("the header's notation");
        Decimal::json(json).is_some_and(|json| json == plain)
    }

    #[test]
    fn zeros_that_say_nothing_do_not_count() {
        assert!(equal("42", "042"));
        assert!(equal("42", "42.0"));
        assert!(equal("42.0", "42"));
        assert!(equal("42.000", "0042.00"));
        assert!(equal("-0.50", "-00.5"));
    }

    #[test]
    fn zeros_that_say_something_count() {
        assert!(!equal("42", "420"));
        assert!(!equal("4.2", "42"));
        assert!(!equal("402", "42"));
        assert!(!equal("0.05", "0.5"));
        assert!(!equal("10", "1"));
    }

    #[test]
    fn zero_has_neither_sign_nor_exponent() {
        for zero in ["0", "-0", "0.0", "-0.000", "0e5", "-0E-5", "0e999999999999999999999999"] {
            assert!(equal(zero, "0") && equal(zero, "-0") && equal(zero, "00.00"), "{zero}");
            assert!(!equal(zero, "1"), "{zero}");
        }
    }

    #[test]
    fn the_sign_counts() {
        assert!(!equal("-42", "42"));
        assert!(!equal("42", "-42"));
    }

    #[test]
    fn an_exponent_moves_the_point() {
        assert!(equal("1e1", "10"));
        assert!(equal("4.2e1", "42"));
        assert!(equal("4.2E+1", "42"));
        assert!(equal("420e-1", "42"));
        assert!(equal("0.00042e5", "42"));
        assert!(equal("42e000000000000000000000000000000", "42"));
        assert!(equal("42e-2", "0.42"));
        assert!(!equal("1e2", "10"));
        assert!(!equal("1e-1", "1"));
    }

    #[test]
    fn numbers_are_told_apart_where_a_float_could_not() {
        assert!(!equal("9007199254740993", "9007199254740992"));
        assert!(!equal("1e400", "2"));
        assert!(!equal("0.30000000000000004", "0.3"));
        assert!(equal(&format!("1e{}", 400), &format!("1{}", "0".repeat(400))));
    }

    #[test]
    fn an_absurd_exponent_costs_nothing_and_equals_nothing() {
        let enormous = format!("1e{}", "9".repeat(100_000));
        let tiny = format!("1e-{}", "9".repeat(100_000));
        let at_the_edge = format!("12e{}", i64::MAX);
        for number in ["1e999999999", "1e-999999999", &enormous, &tiny, &at_the_edge] {
            assert!(!equal(number, "1") && !equal(number, "0"));
        }
    }

    #[test]
    fn other_notations_are_not_the_headers() {
        for text in [
            "", "-", "+42", "0x2a", "1e1", "1E1", ".5", "42.", "-.5", "4 2", " 42", "--1", "1.2.3", "4_2",
            "٤٢",
        ] {
            assert!(Decimal::plain(text).is_none(), "{text:?}");
        }
    }

    #[test]
    fn what_is_no_number_is_not_read_from_a_message_either() {
        for text in ["", "e1", "1e", "1e+", "1e1e1", "1e--1", "1e+-1", "NaN", "Infinity", "1e1.5"] {
            assert!(Decimal::json(text).is_none(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn reading_agrees_with_exact_arithmetic(
            left in -100_000_i128..100_000,
            right in -100_000_i128..100_000,
            left_exponent in -6_i32..6,
            places in 0_u32..6,
        ) {
            // Both are scaled by 10^6, so that either exponent leaves an integer.
            let scaled = |number: i128, exponent: i32| number * 10_i128.pow(u32::try_from(exponent + 6).unwrap());
            let divisor = 10_u128.pow(places);
            let sign = if right < 0 { "-" } else { "" };
            let (whole, rest) = (right.unsigned_abs() / divisor, right.unsigned_abs() % divisor);
            let plain = match places {
                0 => right.to_string(),
                _ => format!("{sign}{whole}.{rest:0width$}", width = places as usize),
            };
            let expected = scaled(left, left_exponent) == scaled(right, -i32::try_from(places).unwrap());
            prop_assert_eq!(equal(&format!("{left}e{left_exponent}"), &plain), expected);
            let same = format!("{right}e-{places}");
            prop_assert!(equal(&same, &plain), "{} and {}", same, plain);
        }

        #[test]
        fn no_text_makes_reading_panic(text in "[-+0-9.eE]{0,40}") {
            let _ = Decimal::json(&text).zip(Decimal::plain(&text)).map(|(json, plain)| json == plain);
        }
    }
}
