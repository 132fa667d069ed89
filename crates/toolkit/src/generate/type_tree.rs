//! [`TypeTree`]: the structs and enums of a schema.
//!
//! Two schemas under the same name that differ in descriptions only have one type.

use std::collections::{BTreeSet, HashMap};

use super::rust_type::{RustType, is_condition};
use super::schema_diff::schema_diff;
use super::variants::Variants;
use super::words::{FieldCase, field_identifier, pascal_case, singular_pascal_case};
use machinery::{Map, Value, json};

/// See the [module documentation](self).
#[derive(Debug, Default)]
pub(crate) struct TypeTree {
    /// The types, outer ones before inner ones.
    pub(crate) types: Vec<NamedType>,
    /// Whether conditions are those of k8s-openapi.
    uses_conditions: bool,
    /// The types by the last part of their path and their schema.
    by_schema: HashMap<(String, String), usize>,
}

/// A struct or an enum.
#[derive(Debug)]
pub(crate) struct NamedType {
    /// The names of the fields that lead to it, as parts of a type's name.
    pub(crate) path: Vec<String>,
    pub(crate) description: String,
    /// Its canonical schema, without what belongs to a field.
    pub(crate) schema: Value,
    pub(crate) content: Content,
}

#[derive(Debug)]
pub(crate) enum Content {
    Struct(Struct),
    Enum(Variants),
}

#[derive(Debug)]
pub(crate) struct Struct {
    pub(crate) fields: Vec<Field>,
    pub(crate) case: FieldCase,
    /// Whether fields that the schema does not name are kept.
    pub(crate) keeps_others: bool,
}

#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) identifier: String,
    pub(crate) description: String,
    pub(crate) rust_type: RustType,
    pub(crate) presence: Presence,
    /// What is missing in the schema of its type.
    pub(crate) patch: Map<String, Value>,
}

/// Whether a field must be present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    Required,
    Optional,
    /// Present, but maybe null.
    RequiredOrNull,
    /// Added by the server if it is absent.
    RequiredOrDefault,
}

/// A schema, as it stands in the CRD and in canonical form.
#[derive(Clone, Copy)]
pub(crate) struct Node<'a> {
    pub(crate) schema: &'a Value,
    pub(crate) canonical: &'a Value,
}

impl<'a> Node<'a> {
    fn child(self, keyword: &str) -> Node<'a> {
        Node { schema: &self.schema[keyword], canonical: &self.canonical[keyword] }
    }

    fn is(self, keyword: &str) -> bool {
        self.canonical[keyword] == true
    }

    fn description(self) -> String {
        self.schema["description"].as_str().unwrap_or_default().to_owned()
    }
}

impl TypeTree {
    /// An empty tree.
    pub(crate) fn new(uses_conditions: bool) -> Self {
        Self { uses_conditions, ..Self::default() }
    }

    /// The type of a value; structs and enums in it are added.
    pub(crate) fn value_type(&mut self, node: Node<'_>, path: &[String]) -> RustType {
        if node.is("x-kubernetes-int-or-string") {
            return RustType::IntOrString;
        }
        if node.is("x-kubernetes-embedded-resource") {
            return RustType::Json;
        }
        match node.canonical["type"].as_str() {
            Some("boolean") => RustType::Boolean,
            Some("integer") if node.canonical["format"] == "int32" => RustType::Int32,
            Some("integer") => RustType::Int64,
            Some("number") => RustType::Double,
            Some("string") => self.text_type(node, path),
            Some("array") => RustType::List(Box::new(self.element_type(node.child("items"), path))),
            Some("object") if self.uses_conditions && is_condition(node.canonical) => {
                RustType::Condition
            }
            Some("object") => self.object_type(node, path),
            _ => RustType::Json,
        }
    }

    fn text_type(&mut self, node: Node<'_>, path: &[String]) -> RustType {
        let values = node.canonical["enum"].as_array().map(Vec::as_slice).unwrap_or_default();
        let values = values.iter().filter(|value| !value.is_null());
        match values.map(Value::as_str).collect::<Option<Vec<&str>>>() {
            Some(values) if !values.is_empty() => {
                let schema = json!({"type": "string", "enum": values});
                let description = node.description();
                self.named(path, schema, description, |_| Content::Enum(Variants::of(&values)))
            }
            _ => RustType::Text,
        }
    }

    fn object_type(&mut self, node: Node<'_>, path: &[String]) -> RustType {
        let has_properties = node.canonical["properties"].is_object();
        let keeps_others = node.is("x-kubernetes-preserve-unknown-fields");
        match (has_properties, &node.canonical["additionalProperties"]) {
            (true, Value::Null) => self.struct_type(node, path),
            (false, Value::Object(_)) => {
                let element = self.element_type(node.child("additionalProperties"), path);
                RustType::Map(Box::new(element))
            }
            (false, Value::Null) if keeps_others => RustType::Json,
            _ => RustType::Map(Box::new(RustType::Json)),
        }
    }

    /// The type of an element of a list or a map, which is named in the singular.
    fn element_type(&mut self, node: Node<'_>, path: &[String]) -> RustType {
        let mut path = path.to_vec();
        if let Some(last) = path.last_mut() {
            *last = singular_pascal_case(last);
        }
        let element = self.value_type(node, &path);
        // Null is one of the values of the others.
        if node.is("nullable") && !matches!(element, RustType::Json | RustType::IntOrString) {
            return RustType::Nullable(Box::new(element));
        }
        element
    }

    fn struct_type(&mut self, node: Node<'_>, path: &[String]) -> RustType {
        let mut schema = node.canonical.clone();
        if let Value::Object(keywords) = &mut schema {
            keywords.retain(|keyword, _| keyword != "default" && keyword != "nullable");
        }
        self.named(path, schema, node.description(), |tree| {
            Content::Struct(tree.fields(node, path, &[]))
        })
    }

    /// The type of this path and schema, which is added if there is none.
    fn named(
        &mut self,
        path: &[String],
        schema: Value,
        description: String,
        content: impl FnOnce(&mut Self) -> Content,
    ) -> RustType {
        let name = path.last().cloned().unwrap_or_default();
        let key = (name, schema.to_string());
        if let Some(index) = self.by_schema.get(&key).copied() {
            let known = &mut self.types[index];
            if path.len() < known.path.len() {
                path.clone_into(&mut known.path);
            }
            if known.description.is_empty() {
                known.description = description;
            }
            return RustType::Named(index);
        }
        let index = self.types.len();
        let placeholder = Content::Enum(Variants::of(&[]));
        self.types.push(NamedType {
            path: path.to_vec(),
            description,
            schema,
            content: placeholder,
        });
        self.by_schema.insert(key, index);
        let content = content(self);
        self.types[index].content = content;
        RustType::Named(index)
    }

    /// The fields of an object, with identifiers other than `reserved`.
    pub(crate) fn fields(&mut self, node: Node<'_>, path: &[String], reserved: &[&str]) -> Struct {
        let mut fields = Vec::new();
        let required = node.canonical["required"].as_array().map(Vec::as_slice).unwrap_or_default();
        let properties = node.child("properties");
        let names = properties.canonical.as_object().into_iter().flat_map(Map::keys);
        for name in names {
            let mut path = path.to_vec();
            path.push(pascal_case(name));
            let is_required = required.iter().any(|it| it == name);
            fields.push(self.field(properties.child(name), name, &path, is_required));
        }
        let case = name_fields(&mut fields, reserved);
        let keeps_others = node.is("x-kubernetes-preserve-unknown-fields");
        Struct { fields, case, keeps_others }
    }

    fn field(&mut self, node: Node<'_>, name: &str, path: &[String], is_required: bool) -> Field {
        let rust_type = self.value_type(node, path);
        let derived = rust_type.derived_schema(&|index| &self.types[index].schema);
        let patch = schema_diff(&derived, node.canonical);
        let has_default = node.canonical.get("default").is_some();
        let presence = match (is_required, has_default) {
            (false, _) => Presence::Optional,
            (true, true) => Presence::RequiredOrDefault,
            (true, false) if node.is("nullable") => Presence::RequiredOrNull,
            (true, false) => Presence::Required,
        };
        let (name, identifier) = (name.to_owned(), String::new());
        Field { name, identifier, description: node.description(), rust_type, presence, patch }
    }
}

/// Gives each field an identifier of its own, and returns the case with the fewest renames. Names that
/// need no rename come first.
fn name_fields(fields: &mut [Field], reserved: &[&str]) -> FieldCase {
    let renames = |case: FieldCase| {
        fields.iter().filter(|it| case.apply(&field_identifier(&it.name)) != it.name).count()
    };
    let case = FieldCase::ALL.into_iter().min_by_key(|case| renames(*case));
    let case = case.unwrap_or(FieldCase::Camel);
    let mut taken: BTreeSet<String> = reserved.iter().map(|it| (*it).to_owned()).collect();
    let is_plain = |name: &str| case.apply(&field_identifier(name)) == name;
    for takes_plain in [true, false] {
        for field in fields.iter_mut().filter(|field| is_plain(&field.name) == takes_plain) {
            let name = field_identifier(&field.name);
            let mut identifier = name.clone();
            let mut number = 2;
            while !taken.insert(identifier.clone()) {
                identifier = format!("{}_{number}", name.trim_start_matches("r#"));
                number += 1;
            }
            field.identifier = identifier;
        }
    }
    case
}

impl NamedType {
    /// What is missing in the schema that is derived from the fields or variants.
    pub(crate) fn patch(&self) -> Map<String, Value> {
        match &self.content {
            Content::Enum(_) => Map::new(),
            Content::Struct(content) => {
                schema_diff(&content.derived_schema(&self.schema), &self.schema)
            }
        }
    }
}

impl Struct {
    /// The schema that is derived from a struct whose fields have the properties of `schema`.
    pub(crate) fn derived_schema(&self, schema: &Value) -> Value {
        let mut derived = json!({"type": "object"});
        let required: Vec<&str> = self
            .fields
            .iter()
            .filter(|it| it.presence != Presence::Optional)
            .map(|it| it.name.as_str())
            .collect();
        if !required.is_empty() {
            derived["required"] = required.into(); // sorted, as the properties are
        }
        if !self.fields.is_empty() {
            derived["properties"] = schema["properties"].clone();
        }
        if self.keeps_others {
            derived["x-kubernetes-preserve-unknown-fields"] = true.into();
        }
        derived
    }
}
