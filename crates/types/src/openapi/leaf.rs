//! [`Leaf`]: a named type that is not an object with fields: a quantity, a time.

use crate::{Item, Type};
use machinery::{Value, json};

/// See the [module documentation](self).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Leaf {
    package: &'static str,
    short: &'static str,
    /// The version of apiextensions, the one group that has such types in each version; else empty.
    version: &'static str,
}

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
const EXTENSIONS: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.";

impl Leaf {
    /// The named type of a value in a type of the package of `owner`; none for text, numbers and
    /// messages.
    pub(super) fn of(owner: &Type, item: Item) -> Option<Self> {
        let fixed = |package, short| Some(Self { package, short, version: "" });
        let versioned =
            |short| Some(Self { package: EXTENSIONS, short, version: owner.package().version() });
        match item {
            Item::Quantity => fixed("io.k8s.apimachinery.pkg.api.resource", "Quantity"),
            Item::IntOrString => fixed("io.k8s.apimachinery.pkg.util.intstr", "IntOrString"),
            Item::Time => fixed(META, "Time"),
            Item::MicroTime => fixed(META, "MicroTime"),
            Item::FieldsV1 => fixed(META, "FieldsV1"),
            Item::RawExtension => fixed("io.k8s.apimachinery.pkg.runtime", "RawExtension"),
            Item::Json => versioned("JSON"),
            Item::SchemaOrBool => versioned("JSONSchemaPropsOrBool"),
            Item::SchemaOrArray => versioned("JSONSchemaPropsOrArray"),
            Item::SchemaOrStrings => versioned("JSONSchemaPropsOrStringArray"),
            Item::String
            | Item::Int32
            | Item::Int64
            | Item::Bool
            | Item::Double
            | Item::Bytes
            | Item::Strings
            | Item::Message(_) => None,
        }
    }

    /// Its OpenAPI name.
    pub(super) fn name(self) -> String {
        match self.version {
            "" => format!("{}.{}", self.package, self.short),
            version => format!("{}{version}.{}", self.package, self.short),
        }
    }

    /// Its schema, without a description.
    pub(super) fn schema(self) -> Value {
        match self.short {
            "Quantity" => json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
            "IntOrString" => json!({
                "oneOf": [{"type": "integer"}, {"type": "string"}],
                "format": "int-or-string",
            }),
            "Time" | "MicroTime" => json!({"type": "string", "format": "date-time"}),
            "FieldsV1" | "RawExtension" => json!({"type": "object"}),
            _ => json!({}),
        }
    }
}
