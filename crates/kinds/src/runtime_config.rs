//! [`RuntimeConfig`]: which versions of the built-in kinds are served, as in `--runtime-config` of
//! kube-apiserver.
//!
//! ```
//! use kinds::runtime_config::RuntimeConfig;
//!
//! let served = |items: &[&str]| {
//!     let mut kinds = kinds::table::builtin();
//!     RuntimeConfig::parse(items).unwrap().apply(&mut kinds).unwrap();
//!     kinds.iter().any(|it| it.kind == "StorageVersionMigration" && it.versions[0].served)
//! };
//! assert!(!served(&[]) && served(&["api/beta=true"]));
//! assert!(!served(&["api/all=true", "storagemigration.k8s.io/v1beta1=false"]));
//! ```

use machinery::GroupVersion;
use types::resource::{Resource, Version};

/// See the [module documentation](self).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuntimeConfig {
    /// The later ones decide.
    entries: Vec<Entry>,
}

/// One `key=value`. The order of targets is that of their precedence.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    target: Target,
    is_served: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Target {
    All,
    Stable,
    Beta,
    Alpha,
    Version(String, String),
    Resource(String, String, String),
}

/// A value of `--runtime-config` that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuntimeConfigError {
    /// Correct the key.
    #[error(
        "invalid key {0:?}: use GROUP/VERSION, GROUP/VERSION/RESOURCE, or api/all, api/ga, api/beta \
         or api/alpha, as in storagemigration.k8s.io/v1beta1=true"
    )]
    Key(String),
    /// Use `true` or `false`.
    #[error("invalid value {value:?} of {key}: use true or false")]
    Value {
        /// The key.
        key: String,
        /// Its value.
        value: String,
    },
    /// Correct the group, version or resource.
    #[error("there is no built-in API {0}; those that can be turned on and off are {known}", known = optional().join(", "))]
    Unknown(String),
    /// Leave the version on.
    #[error(
        "{0} cannot be turned off, since the server and its controllers use it; the APIs that can \
         be turned on and off are {known}", known = optional().join(", ")
    )]
    Required(String),
}

impl RuntimeConfig {
    /// Parses `key=value` pairs; a group version without a value is turned on.
    pub fn parse<S: AsRef<str>>(items: &[S]) -> Result<Self, RuntimeConfigError> {
        let mut entries: Vec<Entry> = Vec::new();
        for item in items.iter().map(AsRef::as_ref) {
            let (key, value) = item.split_once('=').unwrap_or((item, ""));
            let (key, value) = (key.trim(), value.trim());
            let target = target(key).ok_or_else(|| RuntimeConfigError::Key(key.to_owned()))?;
            let is_served = match value {
                "1" | "t" | "T" | "true" | "TRUE" | "True" => true,
                "0" | "f" | "F" | "false" | "FALSE" | "False" => false,
                "" if matches!(target, Target::Version(..) | Target::Resource(..)) => true,
                _ => {
                    let (key, value) = (key.to_owned(), value.to_owned());
                    return Err(RuntimeConfigError::Value { key, value });
                }
            };
            entries.retain(|it| it.target != target);
            entries.push(Entry { target, is_served });
        }
        entries.sort_by(|a, b| a.target.cmp(&b.target));
        Ok(Self { entries })
    }

    /// Sets which versions of `resources` are served.
    pub fn apply(&self, resources: &mut [Resource]) -> Result<(), RuntimeConfigError> {
        for Entry { target, is_served } in &self.entries {
            let mut is_known = target.is_level();
            for resource in &mut *resources {
                let (group, plural) = (resource.group.clone(), resource.plural.clone());
                let matching = resource.versions.iter_mut();
                for version in matching.filter(|it| target.includes(&group, &plural, it)) {
                    is_known = true;
                    version.served = *is_served;
                }
            }
            if !is_known {
                return Err(RuntimeConfigError::Unknown(target.to_string()));
            }
        }
        let mut versions =
            resources.iter().flat_map(|it| it.versions.iter().map(move |version| (it, version)));
        let off = versions.find(|(_, version)| is_stable(&version.name) && !version.served);
        match off {
            Some((resource, version)) => {
                Err(RuntimeConfigError::Required(resource.api_version(version)))
            }
            None => Ok(()),
        }
    }
}

impl Target {
    /// Whether this names versions by their stability.
    fn is_level(&self) -> bool {
        !matches!(self, Self::Version(..) | Self::Resource(..))
    }

    fn includes(&self, group: &str, plural: &str, version: &Version) -> bool {
        let group = version.group.as_deref().unwrap_or(group);
        match self {
            Self::All => true,
            Self::Stable => is_stable(&version.name),
            Self::Beta => version.name.contains("beta"),
            Self::Alpha => version.name.contains("alpha"),
            Self::Version(wanted, name) => wanted == group && *name == version.name,
            Self::Resource(wanted, name, resource) => {
                wanted == group && *name == version.name && resource == plural
            }
        }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::All => f.write_str("api/all"),
            Self::Stable => f.write_str("api/ga"),
            Self::Beta => f.write_str("api/beta"),
            Self::Alpha => f.write_str("api/alpha"),
            Self::Version(group, version) => GroupVersion::new(group, version).fmt(f),
            Self::Resource(group, version, resource) => {
                write!(f, "{}/{resource}", GroupVersion::new(group, version))
            }
        }
    }
}

fn target(key: &str) -> Option<Target> {
    let owned = str::to_owned;
    match *key.split('/').collect::<Vec<&str>>() {
        ["api", "all"] => Some(Target::All),
        ["api", "ga"] => Some(Target::Stable),
        ["api", "beta"] => Some(Target::Beta),
        ["api", "alpha"] => Some(Target::Alpha),
        // kube-apiserver's name of the core group's version.
        ["api", version] if is_version(version) => {
            Some(Target::Version(String::new(), owned(version)))
        }
        [version] if is_version(version) => Some(Target::Version(String::new(), owned(version))),
        [group, version] if is_version(version) => {
            Some(Target::Version(owned(group), owned(version)))
        }
        [group, version, resource] if is_version(version) && !resource.is_empty() => {
            Some(Target::Resource(owned(group), owned(version), owned(resource)))
        }
        _ => None,
    }
}

fn is_version(text: &str) -> bool {
    text.strip_prefix('v').is_some_and(|rest| rest.starts_with(|it: char| it.is_ascii_digit()))
}

fn is_stable(version: &str) -> bool {
    version.strip_prefix('v').is_some_and(|rest| rest.bytes().all(|it| it.is_ascii_digit()))
}

/// The versions that can be turned on and off.
fn optional() -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for resource in crate::table::builtin() {
        let versions = resource.versions.iter().filter(|it| !is_stable(&it.name));
        found
            .extend(versions.map(|it| format!("{}/{}", resource.api_version(it), resource.plural)));
    }
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::builtin;

    fn served(items: &[&str]) -> Result<Vec<String>, String> {
        let mut kinds = builtin();
        let config = RuntimeConfig::parse(items).map_err(|it| it.to_string())?;
        config.apply(&mut kinds).map_err(|it| it.to_string())?;
        let unstable = kinds.iter().flat_map(|it| {
            let served = it.versions.iter().filter(|it| it.served && !is_stable(&it.name));
            served.map(|version| format!("{}/{}", it.api_version(version), it.plural))
        });
        Ok(unstable.collect())
    }

    const INITIALIZERS: &str = "admissionregistration.k8s.io/v1alpha1/initializerconfigurations";
    /// For kubectl before 1.22.
    const V1BETA1_CRDS: &str = "apiextensions.k8s.io/v1beta1/customresourcedefinitions";
    const MIGRATIONS: &str = "storagemigration.k8s.io/v1beta1/storageversionmigrations";

    #[test]
    fn new_beta_versions_are_off_by_default() {
        assert_eq!(served(&[]).unwrap(), [INITIALIZERS, V1BETA1_CRDS]);
    }

    #[test]
    fn a_resource_decides_before_its_version_and_that_before_the_level() {
        let version = "storagemigration.k8s.io/v1beta1";
        let turn = |key: &str, value: bool| format!("{key}={value}");
        let has = |items: &[String]| {
            let items: Vec<&str> = items.iter().map(String::as_str).collect();
            served(&items).unwrap().contains(&MIGRATIONS.to_owned())
        };
        assert!(has(&[version.to_owned()]));
        assert!(has(&[turn("api/beta", true)]) && has(&[turn("api/all", true)]));
        assert!(!has(&[turn(version, false), turn("api/beta", true)]));
        assert!(has(&[turn(MIGRATIONS, true), turn(version, false)]));
        assert!(has(&[turn(version, false), turn(version, true)]), "the last one decides");
    }

    #[test]
    fn versions_before_the_stable_one_can_be_turned_off() {
        assert_eq!(served(&["api/alpha=false"]).unwrap(), [V1BETA1_CRDS]);
        assert_eq!(served(&["api/beta=false"]).unwrap(), [INITIALIZERS]);
        assert_eq!(served(&["api/all=false", "api/ga=true"]).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn unknown_and_required_apis_are_refused() {
        let error = |item: &str| served(&[item]).unwrap_err();
        for (item, expected) in [
            ("apps/v1=false", "apps/v1 cannot be turned off"),
            ("v1=false", "v1 cannot be turned off"),
            ("api/v1=false", "v1 cannot be turned off"),
            ("api/all=false", "v1 cannot be turned off"),
            ("batch/v2alpha1=true", "there is no built-in API batch/v2alpha1; those"),
            ("batch/v1/jobz=true", "there is no built-in API batch/v1/jobz; those"),
            ("api/new=true", r#"invalid key "api/new": use"#),
            ("batch=true", r#"invalid key "batch": use"#),
            ("api/all", r#"invalid value "" of api/all: use true or false"#),
            ("batch/v1=on", r#"invalid value "on" of batch/v1: use true or false"#),
        ] {
            assert!(error(item).starts_with(expected), "{item}: {}", error(item));
        }
        assert!(error("x/v1=true").contains(MIGRATIONS));
    }
}
