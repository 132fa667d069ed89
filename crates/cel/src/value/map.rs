//! [`Map`]: computed entries, or a view of a JSON object; and [`Struct`], a message.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value as Json;

use super::equality::equal_within;
use super::json::view;
use super::{Text, Value, numbers};
use crate::decl::{DeclKind, DeclType, Object};
use crate::error::EvalError;
use crate::escaping;

type JsonMap = serde_json::Map<String, Json>;

/// A map, or an object with declared fields.
#[derive(Debug, Clone)]
pub enum Map<'a> {
    /// Computed.
    Values(Arc<Entries<'a>>),
    /// A JSON object with arbitrary keys.
    Json {
        /// The entries.
        entries: &'a JsonMap,
        /// The type of the values.
        value: &'a DeclType,
    },
    /// A JSON object with declared fields.
    Object {
        /// The entries, declared or not.
        entries: &'a JsonMap,
        /// The declaration.
        object: &'a Object,
    },
}

/// The entries of a computed map.
#[derive(Debug, Clone, Default)]
pub struct Entries<'a> {
    /// The values include the original keys: `1u` stays unsigned.
    by_key: BTreeMap<Key, (Value<'a>, Value<'a>)>,
}

/// A message that an expression created.
#[derive(Debug, Clone)]
pub struct Struct<'a> {
    /// The name of its type.
    pub name: Arc<str>,
    /// The fields that were set.
    pub fields: BTreeMap<String, Value<'a>>,
}

/// A normalized key: `1`, `1u` and `1.0` are the same key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Bool(bool),
    Int(i128),
    String(String),
}

impl Key {
    fn of(value: &Value<'_>) -> Option<Self> {
        Some(match value {
            Value::Bool(value) => Self::Bool(*value),
            Value::Int(value) => Self::Int(i128::from(*value)),
            Value::Uint(value) => Self::Int(i128::from(*value)),
            Value::Double(value) if value.fract() == 0.0 => {
                Self::Int(i128::from(numbers::double_to_int(*value)?))
            }
            Value::String(text) => Self::String(text.to_string()),
            _ => return None,
        })
    }
}

impl<'a> Entries<'a> {
    /// Adds an entry; an error if the key has an invalid type or exists.
    pub(crate) fn insert(&mut self, key: Value<'a>, value: Value<'a>) -> Result<(), EvalError> {
        let Some(index) = Key::of(&key) else {
            return Err(format!("unsupported key type: {}", key.type_name()).into());
        };
        if self.by_key.contains_key(&index) {
            return Err(format!("insert failed: key {key} already exists").into());
        }
        self.by_key.insert(index, (key, value));
        Ok(())
    }
}

impl<'a> Map<'a> {
    /// A map with string keys.
    pub fn of_strings(entries: impl IntoIterator<Item = (String, Value<'a>)>) -> Self {
        let by_key = entries
            .into_iter()
            .map(|(key, value)| (Key::String(key.clone()), (Value::String(Text::from(key)), value)))
            .collect();
        Self::Values(Arc::new(Entries { by_key }))
    }

    /// The number of entries; for a JSON object, declared or not.
    #[allow(clippy::len_without_is_empty, reason = "the language has only size()")]
    pub fn len(&self) -> usize {
        match self {
            Self::Values(entries) => entries.by_key.len(),
            Self::Json { entries, .. } | Self::Object { entries, .. } => entries.len(),
        }
    }

    /// The value of a key; None if it does not exist.
    pub fn get(&self, key: &Value<'a>) -> Option<Result<Value<'a>, EvalError>> {
        match (self, key) {
            (Self::Values(entries), _) => {
                entries.by_key.get(&Key::of(key)?).map(|(_, value)| Ok(value.clone()))
            }
            (_, Value::String(name)) => self.field(name),
            // Only a map without a schema reports keys of the wrong type.
            (Self::Json { value, .. }, key) if matches!(value.kind, DeclKind::Dyn) => {
                Some(Err(format!("unsupported map key type: {}", key.go_type()).into()))
            }
            _ => Some(Err(EvalError::no_such_overload())),
        }
    }

    /// The value of a string key; None if it does not exist. A declared field that is null counts
    /// as absent.
    pub fn field(&self, name: &str) -> Option<Result<Value<'a>, EvalError>> {
        match self {
            Self::Values(entries) => {
                let (_, value) = entries.by_key.get(&Key::String(name.to_owned()))?;
                Some(Ok(value.clone()))
            }
            Self::Json { entries, value } => entries.get(name).map(|found| view(found, value)),
            Self::Object { entries, object } => {
                let field = object.field(name)?;
                match entries.get(&field.name)? {
                    Json::Null => None,
                    found => Some(view(found, &field.decl)),
                }
            }
        }
    }

    /// The value of a JSON key, by its unescaped name.
    pub(super) fn raw(&self, key: &str) -> Option<Result<Value<'a>, EvalError>> {
        match self {
            Self::Object { .. } => self.field(&escaping::escape(key)?),
            _ => self.field(key),
        }
    }

    /// The keys in order; for an object, those that are declared and present.
    pub fn keys(&self) -> Vec<Value<'a>> {
        match self {
            Self::Values(entries) => entries.by_key.values().map(|(key, _)| key.clone()).collect(),
            Self::Json { entries, .. } => {
                entries.keys().map(|key| Value::String(Text::Borrowed(key))).collect()
            }
            Self::Object { entries, object } => object
                .fields()
                .filter(|(_, field)| entries.contains_key(&field.name))
                .map(|(name, _)| Value::String(Text::Borrowed(name)))
                .collect(),
        }
    }

    /// Adds an entry, in place if the map is not shared.
    pub(crate) fn inserted(self, key: Value<'a>, value: Value<'a>) -> Result<Self, EvalError> {
        let mut own = match self {
            Self::Values(entries) => entries,
            other => {
                let mut entries = Entries::default();
                for key in other.keys() {
                    if let Some(value) = other.get(&key) {
                        entries.insert(key, value?)?;
                    }
                }
                Arc::new(entries)
            }
        };
        Arc::make_mut(&mut own).insert(key, value)?;
        Ok(Self::Values(own))
    }

    pub(super) fn equals(&self, other: &Map<'a>, depth: usize) -> bool {
        if self.len() != other.len() {
            return false;
        }
        if let (Self::Object { entries, object }, Self::Object { entries: others, .. }) =
            (self, other)
        {
            let field = |name: &str| escaping::escape(name).and_then(|it| object.field(&it));
            let declared = |name: &str| field(name).is_some_and(|it| it.name == name);
            let same = |(name, value): (&String, &Json)| {
                declared(name) || others.get(name).is_none_or(|other| other == value)
            };
            if !entries.iter().all(same) {
                return false;
            }
        }
        self.keys().iter().all(|key| match (self.get(key), other.get(key)) {
            (Some(Ok(a)), Some(Ok(b))) => equal_within(&a, &b, depth),
            (None, None) => true,
            _ => false,
        })
    }
}
