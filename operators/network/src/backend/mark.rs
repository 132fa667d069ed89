//! [`Mark`]: the identity of a Network in a backend, and [`Owner`], the operator that made it.
//!
//! ```
//! use network_operator::backend::{Mark, Owner};
//! use runtime::Request;
//!
//! let owner: Owner = "test".parse().unwrap();
//! let mark = Mark::new(&owner, &Request::new("default", "example-network")).unwrap();
//! assert_eq!(mark.as_str(), "samplecrd.k8s.io:test:default:example-network");
//! assert_eq!(owner.key_of(mark.as_str()), Some(Request::new("default", "example-network")));
//! assert_eq!(owner.key_of("samplecrd.k8s.io:another:default:example-network"), None);
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

/// The name under which an operator makes networks. Clusters that share a backend have different ones.
/// It has at most 63 letters, digits and hyphens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner(String);

/// The owner has other characters than letters, digits and hyphens, or is empty or too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an owner has 1 to 63 letters, digits and hyphens")]
pub struct InvalidOwner;

impl FromStr for Owner {
    type Err = InvalidOwner;

    fn from_str(text: &str) -> Result<Self, InvalidOwner> {
        let is_valid = text.chars().all(|it| it.is_ascii_alphanumeric() || it == '-');
        if !is_valid || !(1..=MAX_NAME).contains(&text.len()) {
            return Err(InvalidOwner);
        }
        Ok(Self(text.to_owned()))
    }
}

impl Owner {
    /// The Network with this mark; `None` if it is the mark of another owner, or none.
    pub fn key_of(&self, mark: &str) -> Option<Request> {
        let rest = mark.strip_prefix(PREFIX)?.strip_prefix(':')?;
        let (namespace, name) = rest.strip_prefix(&self.0)?.strip_prefix(':')?.split_once(':')?;
        let key = Request::new(namespace, name);
        Mark::new(self, &key).ok().filter(|known| known.as_str() == mark).map(|_| key)
    }
}

/// See the [module documentation](self).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    text: String,
    key: Request,
}

impl Mark {
    /// The mark of a Network, unless its name is too long.
    pub fn new(owner: &Owner, key: &Request) -> Result<Self, BackendError> {
        if key.name().len() > MAX_NAME || key.namespace().len() > MAX_NAME {
            let why = format!("the name of {key} has more than {MAX_NAME} characters");
            return Err(BackendError::Refused(why));
        }
        let text = format!("{PREFIX}:{}:{}:{}", owner.0, key.namespace(), key.name());
        Ok(Self { text, key: key.clone() })
    }

    /// The mark.
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
