//! The CEL types of policies: the request, the namespace, and the types of patches.

use std::sync::Arc;

use cel::{DeclKind, DeclType, Object, Type};

/// The maximum size of values: the types of policies declare none.
const UNLIMITED: u64 = u64::MAX;

/// The type of `request`.
pub(super) fn request() -> DeclType {
    let kind = || object("kubernetes.GroupVersionKind", texts(&["group", "version", "kind"]));
    let resource =
        || object("kubernetes.GroupVersionResource", texts(&["group", "version", "resource"]));
    let user = object(
        "kubernetes.UserInfo",
        texts(&["username", "uid"])
            .chain([("groups", list(text())), ("extra", DeclType::map(list(text()), UNLIMITED))]),
    );
    let fields = texts(&["subResource", "requestSubResource", "name", "operation"]).chain([
        ("kind", kind()),
        ("resource", resource()),
        ("requestKind", kind()),
        ("requestResource", resource()),
        ("userInfo", user),
        ("dryRun", DeclType::new(DeclKind::Bool, 0)),
        ("options", DeclType::any()),
    ]);
    object(REQUEST, fields)
}

/// The type of `namespaceObject`.
pub(super) fn namespace() -> DeclType {
    let time = || DeclType::new(DeclKind::Timestamp, 0);
    let labels = || DeclType::map(text(), UNLIMITED);
    let metadata = object(
        METADATA,
        texts(&["name", "generateName", "UID", "resourceVersion"]).chain([
            ("labels", labels()),
            ("annotations", labels()),
            ("creationTimestamp", time()),
            ("deletionGracePeriodSeconds", DeclType::int()),
            ("deletionTimestamp", time()),
            ("generation", DeclType::int()),
            ("finalizers", list(text())),
        ]),
    );
    let condition = object(
        "kubernetes.NamespaceCondition",
        texts(&["status", "type", "message", "reason"]).chain([("lastTransitionTime", time())]),
    );
    let status = object(
        "kubernetes.NamespaceStatus",
        texts(&["phase"]).chain([("conditions", list(condition))]),
    );
    let spec = object("kubernetes.NamespaceSpec", [("finalizers", list(text()))]);
    object("kubernetes.Namespace", [("metadata", metadata), ("spec", spec), ("status", status)])
}

/// The type of an apply configuration.
pub(super) fn apply_configuration() -> Type {
    Type::Object(Arc::new(Object::new(OBJECT, [])))
}

/// The type of the operations of a JSON patch.
pub(super) fn json_patch() -> Type {
    Type::list(Type::Object(operation()))
}

const REQUEST: &str = "kubernetes.AdmissionRequest";
const METADATA: &str = "kubernetes.NamespaceMetadata";
const OBJECT: &str = "Object";
const OPERATION: &str = "JSONPatch";

fn operation() -> Arc<Object> {
    let fields = texts(&["op", "path", "from"]).chain([("value", DeclType::any())]);
    Arc::new(Object::new(OPERATION, fields.map(owned)))
}

/// The types that expressions can construct, and the fields that the declarations above cannot
/// express.
#[derive(Debug)]
pub(super) struct Messages {
    /// Whether the types of patches are declared.
    pub patches: bool,
}

impl cel::Messages for Messages {
    fn find(&self, name: &str) -> Option<Arc<Object>> {
        match name {
            _ if !self.patches => None,
            OPERATION => Some(operation()),
            name if is_object_type(name) => Some(Arc::new(Object::new(name, []))),
            _ => None,
        }
    }

    fn open_field(&self, type_name: &str, field: &str) -> Option<Type> {
        match (type_name, field) {
            // `namespace` is a reserved word of CEL. Schemas escape it; these types do not.
            (REQUEST | METADATA, "namespace") => Some(Type::String),
            (name, _) if is_object_type(name) => Some(Type::Dyn),
            _ => None,
        }
    }
}

/// Whether a type name is `Object` or nested in it, such as `Object.spec`.
fn is_object_type(name: &str) -> bool {
    name.strip_prefix(OBJECT).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The declared type of a variable whose expression has the type `ty`.
pub(super) fn variable_type(ty: &Type) -> DeclType {
    DeclType::value(json_type(ty))
}

/// Upstream: only the JSON types of a variable are kept; others become dynamic.
fn json_type(ty: &Type) -> Type {
    match ty {
        Type::Bool
        | Type::Bytes
        | Type::Double
        | Type::Duration
        | Type::Int
        | Type::Null
        | Type::String
        | Type::Timestamp
        | Type::Uint => ty.clone(),
        Type::List(element) => Type::list(json_type(element)),
        Type::Map(key, value) => Type::map(json_type(key), json_type(value)),
        _ => Type::Dyn,
    }
}

/// The name of a type in messages about wrong result types.
pub(super) fn name(ty: &Type) -> String {
    match ty {
        Type::Null => "null_type".to_owned(),
        Type::Timestamp => "google.protobuf.Timestamp".to_owned(),
        Type::Duration => "google.protobuf.Duration".to_owned(),
        Type::List(element) => format!("list({})", name(element)),
        Type::Map(key, value) => format!("map({}, {})", name(key), name(value)),
        Type::Optional(value) => format!("optional_type({})", name(value)),
        Type::Type(inner) => format!("type({})", name(inner)),
        other => other.to_string(),
    }
}

fn text() -> DeclType {
    DeclType::string(UNLIMITED)
}

fn list(element: DeclType) -> DeclType {
    DeclType::list(element, UNLIMITED)
}

fn texts<'a>(names: &'a [&'a str]) -> impl Iterator<Item = (&'a str, DeclType)> {
    names.iter().map(|name| (*name, text()))
}

fn object<'a>(name: &str, fields: impl IntoIterator<Item = (&'a str, DeclType)>) -> DeclType {
    DeclType::object(Object::new(name, fields.into_iter().map(owned)))
}

fn owned((name, decl): (&str, DeclType)) -> (String, DeclType) {
    (name.to_owned(), decl)
}
