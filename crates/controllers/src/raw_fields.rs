//! [`RawFields`]: a JSON object whose fields stay encoded. A copy shares the fields, so that many pods
//! of one template, each with a field of its own, take little more memory than the template.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

/// See the [module documentation](self).
#[derive(Debug, Clone, Default)]
pub(crate) struct RawFields(BTreeMap<String, Arc<RawValue>>);

impl RawFields {
    /// The fields of an encoded object.
    pub(crate) fn parse(object: &RawValue) -> serde_json::Result<Self> {
        let fields: BTreeMap<String, Box<RawValue>> = serde_json::from_str(object.get())?;
        Ok(Self(fields.into_iter().map(|(name, value)| (name, value.into())).collect()))
    }

    /// The fields of a decoded object.
    pub(crate) fn encode(object: &Map<String, Value>) -> Self {
        let mut fields = Self::default();
        for (name, value) in object {
            fields.set(name, value);
        }
        fields
    }

    /// The size of all values.
    pub(crate) fn size(&self) -> usize {
        self.0.values().map(|value| value.get().len()).sum()
    }

    /// The value of a field.
    pub(crate) fn get(&self, name: &str) -> Option<Value> {
        self.0.get(name).and_then(|value| serde_json::from_str(value.get()).ok())
    }

    /// Sets a field.
    pub(crate) fn set(&mut self, name: &str, value: &Value) {
        let value = to_raw_value(value).expect("a JSON value can be encoded");
        self.0.insert(name.to_owned(), value.into());
    }
}

impl Serialize for RawFields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, &**value)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_changed_copy_shares_the_other_fields() {
        let raw = RawValue::from_string(r#"{"b": [1,  2], "a": "x"}"#.to_owned()).unwrap();
        let fields = RawFields::parse(&raw).unwrap();
        let mut copy = fields.clone();
        copy.set("a", &json!({"y": 1}));
        assert_eq!(serde_json::to_string(&copy).unwrap(), r#"{"a":{"y":1},"b":[1,  2]}"#);
        assert_eq!((fields.get("a"), copy.get("c")), (Some(json!("x")), None));
        assert!(Arc::ptr_eq(&fields.0["b"], &copy.0["b"]));
        assert_eq!((fields.size(), RawFields::encode(&Map::new()).size()), (10, 0));
    }
}
