//! Patterns: `find`, `findAll`, and how patterns are compiled.

use regex::{Regex, RegexBuilder};

use super::{Library, Outcome, Run, no_such_overload};
use crate::go_regexp;
use crate::value::{Text, Value};

/// Patterns whose automaton would need more bytes are refused.
const MAX_COMPILED: usize = 1 << 20;

/// The same for patterns that are made while an expression is evaluated.
const MAX_DYNAMIC: usize = 256 << 10;

/// What a thread may keep to match one.
const MAX_CACHE: usize = 256 << 10;

/// Compiles a pattern, or says in cel-go's manner why not.
pub(crate) fn compile(pattern: &str) -> Result<Regex, String> {
    within(pattern, MAX_COMPILED)
}

/// The same for a pattern that is used once or a few times.
pub(crate) fn compile_dynamic(pattern: &str) -> Result<Regex, String> {
    within(pattern, MAX_DYNAMIC)
}

fn within(pattern: &str, limit: usize) -> Result<Regex, String> {
    let pattern = go_regexp::translate(pattern).map_err(|error| error.to_string())?;
    let built = RegexBuilder::new(&pattern)
        .size_limit(limit)
        .dfa_size_limit(MAX_CACHE)
        .nest_limit(100)
        .build();
    built.map_err(|error| {
        let message = error.to_string();
        let reason = message.lines().last().unwrap_or_default();
        format!("error parsing regexp: {}", reason.strip_prefix("error: ").unwrap_or(reason))
    })
}

pub(super) fn declare(library: &mut Library) {
    let run = Run::Regex(find);
    library.add_overload("find", "string_find_string", "string.(string) -> string", run);
    let run = Run::Regex(find_all);
    let all = "string.(string) -> list(string)";
    library.add_overload("findAll", "string_find_all_string", all, run);
    let some = "string.(string, int) -> list(string)";
    library.add_overload("findAll", "string_find_all_string_int", some, run);
}

fn find<'a>(args: &mut [Value<'a>], regex: &Regex) -> Outcome<'a> {
    match args.first() {
        Some(Value::String(text)) => {
            Ok(Value::string(regex.find(text).map_or("", |found| found.as_str())))
        }
        _ => no_such_overload(),
    }
}

fn find_all<'a>(args: &mut [Value<'a>], regex: &Regex) -> Outcome<'a> {
    let limit = match args.get(2) {
        Some(Value::Int(limit)) => usize::try_from(*limit).unwrap_or(usize::MAX),
        _ => usize::MAX,
    };
    match args.first() {
        Some(Value::String(text)) => {
            let found = regex.find_iter(text).take(limit);
            let texts = found.map(|found| Value::String(Text::from(found.as_str().to_owned())));
            Ok(Value::list(texts.collect()))
        }
        _ => no_such_overload(),
    }
}
