//! [`Mark`]: the text that everything of one Network carries in a backend, as a tag in Neutron and as
//! an alias on Linux.
//!
//! ```
//! use network_operator::backend::{ClusterName, Mark};
//! use runtime::Request;
//!
//! let cluster: ClusterName = "test".parse().unwrap();
//! let mark = Mark::new(&cluster, &Request::new("default", "example-network")).unwrap();
//! assert_eq!(mark.as_str(), "samplecrd.k8s.io:test:default:example-network");
//! assert_eq!(cluster.key_of(mark.as_str()), Some(Request::new("default", "example-network")));
//! assert_eq!(cluster.key_of("samplecrd.k8s.io:another:default:example-network"), None);
//! ```

use std::fmt;
use std::str::FromStr;

use super::BackendError;
use runtime::Request;

/// What all marks begin with.
const PREFIX: &str = "samplecrd.k8s.io";

/// The longest name or namespace. A mark is then shorter than 255 bytes, which is the limit of tags in
/// Neutron and of aliases in Linux.
const MAX_NAME: usize = 63;

/// The name of the cluster, by which clusters that share a backend tell their networks apart. It has at
/// most 63 letters, digits and hyphens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterName(String);

/// The name has other characters than letters, digits and hyphens, or is empty or too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the name of a cluster has 1 to 63 letters, digits and hyphens")]
pub struct InvalidClusterName;

impl FromStr for ClusterName {
    type Err = InvalidClusterName;

    fn from_str(text: &str) -> Result<Self, InvalidClusterName> {
        let is_allowed = |character: char| character.is_ascii_alphanumeric() || character == '-';
        if !text.chars().all(is_allowed) || !(1..=MAX_NAME).contains(&text.len()) {
            return Err(InvalidClusterName);
        }
        Ok(Self(text.to_owned()))
    }
}

impl ClusterName {
    /// The Network with this mark; `None` if it belongs to another cluster, or is not a mark.
    pub fn key_of(&self, mark: &str) -> Option<Request> {
        let rest = mark.strip_prefix(PREFIX)?.strip_prefix(':')?;
        let (namespace, name) = rest.strip_prefix(&self.0)?.strip_prefix(':')?.split_once(':')?;
        let key = Request::new(namespace, name);
        Mark::new(self, &key).ok().filter(|known| known.as_str() == mark).map(|_| key)
    }
}

/// The text that everything of one Network carries in a backend, and by which it is found again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    text: String,
    key: Request,
}

impl Mark {
    /// The mark of a Network, unless its name is too long.
    pub fn new(cluster: &ClusterName, key: &Request) -> Result<Self, BackendError> {
        if key.name().len() > MAX_NAME || key.namespace().len() > MAX_NAME {
            let why = format!("the name of {key} has more than {MAX_NAME} characters");
            return Err(BackendError::Refused(why));
        }
        let text = format!("{PREFIX}:{}:{}:{}", cluster.0, key.namespace(), key.name());
        Ok(Self { text, key: key.clone() })
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The key of the Network.
    pub fn key(&self) -> &Request {
        &self.key
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
