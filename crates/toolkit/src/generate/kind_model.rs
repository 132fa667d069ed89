//! [`KindModel`]: a version of a kind as Rust types, before they have names.
//!
//! | the schema of the object | the types |
//! |---|---|
//! | only `spec` and `status`, a required spec | `KindSpec`, `KindStatus` |
//! | the same, and the spec may be absent | the same, with `optional_spec` |
//! | other fields, as in a StorageClass, or a spec without fields | `KindFields`, with `no_spec` |

use super::canonical::canonical;
use super::definition::{DefinedVersion, Definition};
use super::error::GenerateError;
use super::rust_type::RustType;
use super::schema_check::check_schema;
use super::schema_diff::schema_diff;
use super::type_names::is_reserved;
use super::type_tree::{Content, Node, Struct, TypeTree};
use super::words::pascal_case;
use machinery::{Map, Value, json};

/// Fields of every object, with the schemas that say nothing about them.
const OF_EVERY_OBJECT: [(&str, &str); 3] =
    [("apiVersion", "string"), ("kind", "string"), ("metadata", "object")];

/// Identifiers that kube-derive uses in the struct of an object.
const OBJECT_FIELDS: [&str; 4] = ["api_version", "kind", "metadata", "status"];

/// See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct KindModel {
    /// The name of the type of the whole object.
    pub(crate) root: String,
    /// The struct with `#[resource]`.
    pub(crate) spec: Struct,
    pub(crate) spec_place: SpecPlace,
    pub(crate) spec_description: String,
    pub(crate) status: Option<RustType>,
    pub(crate) description: String,
    /// What is missing in the derived schemas of the spec, and of the whole object.
    pub(crate) spec_patch: Map<String, Value>,
    pub(crate) object_patch: Map<String, Value>,
    /// The other types.
    pub(crate) tree: TypeTree,
    pub(crate) warnings: Vec<String>,
}

/// Where the fields of the struct with `#[resource]` are in an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpecPlace {
    Spec,
    OptionalSpec,
    Object,
}

impl KindModel {
    pub(crate) fn new(
        definition: &Definition,
        version: &DefinedVersion,
        uses_conditions: bool,
    ) -> Result<Self, GenerateError> {
        let schema = Value::Object(version.schema.clone());
        let mut warnings = check_schema(&definition.name, &schema)?;
        let canonical = without_object_fields(canonical(&schema));
        warnings.extend(warnings_about(definition, version, &canonical));
        let mut tree = TypeTree::new(uses_conditions);
        let root = Node { schema: &schema, canonical: &canonical };
        let (spec, spec_schema, spec_place) = spec(&mut tree, root);
        let properties = &canonical["properties"];
        let status_node =
            Node { schema: &schema["properties"]["status"], canonical: &properties["status"] };
        let status =
            properties.get("status").map(|_| tree.value_type(status_node, &["Status".to_owned()]));
        let mut derived = match spec_place {
            SpecPlace::Spec => {
                json!({"type": "object", "properties": {"spec": spec_schema}, "required": ["spec"]})
            }
            SpecPlace::OptionalSpec => {
                json!({"type": "object", "properties": {"spec": spec_schema}})
            }
            SpecPlace::Object => spec.derived_schema(&spec_schema),
        };
        if let Some(status) = &status {
            derived["properties"]["status"] =
                status.derived_schema(&|index| &tree.types[index].schema);
        }
        let spec_patch = match spec_place {
            SpecPlace::Object => Map::new(),
            _ => schema_diff(&spec.derived_schema(&spec_schema), &spec_schema),
        };
        let text = |value: &Value| value["description"].as_str().unwrap_or_default().to_owned();
        Ok(Self {
            root: root_name(&definition.kind),
            spec_description: match spec_place {
                SpecPlace::Object => String::new(),
                _ => text(&schema["properties"]["spec"]),
            },
            description: text(&schema),
            object_patch: schema_diff(&derived, &canonical),
            spec,
            spec_place,
            status,
            spec_patch,
            tree,
            warnings,
        })
    }
}

impl KindModel {
    /// All structs.
    pub(crate) fn structs(&self) -> impl Iterator<Item = &Struct> {
        let nested = self.tree.types.iter().filter_map(|it| match &it.content {
            Content::Struct(content) => Some(content),
            Content::Enum(_) => None,
        });
        std::iter::once(&self.spec).chain(nested)
    }

    /// The types of all fields, and those inside of them.
    pub(crate) fn rust_types(&self) -> Vec<&RustType> {
        let fields = self.structs().flat_map(|it| &it.fields).map(|field| &field.rust_type);
        fields.chain(&self.status).flat_map(RustType::parts).collect()
    }
}

/// The struct with `#[resource]` and its schema.
fn spec(tree: &mut TypeTree, root: Node<'_>) -> (Struct, Value, SpecPlace) {
    let canonical = root.canonical;
    let spec = &canonical["properties"]["spec"];
    let names = canonical["properties"].as_object().into_iter().flat_map(Map::keys);
    let mut names = names.filter(|name| OF_EVERY_OBJECT.iter().all(|(field, _)| name != field));
    let has_others = names.any(|name| name != "spec" && name != "status");
    let is_struct = spec["type"] == "object"
        && spec["properties"].is_object()
        && spec.get("additionalProperties").is_none()
        && spec.get("x-kubernetes-embedded-resource").is_none();
    if has_others || !is_struct {
        let mut fields = canonical.clone();
        if let Some(properties) = fields["properties"].as_object_mut() {
            // Restrictions of the others are in the patch of the object.
            let known = |name: &str| OF_EVERY_OBJECT.iter().any(|(field, _)| *field == name);
            properties.retain(|name, _| name != "status" && !known(name));
        }
        if let Some(keywords) = fields.as_object_mut() {
            keywords.retain(|keyword, _| keyword == "properties" || keyword == "required");
        }
        let node = Node { schema: root.schema, canonical: &fields };
        let content = tree.fields(node, &[], &OBJECT_FIELDS);
        return (content, fields, SpecPlace::Object);
    }
    let node = Node { schema: &root.schema["properties"]["spec"], canonical: spec };
    let content = tree.fields(node, &["Spec".to_owned()], &[]);
    let mut schema = spec.clone();
    if let Some(keywords) = schema.as_object_mut() {
        keywords.retain(|keyword, _| keyword != "default" && keyword != "nullable");
    }
    let required = canonical["required"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_required = required.iter().any(|name| name == "spec");
    let place = if is_required { SpecPlace::Spec } else { SpecPlace::OptionalSpec };
    (content, schema, place)
}

/// A schema without the fields that every object has, unless it says more about them.
pub(crate) fn without_object_fields(mut schema: Value) -> Value {
    let Some(keywords) = schema.as_object_mut() else { return schema };
    if let Some(Value::Object(properties)) = keywords.get_mut("properties") {
        for (name, kind) in OF_EVERY_OBJECT {
            if properties.get(name) == Some(&json!({"type": kind})) {
                properties.remove(name);
            }
        }
    }
    if let Some(Value::Array(required)) = keywords.get_mut("required") {
        required.retain(|name| OF_EVERY_OBJECT.iter().all(|(field, _)| name != field));
    }
    let is_empty = |value: &Value| value == &json!({}) || value == &json!([]);
    keywords.retain(|keyword, value| {
        !(matches!(keyword.as_str(), "properties" | "required") && is_empty(value))
    });
    schema
}

/// The name of the type of the whole object: the kind, if it is one.
fn root_name(kind: &str) -> String {
    let is_name = kind.starts_with(|it: char| it.is_ascii_uppercase())
        && kind.chars().all(|it| it.is_ascii_alphanumeric());
    let name = if is_name { kind.to_owned() } else { pascal_case(kind) };
    let begins = name.starts_with(|it: char| it.is_ascii_uppercase());
    if begins && !is_reserved(&name) { name } else { format!("Custom{name}") }
}

/// What the types cannot express.
fn warnings_about(
    definition: &Definition,
    version: &DefinedVersion,
    canonical: &Value,
) -> Vec<String> {
    let mut warnings = Vec::new();
    let has_status = canonical["properties"].get("status").is_some();
    if definition.scope.is_none() {
        warnings.push(
            "spec.scope is missing, and servers refuse the CRD; it becomes Cluster".to_owned(),
        );
    }
    if version.scale.is_some() && !has_status && !version.has_status_subresource {
        warnings.push("the scale subresource of a kind without a status is left out".to_owned());
    }
    if canonical["x-kubernetes-preserve-unknown-fields"] == true {
        warnings.push(
            "fields of the object that the schema does not name are accepted, but are not in the types"
                .to_owned(),
        );
    }
    if definition.has_conversion {
        warnings.push(
            "the conversion webhook is left out: a server that has the CRD already is not affected"
                .to_owned(),
        );
    }
    let list_kind = format!("{}List", definition.kind);
    if definition.list_kind.as_ref().is_some_and(|it| *it != list_kind) {
        warnings.push(format!("the kind of lists becomes {list_kind}"));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_of_every_object_are_left_out_unless_they_are_restricted() {
        let name = json!({"type": "object", "properties": {"name": {"maxLength": 3}}});
        let schema = json!({
            "properties": {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": name},
            "required": ["metadata"],
        });
        assert_eq!(without_object_fields(schema), json!({"properties": {"metadata": name}}));
        let plain = json!({"properties": {"metadata": {"type": "object"}}, "required": ["kind"]});
        assert_eq!(without_object_fields(plain), json!({}));
    }

    #[test]
    fn the_type_of_the_object_has_the_name_of_the_kind() {
        for (kind, name) in [
            ("HTTPRoute", "HTTPRoute"),
            ("my-kind", "MyKind"),
            ("Option", "CustomOption"),
            ("3d", "Custom3d"),
        ] {
            assert_eq!(root_name(kind), name);
        }
    }
}
