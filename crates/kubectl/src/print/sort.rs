//! Sorting by a field, as `--sort-by` does it.

use std::cmp::Ordering;

use machinery::Value;
use machinery::json_path::JsonPath;
use machinery::quantity::Quantity;

use crate::error::Error;
use crate::print::custom_columns::relaxed_path;

/// Sorts by the field at a path of each element's object. An object without it comes first.
pub(crate) fn sort_by_field<T>(
    elements: &mut [T],
    path: &str,
    object: impl Fn(&T) -> &Value,
) -> Result<(), Error> {
    let parsed = relaxed_path(path)?;
    let key = |it: &T| parsed.find(object(it)).first().map(|found| (*found).clone());
    if !elements.is_empty() && elements.iter().all(|it| key(it).is_none()) {
        let shown = shown(path, &parsed);
        return Err(Error::message(format!(
            "couldn't find any field with path {shown:?} in the list of objects"
        )));
    }
    elements.sort_by(|left, right| compare(key(left).as_ref(), key(right).as_ref()));
    Ok(())
}

/// The path as kubectl completes it.
fn shown(path: &str, _: &JsonPath) -> String {
    let inner = path.trim_start_matches('{').trim_end_matches('}').trim_start_matches('.');
    format!("{{.{inner}}}")
}

fn compare(left: Option<&Value>, right: Option<&Value>) -> Ordering {
    match (left, right) {
        (None, None) => Ordering::Equal,
        (None, _) => Ordering::Less,
        (_, None) => Ordering::Greater,
        (Some(Value::String(left)), Some(Value::String(right))) => compare_texts(left, right),
        (Some(Value::Number(left)), Some(Value::Number(right))) => {
            left.as_f64().partial_cmp(&right.as_f64()).unwrap_or(Ordering::Equal)
        }
        (Some(left), Some(right)) => left.to_string().cmp(&right.to_string()),
    }
}

/// Amounts are compared by their value; other texts so that `a10` follows `a9`.
fn compare_texts(left: &str, right: &str) -> Ordering {
    if let (Ok(left), Ok(right)) = (Quantity::parse(left), Quantity::parse(right)) {
        return left.sub(&right).milli_value().cmp(&0);
    }
    natural(left, right)
}

/// Compares texts whose runs of digits are numbers.
fn natural(left: &str, right: &str) -> Ordering {
    let (mut left, mut right) = (chunks(left).into_iter(), chunks(right).into_iter());
    loop {
        let (a, b) = match (left.next(), right.next()) {
            (None, None) => return Ordering::Equal,
            (None, _) => return Ordering::Less,
            (_, None) => return Ordering::Greater,
            (Some(a), Some(b)) => (a, b),
        };
        let is_number = |it: &str| it.starts_with(|c: char| c.is_ascii_digit());
        let order = if is_number(a) && is_number(b) {
            let (a, b) = (a.trim_start_matches('0'), b.trim_start_matches('0'));
            a.len().cmp(&b.len()).then_with(|| a.cmp(b))
        } else {
            a.cmp(b)
        };
        if order.is_ne() {
            return order;
        }
    }
}

/// The runs of digits and of other characters.
fn chunks(text: &str) -> Vec<&str> {
    let mut chunks = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_digit = first.is_ascii_digit();
        let end = rest.find(|c: char| c.is_ascii_digit() != is_digit).unwrap_or(rest.len());
        let (chunk, after) = rest.split_at(end);
        chunks.push(chunk);
        rest = after;
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_texts_and_amounts_are_compared_as_numbers() {
        assert_eq!(compare_texts("pod-9", "pod-10"), Ordering::Less);
        assert_eq!(compare_texts("500m", "1"), Ordering::Less);
        assert_eq!(compare_texts("2Gi", "1900Mi"), Ordering::Greater);
        assert_eq!(compare_texts("a", "b"), Ordering::Less);
    }
}
