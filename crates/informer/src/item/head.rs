//! [`Head`]: what is read of an object before it is cached: the names by which it is found, and
//! whether it says of which type it is.
//!
//! It is read strictly first, since that is fast. An object that does not fit, such as one with a
//! namespace of null or a generation in quotes, is read again as Go reads JSON; what makes no sense
//! there counts as absent, so that whatever has a name can be cached as it came.

use std::{borrow::Cow, ops::Range};

use machinery::{Object, codec};
use serde::{Deserialize, Deserializer, de::IgnoredAny};
use serde_json::value::RawValue;

use super::body::parse;
use crate::BadItem;

/// See the [module documentation](self).
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Head<'a> {
    #[serde(borrow)]
    pub(super) metadata: Metadata<'a>,
    #[serde(default)]
    pub(super) api_version: Mention,
    #[serde(default)]
    pub(super) kind: Mention,
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

/// How an object speaks of something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Mention {
    #[default]
    Nowhere,
    AsNull,
    WithValue,
}

impl<'de> Deserialize<'de> for Mention {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Option::<IgnoredAny>::deserialize(deserializer)?;
        Ok(if value.is_some() { Self::WithValue } else { Self::AsNull })
    }
}

impl<'a> Head<'a> {
    /// Where `metadata.managedFields` are in `json`, of which this is the head; None if that is not
    /// known.
    pub(super) fn managed_fields(&self, json: &[u8]) -> Option<Range<usize>> {
        let value = self.metadata.managed_fields?.get();
        let start = value.as_ptr().addr() - json.as_ptr().addr();
        let before = json.get(..start)?.trim_ascii_end().strip_suffix(b":")?.trim_ascii_end();
        let key_start = before.strip_suffix(br#""managedFields""#)?.len();
        Some(key_start..start + value.len())
    }

    /// Whether it speaks of its type only to say that there is none.
    pub(super) fn mentions_null(&self) -> bool {
        [self.api_version, self.kind].contains(&Mention::AsNull)
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
    let mention = |key| match object.get(&[key]) {
        None => Mention::Nowhere,
        Some(value) if value.is_null() => Mention::AsNull,
        Some(_) => Mention::WithValue,
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
        api_version: mention("apiVersion"),
        kind: mention("kind"),
    })
}
