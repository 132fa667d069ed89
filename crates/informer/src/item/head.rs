//! [`Head`]: what is read of an object before it is cached: the names by which it is found, and
//! whether it says of which type it is.
//!
//! It is read strictly first, since that is fast. An object that does not fit, such as one with a
//! namespace of null or a generation in quotes, is read again as Go reads JSON; what makes no sense
//! there counts as absent, so that whatever has a name can be cached as it came.

use std::borrow::Cow;

use machinery::{Object, codec};
use serde::{Deserialize, Deserializer, de::IgnoredAny};

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
    pub(super) fn read(json: &'a [u8]) -> Result<Self, BadItem> {
        serde_json::from_slice(json).or_else(|error| read_again(json, error))
    }

    /// The same for what is known to be UTF-8, which need not be looked at then.
    pub(super) fn read_text(json: &'a str) -> Result<Self, BadItem> {
        serde_json::from_str(json).or_else(|error| read_again(json.as_bytes(), error))
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
        },
        api_version: mention("apiVersion"),
        kind: mention("kind"),
    })
}
