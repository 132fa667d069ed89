//! [`ElementType`]: the type that the elements of a list lack, and have elsewhere.

use std::borrow::Cow;

use super::head::{Head, Mention};
use crate::json_spans::{find_member, removal_of};

/// See the [module documentation](self). As members of an object.
pub(crate) struct ElementType {
    /// `"apiVersion":"v1"`
    pub(crate) api_version: String,
    /// `"kind":"Pod"`
    pub(crate) kind: String,
}

impl ElementType {
    /// The JSON of an object with this type, in so far as it has none of its own; None if it has.
    pub(super) fn write_into(&self, json: &[u8], head: &Head<'_>) -> Option<Vec<u8>> {
        let mentions =
            [(head.api_version, &self.api_version, "apiVersion"), (head.kind, &self.kind, "kind")];
        if mentions.iter().all(|(mention, ..)| *mention == Mention::WithValue) {
            return None;
        }
        let room = json.len() + self.api_version.len() + self.kind.len() + 2;
        let mut body = Vec::with_capacity(room);
        body.push(b'{');
        let mut rest = Cow::Borrowed(json.trim_ascii_start());
        for (mention, member, name) in mentions {
            if mention == Mention::AsNull
                && let Some(null) = find_member(&rest, &[name])
            {
                let cut = removal_of(&rest, null);
                rest.to_mut().drain(cut);
            }
            if mention != Mention::WithValue {
                body.extend_from_slice(member.as_bytes());
                body.push(b',');
            }
        }
        body.extend_from_slice(rest.strip_prefix(b"{").unwrap_or_default().trim_ascii_start());
        Some(body)
    }
}
