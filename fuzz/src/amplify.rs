//! Amplifies small inputs: a part is repeated up to a million times, so that the fuzzer reaches sizes
//! at which quadratic work is visible.

use std::ops::Range;

use libfuzzer_sys::arbitrary::{Result, Unstructured};

use crate::bounds::{SIZE_MAX, record_size};
use machinery::{Map, Value};

/// Replaced by the number of the repetition.
const NUMBER: char = '#';

/// A text with its middle repeated; `#` in it is the number of the repetition.
///
/// The first byte is the number of repetitions, the next two are the bounds of the middle.
pub fn text(bytes: &[u8]) -> String {
    let Some((&[power, from, to], rest)) = bytes.split_first_chunk() else { return String::new() };
    let rest: Vec<char> = String::from_utf8_lossy(rest).chars().collect();
    let from = usize::from(from).min(rest.len());
    let to = usize::from(to).clamp(from, rest.len());
    let collect = |part: &[char]| part.iter().collect::<String>();
    let (head, middle, tail) =
        (collect(&rest[..from]), collect(&rest[from..to]), collect(&rest[to..]));
    let mut text = head;
    for number in 0..1_usize << (power % 21) {
        if middle.is_empty() || text.len() + middle.len() + 8 > SIZE_MAX {
            break;
        }
        text += &middle.replace(NUMBER, &number.to_string());
    }
    text += &tail;
    record_size(text.len());
    text
}

/// Repeats an element of some list in the value, or an entry of some map.
pub fn amplify(bytes: &mut Unstructured<'_>, value: &mut Value) -> Result<()> {
    // Most inputs stay small, so that the fuzzer runs many of them.
    if !bytes.ratio(1, 8)? {
        return Ok(());
    }
    let count = 1_usize << bytes.int_in_range(1..=18)?;
    let is_numbered: bool = bytes.arbitrary()?;
    repeat(bytes, value, 0..count, is_numbered)
}

/// Two copies of a value, in which the same element or entry is repeated with different numbers.
pub fn amplify_two(bytes: &mut Unstructured<'_>, value: Value) -> Result<(Value, Value)> {
    let count = 1_usize << bytes.int_in_range(1..=18)?;
    let (mut old, mut new) = (value.clone(), value);
    // Both copies read the same bytes, and therefore select the same element.
    let rest = bytes.peek_bytes(bytes.len()).unwrap_or_default();
    repeat(&mut Unstructured::new(rest), &mut old, 0..count, true)?;
    repeat(&mut Unstructured::new(rest), &mut new, count..2 * count, true)?;
    Ok((old, new))
}

/// Repeats an element or an entry that `bytes` choose, once for each number.
fn repeat(
    bytes: &mut Unstructured<'_>,
    value: &mut Value,
    numbers: Range<usize>,
    is_numbered: bool,
) -> Result<()> {
    let mut place = value;
    loop {
        let is_leaf = |it: &Value| !it.is_array() && !it.is_object();
        match place {
            Value::Array(list) if !list.is_empty() => {
                let at = bytes.int_in_range(0..=list.len() - 1)?;
                if list[at].is_object() && bytes.ratio(1, 4)? {
                    add_empty_objects(list, numbers.len() << 2);
                    return Ok(());
                }
                if is_leaf(&list[at]) || bytes.arbitrary()? {
                    let size = list[at].to_string().len() + 8;
                    let numbers = numbers.take(SIZE_MAX / 2 / size);
                    record_size(numbers.len() * size);
                    let one = list[at].clone();
                    list.extend(numbers.map(|number| numbered(&one, number, is_numbered)));
                    return Ok(());
                }
                place = &mut list[at];
            }
            Value::Object(map) if !map.is_empty() => {
                let at = bytes.int_in_range(0..=map.len() - 1)?;
                let key = map.keys().nth(at).cloned().unwrap_or_default();
                if is_leaf(&map[&key]) || bytes.arbitrary()? {
                    repeat_entry(map, &key, numbers, is_numbered);
                    return Ok(());
                }
                place = &mut map[&key];
            }
            _ => return Ok(()),
        }
    }
}

/// Adds empty objects, the elements with the most memory for their size in the body. Their number is
/// limited rather than their memory, so the bounds are those of the largest body.
fn add_empty_objects(list: &mut Vec<Value>, count: usize) {
    const SIZE: usize = "{},".len();
    record_size(SIZE_MAX);
    let count = count.min((SIZE_MAX - (64 << 10)) / SIZE);
    list.extend((0..count).map(|_| Value::Object(Map::new())));
}

fn repeat_entry(map: &mut Map<String, Value>, key: &str, numbers: Range<usize>, is_numbered: bool) {
    let size = key.len() + map[key].to_string().len() + 12;
    let numbers = numbers.take(SIZE_MAX / 2 / size);
    record_size(numbers.len() * size);
    let one = map[key].clone();
    for number in numbers {
        map.insert(format!("{key}{number}"), numbered(&one, number, is_numbered));
    }
}

/// A copy; with a number, its texts differ from those of other copies.
fn numbered(value: &Value, number: usize, is_numbered: bool) -> Value {
    match value {
        Value::String(text) if is_numbered => format!("{text}{number}").into(),
        Value::Number(_) if is_numbered => number.into(),
        Value::Object(map) if is_numbered => {
            let members = map.iter();
            Value::Object(
                members.map(|(key, it)| (key.clone(), numbered(it, number, true))).collect(),
            )
        }
        other => other.clone(),
    }
}
