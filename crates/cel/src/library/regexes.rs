//! Kubernetes' regex library (`find`, `findAll`), and the compilation of patterns.

use super::{EvalResult, Library, Run, no_such_overload};
use crate::go_regexp::{self, Matcher};
use crate::value::{Text, Value};

/// The maximum memory of a compiled constant pattern, in bytes.
const MAX_COMPILED: usize = 1 << 20;

/// The maximum memory of a pattern that is compiled during an evaluation.
const MAX_DYNAMIC: usize = 256 << 10;

/// Compiles a pattern. The error is cel-go's.
pub(crate) fn compile(pattern: &str) -> Result<Matcher, String> {
    within(pattern, MAX_COMPILED)
}

/// Compiles a pattern that is not a constant.
pub(crate) fn compile_dynamic(pattern: &str) -> Result<Matcher, String> {
    within(pattern, MAX_DYNAMIC)
}

fn within(pattern: &str, limit: usize) -> Result<Matcher, String> {
    go_regexp::compile_within(pattern, limit).map_err(|error| error.to_string())
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

fn find<'a>(args: &mut [Value<'a>], regex: &Matcher) -> EvalResult<'a> {
    match args.first() {
        Some(Value::String(text)) => {
            Ok(Value::string(regex.find(text, 1).first().copied().unwrap_or_default()))
        }
        _ => no_such_overload(),
    }
}

fn find_all<'a>(args: &mut [Value<'a>], regex: &Matcher) -> EvalResult<'a> {
    let limit = match args.get(2) {
        Some(Value::Int(limit)) => usize::try_from(*limit).unwrap_or(usize::MAX),
        _ => usize::MAX,
    };
    match args.first() {
        Some(Value::String(text)) => {
            let found = regex.find(text, limit).into_iter();
            let texts = found.map(|found| Value::String(Text::from(found.to_owned())));
            Ok(Value::list(texts.collect()))
        }
        _ => no_such_overload(),
    }
}
