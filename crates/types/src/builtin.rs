//! [`Type`] and [`Field`]: the table of the API's built-in types.

mod generated;

use generated::{BY_NAME, DECLARED, ENUMS, FIELDS, KEYS, PACKAGES, TEXT, TYPES};

/// The type with a name such as `core/v1.Pod`: the Go package without its prefix, and the Go type.
pub fn find(name: &str) -> Option<&'static Type> {
    let (package, short) = name.rsplit_once('.')?;
    let key = |ty: &Type| (ty.package().name(), ty.short_name());
    TYPES.binary_search_by(|ty| key(ty).cmp(&(package, short))).ok().map(|at| &TYPES[at])
}

/// The type of a kind, e.g. of `apps/v1` and `Deployment`.
pub fn of_kind(api_version: &str, kind: &str) -> Option<&'static Type> {
    let package = PACKAGES.iter().find(|package| package.api_version() == api_version)?;
    let key = |ty: &Type| (ty.package().name(), ty.short_name());
    let at = TYPES.binary_search_by(|ty| key(ty).cmp(&(package.name(), kind))).ok()?;
    Some(&TYPES[at]).filter(|ty| ty.is_kind)
}

/// Kinds that are also decoded in a version that is not served: (`apiVersion`, type).
const ALIASES: [(&str, &str); 1] = [("policy/v1beta1", "policy/v1.Eviction")];

/// Whether an object of the type may have this `apiVersion`, which is not that of the type.
pub fn is_alias(api_version: &str, ty: &Type) -> bool {
    ALIASES.contains(&(api_version, ty.name()))
}

/// Every type, by package and name.
pub fn all() -> &'static [Type] {
    &TYPES
}

/// A message of the API.
#[derive(Debug)]
pub struct Type {
    name: Text,
    package: u16,
    /// Where the short name begins in the name.
    short: u16,
    fields: Span,
    always_written: Span,
    wire: Span,
    /// Whether it has `kind` and `apiVersion`, which its protobuf message does not have.
    pub is_kind: bool,
    /// Whether server-side apply treats values of the type as atomic.
    pub atomic: bool,
    /// Whether it is a union, with a field that says which member is set.
    pub union: bool,
}

impl Type {
    /// E.g. `core/v1.Pod`.
    pub fn name(&self) -> &'static str {
        self.name.get()
    }

    /// E.g. `Pod`.
    pub fn short_name(&self) -> &'static str {
        &self.name.get()[usize::from(self.short)..]
    }

    /// The package that defines it.
    pub fn package(&self) -> &'static Package {
        &PACKAGES[usize::from(self.package)]
    }

    /// E.g. `io.k8s.api.core.v1.Pod`.
    pub fn openapi_name(&self) -> String {
        format!("{}.{}", self.package().openapi.get(), self.short_name())
    }

    /// The field with that JSON name, which is case-sensitive.
    pub fn field(&self, json: &str) -> Option<&'static Field> {
        let at = self.fields.range().start + self.find(json)?;
        Some(&FIELDS[usize::from(BY_NAME[at])])
    }

    /// The same, and its position in Go's declaration, which is the order of JSON.
    pub fn declared(&self, json: &str) -> Option<(u8, &'static Field)> {
        let at = self.fields.range().start + self.find(json)?;
        Some((DECLARED[at], &FIELDS[usize::from(BY_NAME[at])]))
    }

    /// The index of a field among those of the type, which are sorted by name.
    fn find(&self, json: &str) -> Option<usize> {
        let fields = &BY_NAME[self.fields.range()];
        let name = |at: u16| FIELDS[usize::from(at)].json.bytes();
        fields.binary_search_by(|at| name(*at).cmp(json.as_bytes())).ok()
    }

    /// All fields of the JSON object, by name.
    pub fn fields(&self) -> impl ExactSizeIterator<Item = &'static Field> {
        BY_NAME[self.fields.range()].iter().map(|at| &FIELDS[usize::from(*at)])
    }

    /// All fields of the protobuf message, by number.
    pub fn wire(&self) -> &'static [Field] {
        &FIELDS[self.wire.range()]
    }

    /// The fields of the JSON object that Go writes even if they are unset, by name.
    pub fn always_written(&self) -> impl ExactSizeIterator<Item = &'static Field> {
        BY_NAME[self.always_written.range()].iter().map(|at| &FIELDS[usize::from(*at)])
    }
}

/// A version of an API group, as a Go package.
#[derive(Debug)]
pub struct Package {
    name: Text,
    api_version: Text,
    openapi: Text,
}

impl Package {
    /// E.g. `rbac/v1`.
    pub fn name(&self) -> &'static str {
        self.name.get()
    }

    /// E.g. `rbac.authorization.k8s.io/v1`.
    pub fn api_version(&self) -> &'static str {
        self.api_version.get()
    }

    /// E.g. `v1`; in Go's messages also the name of the package.
    pub fn version(&self) -> &'static str {
        self.name().rsplit('/').next().unwrap_or_default()
    }
}

/// A field of a type.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "markers that do not depend on each other")]
pub struct Field {
    json: Text,
    go: Text,
    default: Text,
    merge_key: Text,
    keys: Span,
    enums: Span,
    /// What one value is.
    pub item: Item,
    /// How many values there are.
    pub container: Container,
    /// The protobuf field number; 0 for `kind` and `apiVersion`.
    pub number: u16,
    /// What Go writes for an empty value.
    pub emit: Emit,
    /// How server-side apply merges a list.
    pub list: ListType,
    /// Whether the API requires it.
    pub required: bool,
    /// Whether server-side apply treats a map or an object as atomic.
    pub atomic: bool,
    /// Whether a strategic merge patch merges a list instead of replacing it.
    pub merge: bool,
    /// Whether a strategic merge patch drops the keys that it does not name.
    pub retain_keys: bool,
    /// Whether JSON has the message's fields in place of it. Only in [`Type::wire`].
    pub inline: bool,
    /// Whether it says which member of a union is set.
    pub discriminator: bool,
}

impl Field {
    /// The name in JSON; empty if it is inline.
    pub fn json(&self) -> &'static str {
        self.json.get()
    }

    /// The Go type, where it does not follow from the rest; otherwise empty.
    pub(crate) fn go_type(&self) -> &'static str {
        self.go.get()
    }

    /// The fields that together identify an element of a list of type map.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &'static str> {
        KEYS[self.keys.range()].iter().map(|key| key.get())
    }

    /// The field that identifies an element for a strategic merge patch.
    pub fn merge_key(&self) -> Option<&'static str> {
        Some(self.merge_key.get()).filter(|key| !key.is_empty())
    }

    /// The default that the schema declares, as JSON.
    pub fn default(&self) -> Option<&'static str> {
        Some(self.default.get()).filter(|default| !default.is_empty())
    }

    /// The values that the API declares for it; none if it declares no enumeration.
    pub fn enums(&self) -> impl ExactSizeIterator<Item = &'static str> {
        ENUMS[self.enums.range()].iter().map(|value| value.get())
    }

    /// The type of its values, if they are messages.
    pub fn message(&self) -> Option<&'static Type> {
        match self.item {
            Item::Message(id) => Some(id.get()),
            _ => None,
        }
    }
}

/// What one value of a field is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Item {
    /// Text.
    String,
    /// A 32-bit number.
    Int32,
    /// A 64-bit number.
    Int64,
    /// True or false.
    Bool,
    /// A floating point number.
    Double,
    /// Bytes, in JSON as base64.
    Bytes,
    /// An amount, in JSON as text or number.
    Quantity,
    /// A number or text.
    IntOrString,
    /// A time in seconds.
    Time,
    /// A time in microseconds.
    MicroTime,
    /// Any object, usually with a kind.
    RawExtension,
    /// Any value.
    Json,
    /// A set of field paths, in JSON as an object.
    FieldsV1,
    /// A list of texts; in protobuf a message with `items` (1).
    Strings,
    /// A schema of the field's own type, or a boolean.
    SchemaOrBool,
    /// A schema of the field's own type, or a list of them.
    SchemaOrArray,
    /// A schema of the field's own type, or a list of texts.
    SchemaOrStrings,
    /// An object.
    Message(TypeId),
}

/// A reference to a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TypeId(u16);

impl TypeId {
    /// The type.
    pub fn get(self) -> &'static Type {
        &TYPES[usize::from(self.0)]
    }
}

/// How many values a field has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Container {
    /// One, or none.
    One,
    /// A list.
    List,
    /// A map with string keys.
    Map,
}

/// What Go writes for a field that is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Emit {
    /// Nothing if it is zero: `""`, `0`, `false`, `[]`, `{}`.
    OmitZero,
    /// Nothing if it was not set; a zero that was set is written.
    Pointer,
    /// Always a value: an object, text, a number.
    Always,
    /// `null` if it was not set.
    Null,
}

/// How server-side apply merges a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListType {
    /// Not declared: as a whole.
    Unset,
    /// As a whole.
    Atomic,
    /// By value.
    Set,
    /// By [`Field::keys`].
    Map,
}

/// A part of [`TEXT`], which holds all names: (offset, length).
#[derive(Debug, Clone, Copy)]
struct Text(u32, u16);

impl Text {
    fn get(self) -> &'static str {
        &TEXT[self.range()]
    }

    /// Cheaper than [`Text::get`], because no character boundary is checked.
    fn bytes(self) -> &'static [u8] {
        &TEXT.as_bytes()[self.range()]
    }

    fn range(self) -> std::ops::Range<usize> {
        self.0 as usize..self.0 as usize + usize::from(self.1)
    }
}

/// A part of one of the generated arrays: (offset, length).
#[derive(Debug, Clone, Copy)]
struct Span(u16, u16);

impl Span {
    fn range(self) -> std::ops::Range<usize> {
        usize::from(self.0)..usize::from(self.0) + usize::from(self.1)
    }
}

#[cfg(test)]
mod tests;
