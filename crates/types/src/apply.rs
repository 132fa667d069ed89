//! [`TypeRef`]: the schemas of server-side apply for built-in and custom kinds.
//!
//! ```
//! use types::apply::TypeRef;
//! use machinery::json;
//! use machinery::patch::apply::fields;
//!
//! let pod = TypeRef::Type(types::of_kind("v1", "Pod").expect("Pods are built in"));
//! let config = json!({"spec": {"containers": [{"name": "a", "command": ["b", "c"]}]}});
//! let owned = fields(pod, config.as_object().expect("a literal object"));
//! assert_eq!(
//!     owned.paths(),
//!     [
//!         r#".spec.containers[name="a"]"#,
//!         r#".spec.containers[name="a"].command"#,
//!         r#".spec.containers[name="a"].name"#,
//!     ]
//! );
//! ```

mod custom;
mod filters;
mod versions;

pub use custom::{CustomSchema, CustomTypeRef};
pub use filters::filter;
pub use versions::ResourceVersions;

use std::borrow::Cow;
use std::sync::LazyLock;

use crate::{Container, Emit, Field, Item, ListType, Type, normalize};
use machinery::patch::apply::{Forms, ListRule, MapRule, Scalar, Schema};
use machinery::{Value, json};

/// The schema of a part of an object. See the [module documentation](self).
#[derive(Debug, Clone, Copy)]
pub enum TypeRef<'a> {
    /// An object of a built-in type.
    Type(&'static Type),
    /// A field of a built-in type.
    Field(&'static Field),
    /// One of the values of a field that has many.
    Element(&'static Field),
    /// A part of a custom resource.
    Custom(CustomTypeRef<'a>),
    /// Not described: objects are owned field by field, lists as a whole.
    Deduced,
    /// Not described, and owned as a whole.
    Untyped,
}

impl TypeRef<'_> {
    /// The type of the object here, if it is one of a built-in type.
    fn object(self) -> Option<&'static Type> {
        match self {
            Self::Type(ty) => Some(ty),
            Self::Field(field) if field.container == Container::One => field.message(),
            Self::Element(field) => field.message(),
            _ => None,
        }
    }
}

impl Schema for TypeRef<'_> {
    fn forms(self) -> Forms {
        match self {
            Self::Type(ty) => object_forms(ty, ty.atomic),
            Self::Field(field) => match field.container {
                Container::One => item_forms(field.item, Some(field.atomic)),
                Container::List => Forms::list(list_rule(field)),
                Container::Map if field.atomic => Forms::map(MapRule::Atomic),
                Container::Map => Forms::map(MapRule::Granular),
            },
            Self::Element(field) => item_forms(field.item, None),
            Self::Custom(custom) => custom.forms(),
            Self::Deduced => Forms::DEDUCED,
            Self::Untyped => Forms::UNTYPED,
        }
    }

    fn field(self, name: &str) -> Option<Self> {
        match self {
            Self::Custom(custom) => custom.field(name),
            other => other.object()?.field(name).map(Self::Field),
        }
    }

    fn undeclared(self) -> Option<Self> {
        match self {
            Self::Custom(custom) => custom.others(),
            Self::Deduced => Some(Self::Deduced),
            Self::Untyped => Some(Self::Untyped),
            Self::Field(field) if field.container == Container::Map => Some(Self::Element(field)),
            other => match other.object() {
                Some(ty) if ty.fields().len() > 0 => None,
                // An object type without fields accepts any field.
                _ => Some(Self::Deduced),
            },
        }
    }

    fn items(self) -> Self {
        match self {
            Self::Field(field) if field.container == Container::List => Self::Element(field),
            Self::Custom(custom) => custom.items(),
            _ => Self::Untyped,
        }
    }

    fn key(&self, index: usize) -> Option<&str> {
        match self {
            Self::Field(field) if field.list == ListType::Unset => {
                field.merge_key().filter(|_| index == 0)
            }
            Self::Field(field) => field.keys().nth(index),
            Self::Custom(custom) => custom.key(index),
            _ => None,
        }
    }

    fn key_default(&self, key: &str) -> Option<Cow<'_, Value>> {
        match self {
            Self::Custom(custom) => custom.key_default(key).map(Cow::Borrowed),
            Self::Field(field) => {
                let key = field.message()?.field(key)?;
                if let Some(declared) = key.default() {
                    return serde_json::from_str(declared).ok().map(Cow::Owned);
                }
                // The schema declares Go's zero as the default of a field that Go always writes.
                let zero = key.emit == Emit::Always && key.container == Container::One;
                zero.then(|| Cow::Owned(normalize::zero(key)))
            }
            _ => None,
        }
    }

    fn zero_value(self, name: &str) -> Option<&'static Value> {
        let field = self.object()?.field(name)?;
        if matches!(field.emit, Emit::OmitZero | Emit::Pointer) {
            return None;
        }
        if field.emit == Emit::Null || field.container != Container::One {
            return Some(&ZEROS.null);
        }
        Some(match field.item {
            Item::Message(_) => &ZEROS.object,
            Item::String => &ZEROS.string,
            Item::Int32 | Item::Int64 | Item::Double | Item::IntOrString => &ZEROS.number,
            Item::Bool | Item::SchemaOrBool => &ZEROS.boolean,
            Item::Quantity => &ZEROS.quantity,
            _ => &ZEROS.null,
        })
    }

    fn untyped() -> Self {
        Self::Untyped
    }
}

/// The values that Go writes for unset fields. An object is empty: its own fields are unset too.
struct Zeros {
    null: Value,
    object: Value,
    string: Value,
    number: Value,
    boolean: Value,
    quantity: Value,
}

static ZEROS: LazyLock<Zeros> = LazyLock::new(|| Zeros {
    null: Value::Null,
    object: json!({}),
    string: "".into(),
    number: 0.into(),
    boolean: false.into(),
    quantity: "0".into(),
});

fn list_rule(field: &Field) -> ListRule {
    match field.list {
        ListType::Map => ListRule::Map,
        ListType::Set => ListRule::Set,
        // Where only the strategic merge patch declares how a list merges, apply does the same.
        ListType::Unset if field.merge && field.merge_key().is_some() => ListRule::Map,
        ListType::Unset if field.merge => ListRule::Set,
        ListType::Unset | ListType::Atomic => ListRule::Atomic,
    }
}

fn object_forms(ty: &Type, atomic: bool) -> Forms {
    Forms::map(match (atomic, ty.fields().len()) {
        (true, _) => MapRule::Atomic,
        (false, 0) => MapRule::FreeForm,
        (false, _) => MapRule::Granular,
    })
}

/// The forms of one value. `atomic` is the marker of a field, which overrides that of its type.
fn item_forms(item: Item, atomic: Option<bool>) -> Forms {
    match item {
        Item::String | Item::Bytes => Forms::scalar(Scalar::String),
        Item::Int32 | Item::Int64 | Item::Double => Forms::scalar(Scalar::Numeric),
        Item::Bool => Forms::scalar(Scalar::Boolean),
        Item::Quantity | Item::IntOrString | Item::Time | Item::MicroTime => {
            Forms::scalar(Scalar::Untyped)
        }
        Item::RawExtension => Forms::UNTYPED,
        Item::Json | Item::SchemaOrBool | Item::SchemaOrArray | Item::SchemaOrStrings => {
            Forms::DEDUCED
        }
        Item::FieldsV1 => Forms::map(MapRule::FreeForm),
        Item::Strings => Forms::list(ListRule::Atomic),
        Item::Message(id) => object_forms(id.get(), atomic.unwrap_or(id.get().atomic)),
    }
}
