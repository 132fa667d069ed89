//! Sets of the indexes of an indexed job's pods: `1,3-5,7`.

use machinery::field_path::quote;

/// (the first index, the last index)
type Interval = (i64, i64);

/// The number of indexes in `text`, or upstream's message if one is malformed or not below
/// `completions`.
pub(super) fn count(text: &str, completions: i64) -> Result<i64, String> {
    let mut total = 0;
    let mut last: Option<i64> = None;
    for interval in text.split(',').filter(|_| !text.is_empty()) {
        let (low, high) = parse(interval, completions)?;
        if let Some(previous) = last.filter(|previous| *previous >= low) {
            return Err(unordered(previous, low));
        }
        total += high - low + 1;
        last = Some(high);
    }
    Ok(total)
}

/// The first index that is in both sets; malformed parts are ignored.
pub(super) fn overlap(completed: &str, failed: &str, completions: i64) -> Option<i64> {
    let intervals = |text: &str| -> Vec<Interval> {
        text.split(',').filter_map(|interval| parse(interval, completions).ok()).collect()
    };
    let (completed, failed) = (intervals(completed), intervals(failed));
    let (mut left, mut right) = (completed.iter().peekable(), failed.iter().peekable());
    while let (Some((low, high)), Some((other_low, other_high))) = (left.peek(), right.peek()) {
        if low <= other_high && other_low <= high {
            return Some(*low.max(other_low));
        }
        if low <= other_low {
            left.next();
        } else {
            right.next();
        }
    }
    None
}

fn parse(interval: &str, completions: i64) -> Result<Interval, String> {
    let index = |text: &str| {
        let index: i64 = text
            .parse()
            .map_err(|_| format!("cannot convert string to integer for index: {}", quote(text)))?;
        if index >= completions {
            return Err(format!("too large index: {}", quote(text)));
        }
        Ok(index)
    };
    let limits: Vec<&str> = interval.split('-').collect();
    match limits.as_slice() {
        [only] => index(only).map(|index| (index, index)),
        [low, high] => match (index(low)?, index(high)?) {
            (low, high) if low >= high => Err(unordered(low, high)),
            interval => Ok(interval),
        },
        _ => Err(format!(
            "the fragment {} violates the requirement that an index interval can have at most two parts separated by '-'",
            quote(interval)
        )),
    }
}

fn unordered(previous: i64, current: i64) -> String {
    format!("non-increasing order, previous: {previous}, current: {current}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_counted() {
        assert_eq!(count("", 3), Ok(0));
        assert_eq!(count("0,2-4,7", 10), Ok(5));
    }

    #[test]
    fn indexes_increase_and_are_below_completions() {
        let check = |text: &str, why: &str| assert_eq!(count(text, 5), Err(why.to_owned()));
        check("5", r#"too large index: "5""#);
        check("x", r#"cannot convert string to integer for index: "x""#);
        check("3,1", "non-increasing order, previous: 3, current: 1");
        check("3-3", "non-increasing order, previous: 3, current: 3");
        check(
            "1-2-3",
            r#"the fragment "1-2-3" violates the requirement that an index interval can have at most two parts separated by '-'"#,
        );
    }

    #[test]
    fn the_first_common_index_is_found() {
        assert_eq!(overlap("0-3,6", "4-7", 10), Some(6));
        assert_eq!(overlap("0-3", "4,x,9", 10), None);
        assert_eq!(overlap("", "1", 10), None);
    }
}
