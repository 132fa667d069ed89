//! The schemas of the built-in types, as OpenAPI documents of version 3 have them.
//!
//! ```
//! use types::openapi;
//!
//! let roots = [types::find("core/v1.ConfigMap").expect("ConfigMaps are built in")];
//! let schemas = openapi::schemas(roots, &[]);
//! assert_eq!(schemas["io.k8s.api.core.v1.ConfigMap"]["properties"]["immutable"]["type"], "boolean");
//! assert!(schemas.contains_key("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"));
//! ```
//!
//! They are made on demand from the [table of types](crate) and the embedded descriptions, so
//! that an idle server does not hold them.

mod leaf;
mod property;
mod descriptions;

use std::collections::{BTreeMap, BTreeSet};

use crate::{Field, Item, Type};
use descriptions::Descriptions;
use leaf::Leaf;
use machinery::{GroupVersion, Map, Value, json};

/// A hash that changes with any fact about a built-in type.
pub const FINGERPRINT: &str = env!("SAMPAN_TYPES_FINGERPRINT");

/// The prefix of a reference to a schema.
const SCHEMAS: &str = "#/components/schemas/";

/// The schema of the body of a patch, which may be anything.
const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";

/// The schemas of `roots` and of everything that they refer to, by name. The kinds that belong to
/// all groups (options, Status) are listed as kinds of each of `versions`, too.
pub fn schemas(
    roots: impl IntoIterator<Item = &'static Type>,
    versions: &[GroupVersion],
) -> Map<String, Value> {
    let (types, leaves) = reachable(roots);
    let mut descriptions = Descriptions::new();
    let mut schemas = Map::new();
    for ty in types.values() {
        schemas.insert(ty.openapi_name(), schema(ty, versions, &mut descriptions));
    }
    for leaf in leaves {
        let name = leaf.name();
        let mut schema = leaf.schema();
        if let Some(text) = descriptions.of_type(&name) {
            schema["description"] = text.into();
        }
        schemas.insert(name, schema);
    }
    let patch =
        json!({"description": "The change, in one of the forms of a patch.", "type": "object"});
    schemas.insert(PATCH.to_owned(), patch);
    schemas
}

/// The descriptions of the fields that every kind has.
pub fn common_descriptions() -> schema::openapi::Descriptions {
    Descriptions::new().every_kind
}

/// All types that occur in `roots`, by name.
fn reachable(
    roots: impl IntoIterator<Item = &'static Type>,
) -> (BTreeMap<&'static str, &'static Type>, BTreeSet<Leaf>) {
    let (mut types, mut leaves) = (BTreeMap::new(), BTreeSet::new());
    let mut unseen: Vec<&'static Type> = roots.into_iter().collect();
    while let Some(ty) = unseen.pop() {
        if types.insert(ty.name(), ty).is_some() {
            continue;
        }
        for field in ty.fields() {
            unseen.extend(field.message());
            leaves.extend(Leaf::of(ty, field.item));
        }
    }
    (types, leaves)
}

fn schema(ty: &'static Type, versions: &[GroupVersion], descriptions: &mut Descriptions) -> Value {
    let name = ty.openapi_name();
    let mut properties = Map::new();
    let mut required: Vec<&Field> = ty.fields().filter(|field| field.required).collect();
    for field in ty.fields() {
        let text = descriptions.of_field(ty, &name, field.json());
        properties.insert(field.json().to_owned(), property::of(ty, field, text.as_deref()));
    }
    let mut schema = json!({"type": "object"});
    if let Some(text) = descriptions.of_type(&name) {
        schema["description"] = text.into();
    } else if let Some(item) = descriptions::kind_of_list(ty) {
        schema["description"] = format!("{} is a list of {item}", ty.short_name()).into();
    }
    if !properties.is_empty() {
        schema["properties"] = properties.into();
    }
    if !required.is_empty() {
        // Upstream has them in the order of Go's fields, which field numbers nearly always follow.
        required.sort_by_key(|field| field.number);
        schema["required"] = required.into_iter().map(Field::json).collect();
    }
    if ty.atomic {
        schema["x-kubernetes-map-type"] = "atomic".into();
    }
    if ty.union {
        schema["x-kubernetes-unions"] = json!([union(ty)]);
    }
    if ty.is_kind {
        schema["x-kubernetes-group-version-kind"] = identities(ty, versions);
    }
    schema
}

/// The discriminator of a union, and the value of the discriminator for each member.
fn union(ty: &Type) -> Value {
    let mut members = Map::new();
    let mut union = Map::new();
    for field in ty.fields() {
        if field.discriminator {
            union.insert("discriminator".to_owned(), field.json().into());
        } else {
            let (first, rest) = field.json().split_at(1);
            members.insert(field.json().to_owned(), (first.to_uppercase() + rest).into());
        }
    }
    union.insert("fields-to-discriminateBy".to_owned(), members.into());
    union.into()
}

/// Group, version and kind of a type; several for a type that belongs to every group.
fn identities(ty: &Type, versions: &[GroupVersion]) -> Value {
    let identity = |group: &str, version: &str| json!({"group": group, "version": version, "kind": ty.short_name()});
    if ty.package().name() != "meta/v1" {
        let (group, version) = ty.package().api_version().rsplit_once('/').unwrap_or(("", "v1"));
        return json!([identity(group, version)]);
    }
    let named = versions.iter().filter(|it| !it.group.is_empty());
    let all = named.map(|it| identity(&it.group, &it.version));
    std::iter::once(identity("", "v1")).chain(all).collect()
}

/// A reference to the schema of one value, if it has a name.
fn reference(owner: &Type, item: Item) -> Option<String> {
    let name = match item {
        Item::Message(id) => id.get().openapi_name(),
        item => Leaf::of(owner, item)?.name(),
    };
    Some(format!("{SCHEMAS}{name}"))
}

#[cfg(test)]
mod tests;
