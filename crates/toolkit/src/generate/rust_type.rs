//! [`RustType`]: the type of a value, and the schema that is derived from it.
//!
//! The schema is the one that `#[schema]` and `#[resource]` derive. The test of the whole corpus
//! compiles the types and compares.

use machinery::{Value, json};

/// See the [module documentation](self).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RustType {
    Boolean,
    Int32,
    Int64,
    Double,
    Text,
    IntOrString,
    /// The condition of k8s-openapi.
    Condition,
    /// Any JSON value.
    Json,
    List(Box<RustType>),
    Map(Box<RustType>),
    /// An element of a list or a map that may be null.
    Nullable(Box<RustType>),
    /// The struct or enum of this index.
    Named(usize),
}

impl RustType {
    /// The schema that is derived. `named` returns that of a struct or an enum.
    pub(crate) fn derived_schema<'a>(&self, named: &dyn Fn(usize) -> &'a Value) -> Value {
        match self {
            Self::Boolean => json!({"type": "boolean"}),
            Self::Int32 => json!({"type": "integer", "format": "int32"}),
            Self::Int64 => json!({"type": "integer", "format": "int64"}),
            Self::Double => json!({"type": "number", "format": "double"}),
            Self::Text => json!({"type": "string"}),
            Self::IntOrString => json!({
                "x-kubernetes-int-or-string": true,
                "anyOf": [{"type": "integer"}, {"type": "string"}],
            }),
            Self::Condition => condition_schema(),
            Self::Json => json!({}),
            Self::List(element) => {
                json!({"type": "array", "items": element.derived_schema(named)})
            }
            Self::Map(element) => {
                let elements = match &**element {
                    Self::Json => true.into(),
                    element => element.derived_schema(named),
                };
                json!({"type": "object", "additionalProperties": elements})
            }
            Self::Nullable(inner) => {
                let mut schema = inner.derived_schema(named);
                schema["nullable"] = true.into();
                if let Some(values) = schema.get_mut("enum").and_then(Value::as_array_mut) {
                    values.push(Value::Null);
                }
                schema
            }
            Self::Named(index) => named(*index).clone(),
        }
    }

    /// The type in Rust. `name` returns that of a struct or an enum.
    pub(crate) fn rust<'a>(&self, name: &dyn Fn(usize) -> &'a str) -> String {
        match self {
            Self::Boolean => "bool".to_owned(),
            Self::Int32 => "i32".to_owned(),
            Self::Int64 => "i64".to_owned(),
            Self::Double => "f64".to_owned(),
            Self::Text => "String".to_owned(),
            Self::IntOrString => "IntOrString".to_owned(),
            Self::Condition => "Condition".to_owned(),
            Self::Json => "serde_json::Value".to_owned(),
            Self::List(element) => format!("Vec<{}>", element.rust(name)),
            Self::Map(element) => format!("BTreeMap<String, {}>", element.rust(name)),
            Self::Nullable(inner) => format!("Option<{}>", inner.rust(name)),
            Self::Named(index) => name(*index).to_owned(),
        }
    }

    /// This type and those inside of it.
    pub(crate) fn parts(&self) -> Vec<&Self> {
        let mut parts = vec![self];
        if let Self::List(inner) | Self::Map(inner) | Self::Nullable(inner) = self {
            parts.extend(inner.parts());
        }
        parts
    }
}

/// The schema of the condition of k8s-openapi.
fn condition_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "lastTransitionTime": {"type": "string", "format": "date-time"},
            "message": {"type": "string"},
            "observedGeneration": {"type": "integer", "format": "int64"},
            "reason": {"type": "string"},
            "status": {"type": "string"},
            "type": {"type": "string"},
        },
        "required": ["lastTransitionTime", "message", "reason", "status", "type"],
    })
}

/// Whether a schema has the fields of a condition, restricted or not.
pub(crate) fn is_condition(canonical: &Value) -> bool {
    let condition = condition_schema();
    let fields = |schema: &Value| {
        let fields = schema["properties"].as_object().into_iter().flatten();
        let kind = |it: &Value| [it["type"].clone(), it["format"].clone(), it["nullable"].clone()];
        fields.map(|(name, it)| (name.clone(), kind(it))).collect::<Vec<_>>()
    };
    let opens = ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"];
    canonical["required"] == condition["required"]
        && fields(canonical) == fields(&condition)
        && opens.iter().all(|keyword| canonical.get(*keyword).is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_and_the_name_of_a_nested_type() {
        let list = RustType::List(Box::new(RustType::Nullable(Box::new(RustType::Named(0)))));
        let map = RustType::Map(Box::new(list));
        let schema = json!({"type": "string", "enum": ["a"]});
        let derived = json!({"type": "object", "additionalProperties": {"type": "array",
            "items": {"type": "string", "enum": ["a", null], "nullable": true}}});
        assert_eq!(map.derived_schema(&|_| &schema), derived);
        assert_eq!(map.rust(&|_| "Mode"), "BTreeMap<String, Vec<Option<Mode>>>");
        assert_eq!(map.parts().len(), 4);
    }

    #[test]
    fn a_condition_has_all_fields_of_a_condition() {
        let mut schema = condition_schema();
        schema["properties"]["status"]["enum"] = json!(["True", "False"]);
        assert!(is_condition(&schema));
        schema["properties"]["extra"] = json!({"type": "string"});
        assert!(!is_condition(&schema));
    }
}
