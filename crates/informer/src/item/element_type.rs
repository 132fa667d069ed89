//! [`ElementType`]: `apiVersion` and `kind` of the elements of a list, which lack them on the wire.

use std::borrow::Cow;

use super::head::{Head, Presence};
use crate::json_spans::{find_member, removal_of};

/// See the [module documentation](self). The fields are members of a JSON object.
pub(crate) struct ElementType {
    /// `"apiVersion":"v1"`
    pub(crate) api_version: String,
    /// `"kind":"Pod"`
    pub(crate) kind: String,
}

impl ElementType {
    /// Adds the members that the object lacks to its JSON; `None` if it has both.
    pub(super) fn write_into(&self, json: &[u8], head: &Head<'_>) -> Option<Vec<u8>> {
        let members =
            [(head.api_version, &self.api_version, "apiVersion"), (head.kind, &self.kind, "kind")];
        if members.iter().all(|(presence, ..)| *presence == Presence::Present) {
            return None;
        }
        let room = json.len() + self.api_version.len() + self.kind.len() + 2;
        let mut body = Vec::with_capacity(room);
        body.push(b'{');
        let mut rest = Cow::Borrowed(json.trim_ascii_start());
        for (presence, member, name) in members {
            if presence == Presence::Null
                && let Some(null) = find_member(&rest, &[name])
            {
                let cut = removal_of(&rest, null);
                rest.to_mut().drain(cut);
            }
            if presence != Presence::Present {
                body.extend_from_slice(member.as_bytes());
                body.push(b',');
            }
        }
        body.extend_from_slice(rest.strip_prefix(b"{").unwrap_or_default().trim_ascii_start());
        Some(body)
    }
}
