//! Kubernetes' semver library: `semver('1.2.3-rc.1')`.

use std::any::Any;
use std::cmp::Ordering;

use super::{EvalResult, Library, Plain, no_such_overload};
use crate::value::{Opaque, Value};

const NAME: &str = "kubernetes.Semver";

/// A version; build metadata after `+` is ignored.
#[derive(Debug, PartialEq, Eq)]
struct Semver {
    numbers: [u64; 3],
    pre: Vec<Identifier>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identifier {
    Number(u64),
    Text(String),
}

impl Opaque for Semver {
    fn type_name(&self) -> &'static str {
        NAME
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        other.as_any().downcast_ref::<Self>().is_some_and(|other| self == other)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Semver {
    /// The order of versions; a pre-release comes before its release.
    fn order(&self, other: &Self) -> Ordering {
        self.numbers.cmp(&other.numbers).then_with(|| {
            other
                .pre
                .is_empty()
                .cmp(&self.pre.is_empty())
                .reverse()
                .then_with(|| self.pre.cmp(&other.pre))
        })
    }
}

pub(super) fn declare(library: &mut Library) {
    library.add_type(NAME);
    for (id, declared) in [
        ("string_to_semver", "(string) -> kubernetes.Semver"),
        ("string_bool_to_semver", "(string, bool) -> kubernetes.Semver"),
    ] {
        library.add("semver", id, declared, |args| Ok(Value::opaque(read(args)?)));
    }
    for (id, declared) in [
        ("is_semver_string", "(string) -> bool"),
        ("is_semver_string_bool", "(string, bool) -> bool"),
    ] {
        library.add("isSemver", id, declared, |args| Ok(Value::Bool(read(args).is_ok())));
    }
    let parts: [(&'static str, &str, Plain); 3] = [
        ("major", "semver_major", |args| number(args, 0)),
        ("minor", "semver_minor", |args| number(args, 1)),
        ("patch", "semver_patch", |args| number(args, 2)),
    ];
    for (function, id, run) in parts {
        library.add(function, id, "kubernetes.Semver.() -> int", run);
    }
    let truth = "kubernetes.Semver.(kubernetes.Semver) -> bool";
    library.add("isGreaterThan", "semver_is_greater_than", truth, |args| {
        compare(args, |order| Value::Bool(order.is_gt()))
    });
    library.add("isLessThan", "semver_is_less_than", truth, |args| {
        compare(args, |order| Value::Bool(order.is_lt()))
    });
    let number = "kubernetes.Semver.(kubernetes.Semver) -> int";
    library.add("compareTo", "semver_compare_to", number, |args| {
        compare(args, |order| Value::Int(order as i64))
    });
}

fn read(args: &[Value<'_>]) -> Result<Semver, String> {
    match args {
        [Value::String(text)] | [Value::String(text), Value::Bool(false)] => parse(text),
        [Value::String(text), Value::Bool(true)] => parse(&normalized(text)?),
        _ => Err("no such overload".to_owned()),
    }
}

fn number<'a>(args: &mut [Value<'a>], index: usize) -> EvalResult<'a> {
    match args[0].downcast::<Semver>() {
        Some(own) => Ok(Value::Int(i64::try_from(own.numbers[index]).unwrap_or(i64::MAX))),
        None => no_such_overload(),
    }
}

fn compare<'a>(args: &mut [Value<'a>], map: fn(Ordering) -> Value<'a>) -> EvalResult<'a> {
    match (args[0].downcast::<Semver>(), args[1].downcast::<Semver>()) {
        (Some(own), Some(other)) => Ok(map(own.order(other))),
        _ => no_such_overload(),
    }
}

/// Removes a leading `v` and leading zeros, and adds missing numbers.
fn normalized(text: &str) -> Result<String, String> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let mut parts: Vec<String> = text.splitn(3, '.').map(str::to_owned).collect();
    for part in &mut parts {
        if part.len() > 1 {
            let trimmed = part.trim_start_matches('0');
            let kept = trimmed.starts_with(|it: char| it.is_ascii_digit());
            *part = if kept { trimmed.to_owned() } else { format!("0{trimmed}") };
        }
    }
    if parts.len() < 3 {
        if parts.last().is_some_and(|last| last.contains(['+', '-'])) {
            return Err("short version cannot contain PreRelease/Build meta data".to_owned());
        }
        parts.resize(3, "0".to_owned());
    }
    Ok(parts.join("."))
}

fn parse(text: &str) -> Result<Semver, String> {
    if text.is_empty() {
        return Err("Version string empty".to_owned());
    }
    let parts: Vec<&str> = text.splitn(3, '.').collect();
    let [major, minor, rest] = parts.as_slice() else {
        return Err("No Major.Minor.Patch elements found".to_owned());
    };
    let (rest, build) =
        rest.split_once('+').map_or((*rest, None), |(rest, build)| (rest, Some(build)));
    let (patch, pre) = rest.split_once('-').map_or((rest, None), |(patch, pre)| (patch, Some(pre)));
    let numbers =
        [component(major, "major")?, component(minor, "minor")?, component(patch, "patch")?];
    let mut identifiers = Vec::new();
    for part in pre.iter().flat_map(|pre| pre.split('.')) {
        identifiers.push(identifier(part)?);
    }
    for part in build.iter().flat_map(|build| build.split('.')) {
        if part.is_empty() {
            return Err("Build meta data is empty".to_owned());
        }
        if !has_valid_characters(part) {
            return Err(format!("Invalid character(s) found in build meta data {part:?}"));
        }
    }
    Ok(Semver { numbers, pre: identifiers })
}

fn component(text: &str, which: &str) -> Result<u64, String> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("Invalid character(s) found in {which} number {text:?}"));
    }
    if text.len() > 1 && text.starts_with('0') {
        let mut name = which.to_owned();
        name[..1].make_ascii_uppercase();
        return Err(format!("{name} number must not contain leading zeroes {text:?}"));
    }
    text.parse().map_err(|_| format!("strconv.ParseUint: parsing {text:?}: value out of range"))
}

fn identifier(text: &str) -> Result<Identifier, String> {
    if text.is_empty() {
        return Err("Prerelease is empty".to_owned());
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        if text.len() > 1 && text.starts_with('0') {
            return Err(format!(
                "Numeric PreRelease version must not contain leading zeroes {text:?}"
            ));
        }
        return text
            .parse()
            .map(Identifier::Number)
            .map_err(|_| format!("strconv.ParseUint: parsing {text:?}: value out of range"));
    }
    if !has_valid_characters(text) {
        return Err(format!("Invalid character(s) found in prerelease {text:?}"));
    }
    Ok(Identifier::Text(text.to_owned()))
}

fn has_valid_characters(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}
