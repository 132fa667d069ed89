//! cel-go's strings extension. Positions are in code points.

use super::{EvalResult, Library, no_such_overload, string_format};
use crate::error::EvalError;
use crate::value::Value;

pub(super) fn declare(library: &mut Library) {
    library.add("charAt", "string_char_at_int", "string.(int) -> string", char_at);
    library.add("indexOf", "string_index_of_string", "string.(string) -> int", index_of);
    library.add("indexOf", "string_index_of_string_int", "string.(string, int) -> int", index_of);
    library.add(
        "lastIndexOf",
        "string_last_index_of_string",
        "string.(string) -> int",
        last_index_of,
    );
    library.add(
        "lastIndexOf",
        "string_last_index_of_string_int",
        "string.(string, int) -> int",
        last_index_of,
    );
    library.add("lowerAscii", "string_lower_ascii", "string.() -> string", |args| {
        mapped(args, str::to_ascii_lowercase)
    });
    library.add("upperAscii", "string_upper_ascii", "string.() -> string", |args| {
        mapped(args, str::to_ascii_uppercase)
    });
    library.add("trim", "string_trim", "string.() -> string", |args| {
        mapped(args, |text| text.trim().to_owned())
    });
    let two = "string.(string, string) -> string";
    library.add("replace", "string_replace_string_string", two, replace);
    let three = "string.(string, string, int) -> string";
    library.add("replace", "string_replace_string_string_int", three, replace);
    library.add("split", "string_split_string", "string.(string) -> list(string)", split);
    library.add("split", "string_split_string_int", "string.(string, int) -> list(string)", split);
    library.add("substring", "string_substring_int", "string.(int) -> string", substring);
    library.add("substring", "string_substring_int_int", "string.(int, int) -> string", substring);
    library.add("join", "list_join", "list(string).() -> string", join);
    library.add("join", "list_join_string", "list(string).(string) -> string", join);
    library.add("strings.quote", "strings_quote", "(string) -> string", |args| mapped(args, quote));
    library.add("format", "string_format", "string.(list(dyn)) -> string", |args| match args {
        [Value::String(format), Value::List(list)] => {
            string_format::format(format, list).map(Value::string)
        }
        _ => no_such_overload(),
    });
}

pub(super) fn declare_reverse(library: &mut Library) {
    library.add("reverse", "string_reverse", "string.() -> string", |args| {
        mapped(args, |text| text.chars().rev().collect())
    });
}

fn mapped<'a>(args: &mut [Value<'a>], map: fn(&str) -> String) -> EvalResult<'a> {
    match args {
        [Value::String(text)] => Ok(Value::string(map(text))),
        _ => no_such_overload(),
    }
}

fn out_of_range(index: i64) -> EvalError {
    format!("index out of range: {index}").into()
}

/// The index as a position in a text; an error if it is out of range.
fn position(index: i64, characters: &[char]) -> Result<usize, EvalError> {
    let found = usize::try_from(index).ok().filter(|index| *index <= characters.len());
    found.ok_or_else(|| out_of_range(index))
}

fn number<'a>(index: usize) -> Value<'a> {
    Value::Int(i64::try_from(index).unwrap_or(i64::MAX))
}

fn char_at<'a>(args: &mut [Value<'a>]) -> EvalResult<'a> {
    let [Value::String(text), Value::Int(index)] = args else {
        return no_such_overload();
    };
    let characters: Vec<char> = text.chars().collect();
    let at = position(*index, &characters)?;
    Ok(Value::string(characters.get(at).map(char::to_string).unwrap_or_default()))
}

fn index_of<'a>(args: &mut [Value<'a>]) -> EvalResult<'a> {
    let (text, part, from) = match args {
        [Value::String(text), Value::String(part)] => (text, part, 0),
        [Value::String(text), Value::String(part), Value::Int(from)] => (text, part, *from),
        _ => return no_such_overload(),
    };
    let start = usize::try_from(from).map_err(|_| out_of_range(from))?;
    let (text, part): (Vec<char>, Vec<char>) = (text.chars().collect(), part.chars().collect());
    if part.is_empty() {
        return Ok(number(start.min(text.len())));
    }
    let found = text.windows(part.len()).enumerate().skip(start).find(|(_, it)| *it == part);
    Ok(found.map_or(Value::Int(-1), |(index, _)| number(index)))
}

fn last_index_of<'a>(args: &mut [Value<'a>]) -> EvalResult<'a> {
    let (text, part, from) = match args {
        [Value::String(text), Value::String(part)] => (text, part, None),
        [Value::String(text), Value::String(part), Value::Int(from)] => (text, part, Some(*from)),
        _ => return no_such_overload(),
    };
    let (text, part): (Vec<char>, Vec<char>) = (text.chars().collect(), part.chars().collect());
    let last = match from {
        Some(from) => usize::try_from(from).map_err(|_| out_of_range(from))?,
        None => text.len(),
    };
    if part.is_empty() {
        return Ok(number(last.min(text.len())));
    }
    if from.is_some() && last >= text.len() {
        return Ok(Value::Int(-1));
    }
    let windows = text.windows(part.len()).enumerate();
    let found =
        windows.take_while(|(index, _)| *index <= last).filter(|(_, it)| *it == part).last();
    Ok(found.map_or(Value::Int(-1), |(index, _)| number(index)))
}

fn replace<'a>(args: &mut [Value<'a>]) -> EvalResult<'a> {
    let (text, old, new, limit) = match args {
        [Value::String(text), Value::String(old), Value::String(new)] => (text, old, new, None),
        [Value::String(text), Value::String(old), Value::String(new), Value::Int(limit)] => {
            (text, old, new, usize::try_from(*limit).ok())
        }
        _ => return no_such_overload(),
    };
    Ok(Value::string(match limit {
        Some(limit) => text.replacen(&**old, new, limit),
        None => text.replace(&**old, new),
    }))
}

fn split<'a>(args: &mut [Value<'a>]) -> EvalResult<'a> {
    let (text, separator, limit) = match args {
        [Value::String(text), Value::String(separator)] => (text, separator, None),
        [Value::String(text), Value::String(separator), Value::Int(limit)] => {
            (text, separator, usize::try_from(*limit).ok())
        }
        _ => return no_such_overload(),
    };
    if limit == Some(0) {
        return Ok(Value::list(Vec::new()));
    }
    let limit = limit.unwrap_or(usize::MAX);
    let parts: Vec<Value<'a>> = if separator.is_empty() {
        explode(text, limit)
    } else {
        text.splitn(limit, &**separator).map(Value::string).collect()
    };
    Ok(Value::list(parts))
}

/// Splits after every character, for an empty separator.
fn explode<'a>(text: &str, limit: usize) -> Vec<Value<'a>> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        if parts.len() + 1 == limit {
            break;
        }
        let (head, tail) = rest.split_at(character.len_utf8());
        parts.push(Value::string(head));
        rest = tail;
    }
    if !rest.is_empty() {
        parts.push(Value::string(rest));
    }
    parts
}

fn substring<'a>(args: &mut [Value<'a>]) -> EvalResult<'a> {
    let (text, start, end) = match args {
        [Value::String(text), Value::Int(start)] => (text, *start, None),
        [Value::String(text), Value::Int(start), Value::Int(end)] => (text, *start, Some(*end)),
        _ => return no_such_overload(),
    };
    if let Some(end) = end
        && start > end
    {
        return Err(format!("invalid substring range. start: {start}, end: {end}").into());
    }
    let characters: Vec<char> = text.chars().collect();
    let from = position(start, &characters)?;
    let to = end.map_or(Ok(characters.len()), |end| position(end, &characters))?;
    Ok(Value::string(characters[from..to].iter().collect::<String>()))
}

fn join<'a>(args: &mut [Value<'a>]) -> EvalResult<'a> {
    let (list, separator) = match args {
        [Value::List(list)] => (list, ""),
        [Value::List(list), Value::String(separator)] => (list, &**separator),
        _ => return no_such_overload(),
    };
    let mut joined = String::new();
    for (index, value) in list.iter().enumerate() {
        let value = value?;
        let Some(text) = value.as_str() else {
            return Err(format!("join: invalid input: {value}").into());
        };
        if index > 0 {
            joined.push_str(separator);
        }
        joined.push_str(text);
    }
    Ok(Value::string(joined))
}

/// cel-go's `strings.quote`. Unlike Go's `strconv.Quote`, it does not escape unprintable
/// characters.
fn quote(text: &str) -> String {
    let mut quoted = String::from('"');
    for character in text.chars() {
        match strconv::escape(character) {
            Some(escape) => quoted.push_str(escape),
            None => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}
