//! [`CustomSchema`]: what server-side apply needs of a CRD's `openAPIV3Schema`.
//!
//! Upstream: kube-openapi's schemaconv, over what apiextensions' OpenAPI builder publishes.

use super::TypeRef;
use machinery::patch::apply::{Forms, ListRule, MapRule, Scalar};
use machinery::{Map, Value};

/// See the [module documentation](self).
#[derive(Debug)]
pub struct CustomSchema {
    root: SchemaNode,
}

/// What happens to fields that no schema declares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UnknownFields {
    Pruned,
    Preserved,
}

impl CustomSchema {
    /// Compiles a version's `openAPIV3Schema`. `preserves_unknown` is the CRD's
    /// `spec.preserveUnknownFields`.
    pub fn compile(openapi_v3_schema: Option<&Value>, preserves_unknown: bool) -> Self {
        let unknown =
            if preserves_unknown { UnknownFields::Preserved } else { UnknownFields::Pruned };
        let Some(schema) = openapi_v3_schema.and_then(Value::as_object) else {
            return Self { root: SchemaNode::Deduced };
        };
        let mut root = Composite::compile(schema, unknown);
        root.add_object_fields();
        Self { root: SchemaNode::Composite(root.into()) }
    }

    /// The schema of a whole object.
    pub fn root(&self) -> TypeRef<'_> {
        self.root.type_ref()
    }
}

/// A part of a [`CustomSchema`].
#[derive(Debug, Clone, Copy)]
pub struct CustomTypeRef<'a>(&'a SchemaNode);

/// A node of the schema. Most nodes are scalars, so that composites are boxed.
#[derive(Debug)]
enum SchemaNode {
    Scalar(Scalar),
    /// The metadata of an object.
    Metadata,
    Deduced,
    /// An object or a list, or what may be either.
    Composite(Box<Composite>),
}

#[derive(Debug)]
struct Composite {
    forms: Forms,
    /// Sorted by name.
    fields: Box<[DeclaredField]>,
    others: Option<SchemaNode>,
    items: Option<SchemaNode>,
    keys: Box<[Box<str>]>,
}

#[derive(Debug)]
struct DeclaredField {
    name: Box<str>,
    default: Option<Value>,
    node: SchemaNode,
}

impl SchemaNode {
    fn compile(schema: &Map<String, Value>, unknown: UnknownFields) -> Self {
        let any = flag(schema, "x-kubernetes-int-or-string");
        let scalar = match text(schema, "type") {
            _ if any => None,
            "integer" | "number" => Some(Scalar::Numeric),
            "boolean" => Some(Scalar::Boolean),
            "string" => match text(schema, "format") {
                "" | "byte" => Some(Scalar::String),
                _ => Some(Scalar::Untyped),
            },
            _ => None,
        };
        match scalar {
            Some(scalar) => Self::Scalar(scalar),
            None => Self::Composite(Composite::compile(schema, unknown).into()),
        }
    }

    fn type_ref(&self) -> TypeRef<'_> {
        match self {
            Self::Deduced => TypeRef::Deduced,
            Self::Metadata => {
                crate::find("meta/v1.ObjectMeta").map_or(TypeRef::Deduced, TypeRef::Type)
            }
            other => TypeRef::Custom(CustomTypeRef(other)),
        }
    }

    fn composite(&self) -> Option<&Composite> {
        match self {
            Self::Composite(composite) => Some(composite),
            _ => None,
        }
    }
}

impl<'a> CustomTypeRef<'a> {
    pub(super) fn forms(self) -> Forms {
        match self.0 {
            SchemaNode::Scalar(scalar) => Forms::scalar(*scalar),
            SchemaNode::Composite(composite) => composite.forms,
            SchemaNode::Metadata | SchemaNode::Deduced => Forms::DEDUCED,
        }
    }

    pub(super) fn field(self, name: &str) -> Option<TypeRef<'a>> {
        Some(self.0.composite()?.declared(name)?.node.type_ref())
    }

    pub(super) fn others(self) -> Option<TypeRef<'a>> {
        self.0.composite()?.others.as_ref().map(SchemaNode::type_ref)
    }

    pub(super) fn items(self) -> TypeRef<'a> {
        let items = self.0.composite().and_then(|it| it.items.as_ref());
        items.map_or(TypeRef::Untyped, SchemaNode::type_ref)
    }

    pub(super) fn key(self, index: usize) -> Option<&'a str> {
        self.0.composite()?.keys.get(index).map(|key| &**key)
    }

    pub(super) fn key_default(self, key: &str) -> Option<&'a Value> {
        let items = self.0.composite()?.items.as_ref()?.composite()?;
        items.declared(key)?.default.as_ref()
    }
}

impl Composite {
    fn compile(schema: &Map<String, Value>, unknown: UnknownFields) -> Self {
        // Unknown fields are preserved in everything below, too.
        let preserved = flag(schema, "x-kubernetes-preserve-unknown-fields");
        let unknown = if preserved { UnknownFields::Preserved } else { unknown };
        let properties = schema.get("properties").and_then(Value::as_object);
        let mut fields: Vec<DeclaredField> = properties
            .into_iter()
            .flatten()
            .filter_map(|(name, it)| {
                let it = it.as_object()?;
                let default = it.get("default").filter(|default| !default.is_null()).cloned();
                Some(DeclaredField {
                    name: name.as_str().into(),
                    default,
                    node: SchemaNode::compile(it, unknown),
                })
            })
            .collect();
        fields.sort_by(|a, b| a.name.cmp(&b.name));
        let others = match schema.get("additionalProperties") {
            Some(Value::Object(schema)) => Some(SchemaNode::compile(schema, unknown)),
            Some(Value::Bool(false)) => None,
            Some(Value::Bool(true)) => Some(SchemaNode::Deduced),
            _ => (unknown == UnknownFields::Preserved || fields.is_empty())
                .then_some(SchemaNode::Deduced),
        };
        let items = schema.get("items").and_then(Value::as_object);
        let mut composite = Self {
            forms: forms(schema, fields.is_empty() && matches!(others, Some(SchemaNode::Deduced))),
            fields: fields.into(),
            others,
            items: items.map(|items| SchemaNode::compile(items, unknown)),
            keys: texts(schema, "x-kubernetes-list-map-keys").map(Box::from).collect(),
        };
        if flag(schema, "x-kubernetes-embedded-resource") {
            composite.add_object_fields();
        }
        composite
    }

    fn declared(&self, name: &str) -> Option<&DeclaredField> {
        let at = self.fields.binary_search_by(|it| (*it.name).cmp(name)).ok()?;
        Some(&self.fields[at])
    }

    /// Declares the fields that every object has, in place of those in the schema.
    fn add_object_fields(&mut self) {
        let text = || SchemaNode::Scalar(Scalar::String);
        let own = [("apiVersion", text()), ("kind", text()), ("metadata", SchemaNode::Metadata)];
        let mut fields = std::mem::take(&mut self.fields).into_vec();
        fields.retain(|it| own.iter().all(|(name, _)| **name != *it.name));
        let own = own.into_iter();
        fields.extend(own.map(|(name, node)| DeclaredField {
            name: name.into(),
            default: None,
            node,
        }));
        fields.sort_by(|a, b| a.name.cmp(&b.name));
        self.fields = fields.into();
        if self.forms.map == Some(MapRule::FreeForm) {
            self.forms.map = Some(MapRule::Granular);
        }
    }
}

fn forms(schema: &Map<String, Value>, free_form: bool) -> Forms {
    let map = match text(schema, "x-kubernetes-map-type") {
        "atomic" => MapRule::Atomic,
        _ if free_form => MapRule::FreeForm,
        _ => MapRule::Granular,
    };
    let list = match text(schema, "x-kubernetes-list-type") {
        "map" => ListRule::Map,
        "set" => ListRule::Set,
        _ => ListRule::Atomic,
    };
    match text(schema, "type") {
        "object" => Forms::map(map),
        "array" => Forms::list(list),
        _ => Forms { map: Some(map), scalar: Some(Scalar::Untyped), list: Some(list) },
    }
}

fn text<'a>(schema: &'a Map<String, Value>, keyword: &str) -> &'a str {
    schema.get(keyword).and_then(Value::as_str).unwrap_or_default()
}

fn texts<'a>(schema: &'a Map<String, Value>, keyword: &str) -> impl Iterator<Item = &'a str> {
    schema.get(keyword).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

fn flag(schema: &Map<String, Value>, keyword: &str) -> bool {
    schema.get(keyword).and_then(Value::as_bool).unwrap_or(false)
}
