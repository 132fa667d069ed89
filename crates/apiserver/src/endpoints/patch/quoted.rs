//! A patched object of a built-in kind, as messages quote it.

use machinery::{Map, Object, Value};

/// The order in which Go writes the fields of metadata.
const METADATA: [&str; 15] = [
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
];
const OWNER: [&str; 6] = ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];
const MANAGED: [&str; 7] =
    ["manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1", "subresource"];

/// The object with its members sorted, and its metadata in the order of Go's type unless a patch
/// has taken it apart.
pub(super) fn as_go_writes(object: &Object, metadata_is_sorted: bool) -> String {
    let order = if metadata_is_sorted { &[][..] } else { &METADATA[..] };
    ordered(object.map(), &[], |key, value| match (key, value) {
        ("metadata", Value::Object(metadata)) => ordered(metadata, order, |key, value| match key {
            "ownerReferences" => list(value, &OWNER),
            "managedFields" => list(value, &MANAGED),
            _ => value.to_string(),
        }),
        _ => value.to_string(),
    })
}

fn list(value: &Value, order: &[&str]) -> String {
    let Value::Array(items) = value else { return value.to_string() };
    let items = items.iter().map(|item| match item {
        Value::Object(map) => ordered(map, order, |_, value| value.to_string()),
        other => other.to_string(),
    });
    format!("[{}]", items.collect::<Vec<_>>().join(","))
}

/// First the fields that have an order, then the rest as it comes.
fn ordered(
    map: &Map<String, Value>,
    order: &[&str],
    text: impl Fn(&str, &Value) -> String,
) -> String {
    let known = order.iter().filter_map(|it| map.get_key_value(*it));
    let rest = map.iter().filter(|(key, _)| !order.contains(&key.as_str()));
    let fields = known
        .chain(rest)
        .map(|(key, value)| format!("{}:{}", Value::from(&**key), text(key, value)));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use machinery::json;

    #[test]
    fn metadata_keeps_the_order_of_its_type_until_a_patch_takes_it_apart() {
        let object = Object::from_value(json!({"kind": "ConfigMap", "data": {}, "metadata": {
            "creationTimestamp": null, "name": "a",
            "managedFields": [{"fieldsType": "FieldsV1", "manager": "m"}]}}))
        .unwrap();
        let managed = r#""managedFields":[{"manager":"m","fieldsType":"FieldsV1"}]"#;
        assert_eq!(
            as_go_writes(&object, false),
            format!(
                r#"{{"data":{{}},"kind":"ConfigMap","metadata":{{"name":"a","creationTimestamp":null,{managed}}}}}"#
            )
        );
        assert_eq!(
            as_go_writes(&object, true),
            format!(
                r#"{{"data":{{}},"kind":"ConfigMap","metadata":{{"creationTimestamp":null,{managed},"name":"a"}}}}"#
            )
        );
    }
}
