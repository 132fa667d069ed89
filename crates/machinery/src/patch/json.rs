//! JSON patch, RFC 6902: a list of operations, all of which must succeed.
//!
//! It goes further than the RFC where upstream's library does: what an object has not is null to
//! `test`, `copy` and `replace`, a negative array index counts from the end, and what stands before
//! the first slash of a path does not matter.
//!
//! A document cannot be made larger than `copy` may make it, nor deeper than a document that is
//! read may be: each operation alone is harmless, but a document that is copied into its own
//! innermost value doubles its depth each time.

use crate::Value;
use crate::codec::{self, json::DEPTH_MAX};
use json_patch::jsonptr::{Pointer, PointerBuf};
use json_patch::{AddOperation, PatchErrorKind, PatchOperation};

/// More operations than this are refused.
pub const OPERATIONS_MAX: usize = 10_000;
/// `copy` may add this many bytes to a document, all operations together; a document that is
/// copied into itself doubles each time.
pub const COPIED_MAX: usize = 3 << 20;

/// Why a patch was not applied. The document is then as it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// It is no list of objects: a bad request. The message is for the client.
    #[error("error decoding patch: {0}")]
    Malformed(String),
    /// The request is too large.
    #[error("The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {0}")]
    TooManyOperations(usize),
    /// An operation that does not exist or lacks a part, or whose path leads nowhere.
    #[error("operation {index} does not apply: {why}")]
    DoesNotApply {
        /// Which operation, counted from zero.
        index: usize,
        /// For people.
        why: String,
    },
    /// A `test` did not hold.
    #[error("testing value {path} failed")]
    TestFailed {
        /// What was tested.
        path: String,
    },
}

/// Applies the patch to `doc`, all of it or nothing.
pub fn apply(doc: &mut Value, patch: &[u8]) -> Result<(), PatchError> {
    let operations = decode(patch)?;
    let mut draft = doc.clone();
    let mut copied = 0;
    let mut deepest = depth(&draft);
    for (index, operation) in operations.into_iter().enumerate() {
        let fail = |why: String| PatchError::DoesNotApply { index, why };
        let operation = completed(operation).map_err(fail)?;
        let mut operation: PatchOperation =
            serde_json::from_value(operation).map_err(|error| fail(error.to_string()))?;
        count_from_the_end(&mut operation, &draft);
        let operation = without_absentees(operation, &draft);
        deepest = deepest.max(depth_of_addition(&operation, deepest));
        if deepest > DEPTH_MAX {
            return Err(fail(format!("nesting deeper than {DEPTH_MAX}")));
        }
        match &operation {
            PatchOperation::Test(test)
                if test.value.is_null() && test.path.resolve(&draft).is_err() =>
            {
                continue;
            }
            PatchOperation::Copy(copy) => {
                copied += copy.from.resolve(&draft).map_or(0, |source| source.to_string().len());
                if copied > COPIED_MAX {
                    return Err(fail(format!("copying more than {COPIED_MAX} bytes")));
                }
            }
            _ => {}
        }
        json_patch::patch_unsafe(&mut draft, std::slice::from_ref(&operation)).map_err(
            |error| match error.kind {
                PatchErrorKind::TestFailed => {
                    PatchError::TestFailed { path: error.path.to_string() }
                }
                kind => fail(kind.to_string()),
            },
        )?;
    }
    *doc = draft;
    Ok(())
}

fn decode(patch: &[u8]) -> Result<Vec<Value>, PatchError> {
    let decoded =
        codec::json::decode(patch).map_err(|error| PatchError::Malformed(error.to_string()))?;
    let mismatch = |value: &Value, into: &str| {
        let kind = codec::json::kind_name(value);
        PatchError::Malformed(format!("json: cannot unmarshal {kind} into Go value of type {into}"))
    };
    let operations = match decoded.value {
        Value::Array(operations) => operations,
        Value::Null => Vec::new(),
        other => return Err(mismatch(&other, "[]handlers.jsonPatchOp")),
    };
    if let Some(odd) = operations.iter().find(|operation| !operation.is_object()) {
        return Err(mismatch(odd, "handlers.jsonPatchOp"));
    }
    if operations.len() > OPERATIONS_MAX {
        return Err(PatchError::TooManyOperations(operations.len()));
    }
    Ok(operations)
}

/// Upstream: a value that is not there is null, and nothing can be added to the document itself.
fn completed(mut operation: Value) -> Result<Value, String> {
    for key in ["path", "from"] {
        if let Some(Value::String(path)) = operation.get_mut(key)
            && let Some(slash) = path.find('/')
        {
            path.drain(..slash);
        }
    }
    if matches!(operation["op"].as_str(), Some("add" | "replace"))
        && let Some(map) = operation.as_object_mut()
    {
        if map["op"] == "add" && map.get("path").and_then(Value::as_str) == Some("") {
            return Err("nothing can be added to a document".to_owned());
        }
        map.entry("value").or_insert(Value::Null);
    }
    Ok(operation)
}

/// The same operation for a document that has what the operation takes to be there.
fn without_absentees(operation: PatchOperation, doc: &Value) -> PatchOperation {
    let is_absent = |path: &Pointer| {
        let parent = path.split_back().and_then(|(parent, _)| parent.resolve(doc).ok());
        parent.is_some_and(Value::is_object) && path.resolve(doc).is_err()
    };
    match operation {
        PatchOperation::Replace(it) if is_absent(&it.path) => {
            PatchOperation::Add(AddOperation { path: it.path, value: it.value })
        }
        PatchOperation::Copy(it) if is_absent(&it.from) => {
            PatchOperation::Add(AddOperation { path: it.path, value: Value::Null })
        }
        other => other,
    }
}

/// Makes `/list/-1` mean the last element, or for who adds one the place after it.
fn count_from_the_end(operation: &mut PatchOperation, doc: &Value) {
    let (added, found) = match operation {
        PatchOperation::Add(operation) => (Some(&mut operation.path), None),
        PatchOperation::Remove(operation) => (None, Some(&mut operation.path)),
        PatchOperation::Replace(operation) => (None, Some(&mut operation.path)),
        PatchOperation::Test(operation) => (None, Some(&mut operation.path)),
        PatchOperation::Move(operation) => (Some(&mut operation.path), Some(&mut operation.from)),
        PatchOperation::Copy(operation) => (Some(&mut operation.path), Some(&mut operation.from)),
    };
    for (path, more) in [(added, 1), (found, 0)] {
        let Some(path) = path else { continue };
        if let Some(absolute) = from_the_end(path, doc, more) {
            *path = absolute;
        }
    }
}

/// The path in a list that has `more` elements than it has now.
fn from_the_end(path: &Pointer, doc: &Value, more: usize) -> Option<PointerBuf> {
    let (parent, last) = path.split_back()?;
    let back: usize = last.decoded().strip_prefix('-')?.parse().ok()?;
    let list = parent.resolve(doc).ok()?.as_array()?;
    let mut absolute = parent.to_buf();
    absolute.push_back((list.len() + more).checked_sub(back)?);
    Some(absolute)
}

/// How deep, at most, a document of depth `deepest` becomes where the operation puts something.
///
/// What is moved or copied is not measured but taken to be as deep as the document is: to go
/// through it each time would make a long patch of a large document slow.
fn depth_of_addition(operation: &PatchOperation, deepest: usize) -> usize {
    let taken =
        |path: &Pointer, from: &Pointer| path.count() + deepest.saturating_sub(from.count());
    match operation {
        PatchOperation::Add(operation) => operation.path.count() + depth(&operation.value),
        PatchOperation::Replace(operation) => operation.path.count() + depth(&operation.value),
        PatchOperation::Move(operation) => taken(&operation.path, &operation.from),
        PatchOperation::Copy(operation) => taken(&operation.path, &operation.from),
        PatchOperation::Remove(_) | PatchOperation::Test(_) => 0,
    }
}

/// Levels of nesting; none for a scalar.
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
                assert_eq!(doc, before, "a failed patch left its traces");
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
    fn upstreams_extensions() {
        let same = r#"{"a":"1","b":["x","y"],"c/d":{"e~f":null}}"#;
        check(r#"[{"op":"test","path":"/metadata/finalizers","value":null}]"#, same);
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
            r#"[{"op":"replace","path":"/n","value":2},{"op":"copy","from":"/o","path":"/p"},
                {"op":"remove","path":"/c~1d"},{"op":"remove","path":"ignored/b"}]"#,
            r#"{"a":"1","n":2,"p":null}"#,
        );
        check(r#"[{"op":"replace","path":"","value":{"z":1}}]"#, r#"{"z":1}"#);
    }

    #[test]
    fn a_failure_says_which_and_changes_nothing() {
        check(
            r#"[{"op":"remove","path":"/a"},{"op":"test","path":"/b","value":[]}]"#,
            "testing value /b failed",
        );
        check(
            r#"[{"op":"remove","path":"/nothing"}]"#,
            "operation 0 does not apply: path is invalid",
        );
        check(
            r#"[{"op":"twist","path":"/a"}]"#,
            "operation 0 does not apply: unknown variant `twist`, expected one of `add`, `remove`, `replace`, `move`, `copy`, `test`",
        );
    }

    #[test]
    fn what_is_no_list_of_operations_does_not_parse() {
        check(
            r#"{"data":{"k":"v"}}"#,
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
        );
        check(
            "[1]",
            "error decoding patch: json: cannot unmarshal number into Go value of type handlers.jsonPatchOp",
        );
        check("[", "error decoding patch: unexpected end of JSON input");
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
    fn a_document_cannot_be_nested_without_end() {
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
    fn there_are_limits() {
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
