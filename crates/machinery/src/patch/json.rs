//! JSON patch, RFC 6902: a list of operations, all of which must succeed.
//!
//! Like upstream's library, it is less strict than the RFC: a missing value is null, so it can be
//! tested, copied and replaced; a negative array index counts from the end; and the text before the
//! first slash of a path is ignored.
//!
//! The bytes that `copy` adds, the depth of the result, and the number of list elements that
//! insertions and removals shift are limited: repeated cheap operations could otherwise exhaust
//! memory, stack or time. For example, a document that is copied into its own innermost value
//! doubles its depth each time.

mod place;

use crate::codec::json::DEPTH_MAX;
use crate::{Map, Value, codec};
use place::Place;

/// More operations than this are refused.
pub const OPERATIONS_MAX: usize = 10_000;
/// The number of bytes that all `copy` operations together may add.
pub const COPIED_MAX: usize = 3 << 20;

/// The number of list elements that all operations together may shift by insertions and removals:
/// the most that [`OPERATIONS_MAX`] operations on a list of 10,000 elements can shift.
pub const SHIFTED_MAX: usize = 100_000_000;

/// Why a patch was not applied. The document is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The patch is not a list of objects: 400.
    #[error("{0}")]
    Malformed(String),
    /// The patch has too many operations: 413.
    #[error("The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {0}")]
    TooManyOperations(usize),
    /// An operation is unknown or incomplete, exceeds a limit, or its path does not exist.
    #[error("operation {index} does not apply: {why}")]
    DoesNotApply {
        /// Which operation, counted from zero.
        index: usize,
        /// The reason, as text.
        why: String,
    },
    /// A `test` did not hold.
    #[error("testing value {path} failed")]
    TestFailed {
        /// The tested path.
        path: String,
    },
}

/// Applies the patch to `doc`, all of it or nothing.
pub fn apply(doc: &mut Value, patch: &[u8]) -> Result<(), PatchError> {
    let operations = decode(patch)?;
    let mut draft = doc.clone();
    let mut limits = Limits { copied: 0, shifted: 0, deepest: depth(&draft) };
    for (index, operation) in operations.into_iter().enumerate() {
        let why = match step(&mut draft, operation, &mut limits) {
            Ok(()) => continue,
            Err(Failure::Test(path)) => return Err(PatchError::TestFailed { path }),
            Err(Failure::Other(why)) => why,
        };
        return Err(PatchError::DoesNotApply { index, why });
    }
    *doc = draft;
    Ok(())
}

fn decode(patch: &[u8]) -> Result<Vec<Map<String, Value>>, PatchError> {
    // Upstream's library edits the text of a document, so 1.0 in a patch stays 1.0.
    let decoded = codec::json::decode_exact(patch)
        .map_err(|error| PatchError::Malformed(error.to_string()))?;
    let mismatch = |value: &Value, into: &str| {
        let kind = codec::json::kind_name(value);
        PatchError::Malformed(format!("json: cannot unmarshal {kind} into Go value of type {into}"))
    };
    let operations = match decoded.value {
        Value::Array(operations) => operations,
        Value::Null => Vec::new(),
        other => return Err(mismatch(&other, "jsonpatch.Patch")),
    };
    if operations.len() > OPERATIONS_MAX {
        return Err(PatchError::TooManyOperations(operations.len()));
    }
    let operations = operations.into_iter().map(|operation| match operation {
        Value::Object(operation) => Ok(operation),
        Value::Null => Ok(Map::new()),
        other => Err(mismatch(&other, "jsonpatch.Operation")),
    });
    operations.collect()
}

/// Why one operation failed.
enum Failure {
    /// A `test` of this path did not hold.
    Test(String),
    Other(String),
}

/// Counts what all operations together did, and fails beyond the limits.
struct Limits {
    copied: usize,
    shifted: usize,
    deepest: usize,
}

impl Limits {
    /// Counts a value of this depth that is set at a path.
    fn count_set(&mut self, path: &str, levels: usize) -> Result<(), Failure> {
        self.deepest = self.deepest.max(path.matches('/').count() + levels);
        if self.deepest > DEPTH_MAX {
            return Err(Failure::Other(format!("nesting deeper than {DEPTH_MAX}")));
        }
        Ok(())
    }

    /// Counts a value that is copied or moved to a path. Its depth is not measured but assumed to
    /// be the greatest possible: measuring it each time would make a long patch of a large document
    /// slow.
    fn count_transfer(&mut self, from: &str, path: &str) -> Result<(), Failure> {
        self.count_set(path, self.deepest.saturating_sub(from.matches('/').count()))
    }

    /// Counts list elements that an insertion or a removal shifts.
    fn count_shift(&mut self, elements: usize) -> Result<(), Failure> {
        self.shifted = self.shifted.saturating_add(elements);
        if self.shifted > SHIFTED_MAX {
            return Err(Failure::Other(format!("shifting more than {SHIFTED_MAX} list elements")));
        }
        Ok(())
    }
}

fn step(
    doc: &mut Value,
    mut operation: Map<String, Value>,
    limits: &mut Limits,
) -> Result<(), Failure> {
    let mut text = |member: &str| match operation.remove(member) {
        Some(Value::String(text)) => Ok(text),
        _ => Err(Failure::Other(format!("no {member}"))),
    };
    let kind = text("op")?;
    let path = text("path")?;
    let from = if matches!(kind.as_str(), "move" | "copy") { text("from")? } else { String::new() };
    let value = operation.remove("value").unwrap_or_default();
    match kind.as_str() {
        "add" => {
            limits.count_set(&path, depth(&value))?;
            Place::find(doc, &path)?.add(value, limits)
        }
        "replace" if path.is_empty() => {
            if !matches!(value, Value::Object(_) | Value::Array(_)) {
                return Err(Failure::Other("a document must be an object or a list".to_owned()));
            }
            limits.count_set(&path, depth(&value))?;
            *doc = value;
            Ok(())
        }
        "replace" => {
            limits.count_set(&path, depth(&value))?;
            let place = Place::find(doc, &path)?;
            place.get()?;
            place.set(value)
        }
        "remove" => Place::find(doc, &path)?.remove(limits).map(drop),
        "move" => {
            limits.count_transfer(&from, &path)?;
            let place = Place::find(doc, &from)?;
            place.get()?;
            let value = place.remove(limits)?;
            Place::find(doc, &path)?.add(value, limits)
        }
        "copy" => {
            limits.count_transfer(&from, &path)?;
            let place = Place::find(doc, &from)?;
            let source = place.get()?.unwrap_or(&Value::Null);
            // The size is checked before the copy is made.
            limits.copied += source.to_string().len();
            if limits.copied > COPIED_MAX {
                return Err(Failure::Other(format!("copying more than {COPIED_MAX} bytes")));
            }
            let value = source.clone();
            Place::find(doc, &path)?.add(value, limits)
        }
        "test" => {
            let holds = if path.is_empty() {
                *doc == value
            } else {
                Place::find(doc, &path)?.get()?.unwrap_or(&Value::Null) == &value
            };
            if holds { Ok(()) } else { Err(Failure::Test(path)) }
        }
        other => Err(Failure::Other(format!("unexpected kind: {other}"))),
    }
}

/// The levels of nesting; 0 for a scalar.
fn depth(value: &Value) -> usize {
    let below = match value {
        Value::Array(list) => list.iter().map(depth).max(),
        Value::Object(map) => map.values().map(depth).max(),
        _ => return 0,
    };
    1 + below.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    /// Applies `patch` to a fixed document and prints the result or the error.
    fn check(patch: &str, expected: &str) {
        let before = json!({"a": "1", "b": ["x", "y"], "c/d": {"e~f": null}});
        let mut doc = before.clone();
        match apply(&mut doc, patch.as_bytes()) {
            Ok(()) => assert_eq!(doc.to_string(), expected, "{patch}"),
            Err(error) => {
                assert_eq!(error.to_string(), expected, "{patch}");
                assert_eq!(doc, before, "a failed patch changed the document");
            }
        }
    }

    #[test]
    fn operations_apply_in_order() {
        check(
            r#"[{"op":"replace","path":"/a","value":"2"},{"op":"remove","path":"/c~1d"},
                {"op":"add","path":"/b/-","value":"z"},{"op":"add","path":"/b/0","value":"w"}]"#,
            r#"{"a":"2","b":["w","x","y","z"]}"#,
        );
        check(
            r#"[{"op":"test","path":"/a","value":"1"},{"op":"move","from":"/a","path":"/w"},
                {"op":"copy","from":"/b/0","path":"/v"},{"op":"remove","path":"/c~1d"}]"#,
            r#"{"b":["x","y"],"v":"x","w":"1"}"#,
        );
    }

    #[test]
    fn missing_values_are_null_and_negative_indices_count_from_the_end() {
        let same = r#"{"a":"1","b":["x","y"],"c/d":{"e~f":null}}"#;
        check(r#"[{"op":"test","path":"/c~1d/finalizers","value":null}]"#, same);
        check(r#"[{"op":"test","path":"/c~1d/e~0f","value":null}]"#, same);
        check(
            r#"[{"op":"replace","path":"/b/-1","value":"z"},{"op":"remove","path":"/c~1d"}]"#,
            r#"{"a":"1","b":["x","z"]}"#,
        );
        check(
            r#"[{"op":"add","path":"/b/-1","value":"z"},{"op":"remove","path":"/c~1d"}]"#,
            r#"{"a":"1","b":["x","y","z"]}"#,
        );
        check(
            r#"[{"op":"replace","path":"/n","value":1},{"op":"copy","from":"/m","path":"/o"},
                {"op":"test","path":"/p"},{"op":"remove","path":"/c~1d"}]"#,
            r#"{"a":"1","b":["x","y"],"n":1,"o":null}"#,
        );
        check(r#"[{"op":"replace","path":"","value":{"z":1}}]"#, r#"{"z":1}"#);
    }

    #[test]
    fn paths_that_do_not_exist_are_refused() {
        for patch in [
            r#"[{"op":"add","path":"","value":{}}]"#,
            r#"[{"op":"add","path":"x","value":1}]"#,
            r#"[{"op":"add","path":"/x/y","value":1}]"#,
            r#"[{"op":"add","path":"/a/y","value":1}]"#,
            r#"[{"op":"add","path":"/b/5","value":1}]"#,
            r#"[{"op":"add","path":"/b/x","value":1}]"#,
            r#"[{"op":"replace","path":"/b/2","value":1}]"#,
            r#"[{"op":"remove","path":""}]"#,
            r#"[{"op":"remove","path":"/b/-3"}]"#,
            r#"[{"op":"move","from":"/x","path":"/y"}]"#,
            r#"[{"op":"move","path":"/y"}]"#,
            r#"[{"path":"/y"}]"#,
            "[null]",
        ] {
            let mut doc = json!({"a": "1", "b": ["x", "y"]});
            let result = apply(&mut doc, patch.as_bytes());
            assert!(matches!(result, Err(PatchError::DoesNotApply { .. })), "{patch}: {result:?}");
        }
    }

    #[test]
    fn a_failure_names_the_operation_and_changes_nothing() {
        check(
            r#"[{"op":"remove","path":"/a"},{"op":"test","path":"/b","value":[]}]"#,
            "testing value /b failed",
        );
        check(
            r#"[{"op":"remove","path":"/nothing"}]"#,
            "operation 0 does not apply: no value at \"nothing\"",
        );
        check(
            r#"[{"op":"twist","path":"/a"}]"#,
            "operation 0 does not apply: unexpected kind: twist",
        );
    }

    #[test]
    fn only_a_list_of_operations_parses() {
        check(
            r#"{"data":{"k":"v"}}"#,
            "json: cannot unmarshal object into Go value of type jsonpatch.Patch",
        );
        check("[1]", "json: cannot unmarshal number into Go value of type jsonpatch.Operation");
        check("[", "unexpected end of JSON input");
    }

    #[test]
    fn deep_values_are_safe_on_a_small_stack() {
        let depth = DEPTH_MAX - 2;
        let deep = "[".repeat(depth) + &"]".repeat(depth);
        let patch = format!(r#"[{{"op":"add","path":"/a","value":{deep}}}]"#);
        let applied = std::thread::Builder::new()
            .stack_size(2 << 20)
            .spawn(move || apply(&mut json!({}), patch.as_bytes()));
        assert_eq!(applied.unwrap().join().unwrap(), Ok(()));
    }

    #[test]
    fn the_depth_of_the_result_is_limited() {
        let levels = DEPTH_MAX - 100;
        let deep = r#"{"a":"#.repeat(levels) + "1" + &"}".repeat(levels);
        let before = codec::json::decode(deep.as_bytes()).unwrap().value;
        let innermost = "/a".repeat(levels);
        let deepen = [
            json!([{"op": "copy", "from": "", "path": innermost}]),
            json!([{"op": "copy", "from": "/a/a", "path": innermost}]),
            json!([{"op": "add", "path": innermost, "value": before}]),
            json!([{"op": "replace", "path": innermost, "value": before}]),
            json!([{"op": "add", "path": "/b", "value": before},
                {"op": "move", "from": "/b", "path": innermost}]),
        ];
        for patch in deepen {
            let mut doc = before.clone();
            let result = apply(&mut doc, patch.to_string().as_bytes());
            assert!(matches!(result, Err(PatchError::DoesNotApply { .. })), "{result:?}");
            assert_eq!(doc, before);
        }
    }

    #[test]
    fn the_number_of_shifted_list_elements_is_limited() {
        let mut doc = json!({"a": vec![0; 100_000]});
        let from_the_front = vec![json!({"op": "remove", "path": "/a/0"}); OPERATIONS_MAX];
        let result = apply(&mut doc, Value::from(from_the_front).to_string().as_bytes());
        assert!(matches!(result, Err(PatchError::DoesNotApply { .. })), "{result:?}");
        let from_the_end = vec![json!({"op": "remove", "path": "/a/-1"}); OPERATIONS_MAX];
        assert_eq!(apply(&mut doc, Value::from(from_the_end).to_string().as_bytes()), Ok(()));
        let mut short = json!({"a": vec![0; OPERATIONS_MAX]});
        let all = vec![json!({"op": "remove", "path": "/a/0"}); OPERATIONS_MAX];
        assert_eq!(apply(&mut short, Value::from(all).to_string().as_bytes()), Ok(()));
    }

    #[test]
    fn the_number_of_operations_and_the_copied_bytes_are_limited() {
        let many = vec![json!({"op": "remove", "path": "/a"}); OPERATIONS_MAX + 1];
        check(
            &Value::from(many).to_string(),
            "The allowed maximum operations in a JSON patch is 10000, got 10001",
        );
        let mut doc = json!({"a": ["x".repeat(1000)]});
        let doubling = vec![json!({"op": "copy", "from": "/a", "path": "/a/-"}); 100];
        let result = apply(&mut doc, Value::from(doubling).to_string().as_bytes());
        assert!(matches!(result, Err(PatchError::DoesNotApply { index: 11, .. })), "{result:?}");
    }
}
