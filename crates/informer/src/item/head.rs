//! [`Head`]: the part of an object that is read before it is cached: its metadata, and whether it has
//! `apiVersion` and `kind`.
//!
//! The first attempt is strict, since that is fast. If it fails, for instance on a namespace of null
//! or a generation in quotes, the object is decoded as Go decodes JSON, and a field of a wrong type
//! counts as absent, so that every object with a name can be cached.

use std::borrow::Cow;
use std::ops::Range;

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::body::parse;
use crate::BadItem;
use machinery::{Object, codec};

/// See the [module documentation](self).
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Head<'a> {
    #[serde(borrow)]
    pub(super) metadata: Metadata<'a>,
    #[serde(default)]
    pub(super) api_version: Presence,
    #[serde(default)]
    pub(super) kind: Presence,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Metadata<'a> {
    #[serde(borrow, default)]
    pub(super) name: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) namespace: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) uid: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) resource_version: Cow<'a, str>,
    #[serde(default)]
    pub(super) generation: i64,
    #[serde(borrow, default)]
    managed_fields: Option<&'a RawValue>,
}

/// Whether an object has a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Presence {
    #[default]
    Absent,
    Null,
    Present,
}

impl<'de> Deserialize<'de> for Presence {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Option::<IgnoredAny>::deserialize(deserializer)?;
        Ok(if value.is_some() { Self::Present } else { Self::Null })
    }
}

impl<'a> Head<'a> {
    /// The position of `metadata.managedFields` in `json`, whose head this is, if it is known.
    pub(super) fn managed_fields(&self, json: &[u8]) -> Option<Range<usize>> {
        let value = self.metadata.managed_fields?.get();
        let start = value.as_ptr().addr() - json.as_ptr().addr();
        let before = json.get(..start)?.trim_ascii_end().strip_suffix(b":")?.trim_ascii_end();
        let key_start = before.strip_suffix(br#""managedFields""#)?.len();
        Some(key_start..start + value.len())
    }

    /// Whether `apiVersion` or `kind` is null.
    pub(super) fn has_null_type(&self) -> bool {
        [self.api_version, self.kind].contains(&Presence::Null)
    }

    pub(super) fn read(json: &'a [u8]) -> Result<Self, BadItem> {
        parse(json).or_else(|error| read_again(json, error))
    }
}

fn read_again<'a>(json: &[u8], error: serde_json::Error) -> Result<Head<'a>, BadItem> {
    let object = codec::json::decode(json).ok().and_then(|read| Object::from_value(read.value));
    let Some(object) = object.filter(|object| object.metadata().is_some()) else {
        return Err(BadItem::Malformed(error));
    };
    let text = |key| Cow::Owned(object.meta_text(key).to_owned());
    let presence = |key| match object.get(&[key]) {
        None => Presence::Absent,
        Some(value) if value.is_null() => Presence::Null,
        Some(_) => Presence::Present,
    };
    Ok(Head {
        metadata: Metadata {
            name: text("name"),
            namespace: text("namespace"),
            uid: text("uid"),
            resource_version: text("resourceVersion"),
            generation: object.generation(),
            managed_fields: None,
        },
        api_version: presence("apiVersion"),
        kind: presence("kind"),
    })
}
