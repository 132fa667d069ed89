//! The parts of Neutron's objects that the operator reads. Unknown fields are ignored.

use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::backend::Mark;

/// The objects of a list.
pub(super) trait Listed: DeserializeOwned {
    /// The last segment of the path, and the name of the field of the response.
    const PLURAL: &'static str;
    /// The fields that are read.
    const FIELDS: &'static [&'static str];

    fn id(&self) -> &Id;

    fn project(&self) -> Option<&str>;
}

/// A network.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Network {
    pub(super) id: Id,
    project_id: Option<String>,
    #[serde(flatten)]
    pub(super) labels: Labels,
    #[serde(default)]
    pub(super) admin_state_up: bool,
    #[serde(default)]
    pub(super) created_at: String,
    pub(super) revision_number: u64,
}

impl Listed for Network {
    const PLURAL: &'static str = "networks";
    const FIELDS: &'static [&'static str] = &[
        "id",
        "project_id",
        "name",
        "description",
        "tags",
        "admin_state_up",
        "created_at",
        "revision_number",
    ];

    fn id(&self) -> &Id {
        &self.id
    }

    fn project(&self) -> Option<&str> {
        self.project_id.as_deref()
    }
}

/// A subnet.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Subnet {
    pub(super) id: Id,
    pub(super) network_id: Id,
    project_id: Option<String>,
    #[serde(flatten)]
    pub(super) labels: Labels,
    pub(super) cidr: String,
    pub(super) gateway_ip: Option<String>,
    pub(super) revision_number: u64,
}

impl Listed for Subnet {
    const PLURAL: &'static str = "subnets";
    const FIELDS: &'static [&'static str] = &[
        "id",
        "network_id",
        "project_id",
        "name",
        "description",
        "tags",
        "cidr",
        "gateway_ip",
        "revision_number",
    ];

    fn id(&self) -> &Id {
        &self.id
    }

    fn project(&self) -> Option<&str> {
        self.project_id.as_deref()
    }
}

/// What identifies a network or a subnet.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Labels {
    name: String,
    description: String,
    tags: Vec<String>,
}

impl Labels {
    /// Whether the tag or the description is the mark.
    pub(super) fn have(&self, mark: &Mark) -> bool {
        self.texts().any(|text| text == mark.as_str())
    }

    pub(super) fn is_tagged(&self, mark: &Mark) -> bool {
        self.tags.iter().any(|tag| tag == mark.as_str())
    }

    /// Whether the name and the description are those of the Network.
    pub(super) fn are_those_of(&self, mark: &Mark) -> bool {
        self.description == mark.as_str() && self.name == mark.key().to_string()
    }

    /// The texts that may be marks.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.tags.iter().map(String::as_str).chain([self.description.as_str()])
    }
}

/// An identifier, which is safe in a path: it has only letters, digits and hyphens.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(try_from = "String")]
pub struct Id(String);

impl Id {
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Id {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let is_allowed = |character: char| character.is_ascii_alphanumeric() || character == '-';
        if !text.chars().all(is_allowed) || !(1..=64).contains(&text.len()) {
            return Err("an identifier is not valid".to_owned());
        }
        Ok(Self(text))
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_that_would_change_the_path_is_refused() {
        for id in ["../ports", "a?b", "a/b", "", "a%2fb", &"a".repeat(65)] {
            assert!(Id::try_from(id.to_owned()).is_err(), "{id}");
        }
        assert!(Id::try_from("7f2a41d0-1b51-4c9e-8c07-2f1d5d0a0001".to_owned()).is_ok());
    }

    #[test]
    fn unknown_fields_are_ignored() {
        let network: Network = serde_json::from_str(
            r#"{"id": "a", "revision_number": 3, "router:external": false, "tags": ["b"]}"#,
        )
        .unwrap();
        assert_eq!((network.revision_number, network.labels.texts().next()), (3, Some("b")));
    }
}
