//! [`changed_fields`]: the paths in which two states of an object differ.
//!
//! ```text
//! {"spec":{"replicas":1}} → {"spec":{"replicas":3}}      .spec.replicas
//! ```

use informer::Item;
use machinery::Value;

/// The largest number of paths.
const MAX_PATHS: usize = 16;

/// Fields that change with every write and are not reported.
const IGNORED_FIELDS: [&str; 2] = [".metadata.managedFields", ".metadata.resourceVersion"];

/// The deepest paths at which `old` and `new` differ, at most sixteen of them; none if one of the
/// states cannot be decoded.
pub(crate) fn changed_fields(old: &Item, new: &Item) -> Vec<String> {
    let mut paths = Vec::new();
    if let (Ok(old), Ok(new)) = (old.object(), new.object()) {
        compare(&old.into_value(), &new.into_value(), "", &mut paths);
    }
    paths
}

fn compare(old: &Value, new: &Value, path: &str, paths: &mut Vec<String>) {
    if old == new || paths.len() == MAX_PATHS || IGNORED_FIELDS.contains(&path) {
        return;
    }
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            let added = new.keys().filter(|key| !old.contains_key(*key));
            for key in old.keys().chain(added) {
                let (old, new) = (old.get(key), new.get(key));
                let child = format!("{path}.{key}");
                compare(old.unwrap_or(&Value::Null), new.unwrap_or(&Value::Null), &child, paths);
            }
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            for (index, (old, new)) in old.iter().zip(new).enumerate() {
                compare(old, new, &format!("{path}[{index}]"), paths);
            }
        }
        _ => paths.push(path.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(old: &str, new: &str) -> Vec<String> {
        let item = |rest: &str| {
            Item::parse(
                format!(
                    r#"{{"metadata":{{"name":"a","resourceVersion":"{}"}},{rest}}}"#,
                    rest.len()
                )
                .into_bytes(),
            )
            .unwrap()
        };
        changed_fields(&item(old), &item(new))
    }

    #[test]
    fn changed_fields_are_the_deepest_paths() {
        assert_eq!(changes(r#""spec":{"a":1,"b":2}"#, r#""spec":{"a":1,"b":30}"#), [".spec.b"]);
        assert_eq!(changes(r#""spec":{}"#, r#""spec":{},"status":{"x":1}"#), [".status"]);
        assert_eq!(changes(r#""l":[{"a":1},{"a":2}]"#, r#""l":[{"a":1},{"a":33}]"#), [".l[1].a"]);
        assert_eq!(changes(r#""l":[1]"#, r#""l":[1,2]"#), [".l"]);
    }

    #[test]
    fn the_number_of_paths_is_limited() {
        let many = |value| {
            let fields: Vec<_> = (0..50).map(|n| format!(r#""f{n}":{value}"#)).collect();
            fields.join(",")
        };
        assert_eq!(changes(&many(1), &many(2)).len(), MAX_PATHS);
    }
}
