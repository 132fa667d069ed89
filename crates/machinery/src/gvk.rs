//! Group, version, kind, resource: the coordinates of everything the API serves.

use std::fmt;
use std::str::FromStr;

/// An API group and one of its versions, `apps/v1`; the core group is empty and prints as `v1`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct GroupVersion {
    /// Empty for the core group.
    pub group: String,
    /// `v1`, `v1beta1`, …
    pub version: String,
}

impl GroupVersion {
    /// Copies both parts.
    pub fn new(group: &str, version: &str) -> Self {
        Self { group: group.to_owned(), version: version.to_owned() }
    }
}

impl fmt::Display for GroupVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            f.write_str(&self.version)
        } else {
            write!(f, "{}/{}", self.group, self.version)
        }
    }
}

/// An `apiVersion` that is not `version` or `group/version`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unexpected GroupVersion string: {0}")]
pub struct BadGroupVersion(pub String);

impl FromStr for GroupVersion {
    type Err = BadGroupVersion;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('/') {
            None => Ok(Self::new("", text)),
            Some((group, version)) if !version.contains('/') => Ok(Self::new(group, version)),
            Some(_) => Err(BadGroupVersion(text.to_owned())),
        }
    }
}

/// A kind with its group and version, as `apiVersion` and `kind` name it in a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct GroupVersionKind {
    /// Empty for the core group.
    pub group: String,
    /// `v1`, `v1beta1`, …
    pub version: String,
    /// `Pod`
    pub kind: String,
}

impl GroupVersionKind {
    /// Copies the three parts.
    pub fn new(group: &str, version: &str, kind: &str) -> Self {
        Self { group: group.to_owned(), version: version.to_owned(), kind: kind.to_owned() }
    }

    /// The group and the version, without the kind.
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion::new(&self.group, &self.version)
    }

    /// The group and the kind, without the version.
    pub fn group_kind(&self) -> GroupKind {
        GroupKind::new(&self.group, &self.kind)
    }
}

impl fmt::Display for GroupVersionKind {
    /// As Kubernetes' messages print it: `apps/v1, Kind=Deployment`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, Kind={}", self.group_version(), self.kind)
    }
}

/// A kind in any version; prints as `Deployment.apps`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct GroupKind {
    /// Empty for the core group.
    pub group: String,
    /// `Deployment`
    pub kind: String,
}

impl GroupKind {
    /// Copies both parts.
    pub fn new(group: &str, kind: &str) -> Self {
        Self { group: group.to_owned(), kind: kind.to_owned() }
    }
}

impl fmt::Display for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        dotted(f, &self.kind, &self.group)
    }
}

/// A resource in any version; prints as `deployments.apps`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct GroupResource {
    /// Empty for the core group.
    pub group: String,
    /// The plural, `deployments`.
    pub resource: String,
}

impl GroupResource {
    /// Copies both parts.
    pub fn new(group: &str, resource: &str) -> Self {
        Self { group: group.to_owned(), resource: resource.to_owned() }
    }
}

impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        dotted(f, &self.resource, &self.group)
    }
}

fn dotted(f: &mut fmt::Formatter<'_>, name: &str, group: &str) -> fmt::Result {
    if group.is_empty() { f.write_str(name) } else { write!(f, "{name}.{group}") }
}

/// Orders API versions as discovery prefers them: GA before beta before alpha, newer first, and
/// names of another shape last, alphabetically.
pub fn version_priority(a: &str, b: &str) -> std::cmp::Ordering {
    match (rank(a), rank(b)) {
        (Some(x), Some(y)) => y.cmp(&x),
        (Some(_), None) => std::cmp::Ordering::Less,
        (None, Some(_)) => std::cmp::Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

/// `v2beta3` is (stability 1, major 2, minor 3); None for names of another shape.
fn rank(version: &str) -> Option<(u8, u64, u64)> {
    let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let rest = version.strip_prefix('v')?;
    let (major, rest) = rest.split_at(digits(rest));
    let major = major.parse().ok().filter(|_| !major.starts_with('0'))?;
    if rest.is_empty() {
        return Some((2, major, 0));
    }
    let (stability, minor) = if let Some(minor) = rest.strip_prefix("beta") {
        (1, minor)
    } else {
        (0, rest.strip_prefix("alpha")?)
    };
    Some((stability, major, minor.parse().ok().filter(|_| !minor.starts_with('0'))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_stability_and_then_newest_first() {
        let mut versions = ["v1alpha1", "foo10", "v10", "v2beta1", "v2", "v11beta2", "foo1", "v1"];
        versions.sort_by(|a, b| version_priority(a, b));
        assert_eq!(
            versions,
            ["v10", "v2", "v1", "v11beta2", "v2beta1", "v1alpha1", "foo1", "foo10"]
        );
    }

    #[test]
    fn the_core_group_has_no_slash() {
        assert_eq!("v1".parse::<GroupVersion>().unwrap(), GroupVersion::new("", "v1"));
        assert_eq!("apps/v1".parse::<GroupVersion>().unwrap().to_string(), "apps/v1");
        assert!("a/b/c".parse::<GroupVersion>().is_err());
    }
}
