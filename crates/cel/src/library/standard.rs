//! The language's own functions on strings and collections: `size`, `contains`, `matches` …

use super::{EvalResult, Library, Run, no_such_overload};
use crate::go_regexp::Matcher;
use crate::value::Value;

pub(super) fn declare(library: &mut Library) {
    for (id, declared) in [
        ("size_bytes", "(bytes) -> int"),
        ("bytes_size", "bytes.() -> int"),
        ("size_list", "(list(A)) -> int"),
        ("list_size", "list(A).() -> int"),
        ("size_map", "(map(A, B)) -> int"),
        ("map_size", "map(A, B).() -> int"),
        ("size_string", "(string) -> int"),
        ("string_size", "string.() -> int"),
    ] {
        library.add("size", id, declared, size);
    }
    library.add("contains", "contains_string", "string.(string) -> bool", |args| {
        with_text(args, |text, part| text.contains(part))
    });
    library.add("startsWith", "starts_with_string", "string.(string) -> bool", |args| {
        with_text(args, |text, part| text.starts_with(part))
    });
    library.add("endsWith", "ends_with_string", "string.(string) -> bool", |args| {
        with_text(args, |text, part| text.ends_with(part))
    });
    let run = Run::Regex(matches);
    library.add_overload("matches", "matches", "(string, string) -> bool", run);
    library.add_overload("matches", "matches_string", "string.(string) -> bool", run);
}

fn size<'a>(args: &mut [Value<'a>]) -> EvalResult<'a> {
    let size = match args {
        [Value::String(text)] => text.chars().count(),
        [Value::Bytes(bytes)] => bytes.len(),
        [Value::List(list)] => list.len(),
        [Value::Map(map)] => map.len(),
        _ => return no_such_overload(),
    };
    Ok(Value::Int(i64::try_from(size).unwrap_or(i64::MAX)))
}

fn with_text<'a>(args: &mut [Value<'a>], test: fn(&str, &str) -> bool) -> EvalResult<'a> {
    match args {
        [Value::String(text), Value::String(part)] => Ok(Value::Bool(test(text, part))),
        _ => no_such_overload(),
    }
}

fn matches<'a>(args: &mut [Value<'a>], regex: &Matcher) -> EvalResult<'a> {
    match args {
        [Value::String(text), _] => Ok(Value::Bool(regex.is_match(text))),
        _ => no_such_overload(),
    }
}
