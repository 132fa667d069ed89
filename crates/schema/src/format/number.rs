//! Identifiers: UUIDs, ISBNs, credit card and social security numbers.

use std::sync::LazyLock;

use regex::Regex;

/// 32 hexadecimal digits in upper or lower case, with or without dashes. `version` is the first
/// digit of the third group.
pub(super) fn is_uuid(text: &str, version: Option<char>) -> bool {
    let mut rest = text;
    let mut digits = String::with_capacity(32);
    for length in [8, 4, 4, 4, 12] {
        let Some((group, after)) = rest.split_at_checked(length) else { return false };
        digits += group;
        rest = if length == 12 { after } else { after.strip_prefix('-').unwrap_or(after) };
    }
    let has_variant =
        matches!(digits.as_bytes().get(16), Some(b'8' | b'9' | b'a' | b'b' | b'A' | b'B'));
    rest.is_empty()
        && digits.bytes().all(|b| b.is_ascii_hexdigit())
        && version.is_none_or(|it| digits.chars().nth(12) == Some(it))
        && (has_variant || matches!(version, None | Some('3')))
}

fn without_separators(text: &str) -> String {
    text.chars().filter(|c| !matches!(c, ' ' | '\t' | '\n' | '\u{c}' | '\r' | '-')).collect()
}

pub(super) fn is_isbn10(text: &str) -> bool {
    let text = without_separators(text);
    let Some((body, last)) = text.split_at_checked(9) else { return false };
    let check = match last {
        "X" => Some(10),
        digit if digit.len() == 1 => digit.parse::<u32>().ok(),
        _ => None,
    };
    let digits: Option<Vec<u32>> = body.chars().map(|c| c.to_digit(10)).collect();
    let (Some(digits), Some(check)) = (digits, check) else { return false };
    let sum: u32 = (1..).zip(digits).map(|(weight, digit)| weight * digit).sum();
    (sum + 10 * check).is_multiple_of(11)
}

pub(super) fn is_isbn13(text: &str) -> bool {
    let digits: Option<Vec<u32>> =
        without_separators(text).chars().map(|c| c.to_digit(10)).collect();
    let Some(digits) = digits.filter(|it| it.len() == 13) else { return false };
    let weighted =
        digits.iter().enumerate().map(|(i, digit)| if i % 2 == 0 { *digit } else { 3 * digit });
    weighted.sum::<u32>().is_multiple_of(10)
}

pub(super) fn is_credit_card(text: &str) -> bool {
    static ISSUERS: LazyLock<Regex> = LazyLock::new(|| {
        const PATTERN: &str = concat!(
            r"\A(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9]{2})[0-9]{12}",
            r"|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11})\z"
        );
        Regex::new(PATTERN).expect("the expression is well formed")
    });
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let sum: u32 = digits
        .chars()
        .rev()
        .filter_map(|c| c.to_digit(10))
        .enumerate()
        .map(|(index, digit)| match (index % 2, digit * 2) {
            (0, _) => digit,
            (_, double) if double > 9 => double - 9,
            (_, double) => double,
        })
        .sum();
    ISSUERS.is_match(&digits) && sum.is_multiple_of(10)
}

/// `123-45-6789`, or with spaces.
pub(super) fn is_ssn(text: &str) -> bool {
    let fits = |(index, byte): (usize, u8)| match index {
        3 | 6 => matches!(byte, b'-' | b' '),
        _ => byte.is_ascii_digit(),
    };
    text.len() == 11 && text.bytes().enumerate().all(fits)
}
