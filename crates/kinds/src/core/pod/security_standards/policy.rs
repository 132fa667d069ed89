//! The Pod Security levels of a namespace, from its labels, with their versions.

use std::fmt;

use machinery::{ErrorList, Path};

/// The levels, in order of increasing strictness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Allows everything.
    Privileged,
    /// Forbids known privilege escalations.
    Baseline,
    /// Allows only what follows the practices of pod hardening.
    Restricted,
}

impl Level {
    fn parse(text: &str) -> Option<Self> {
        [Self::Privileged, Self::Baseline, Self::Restricted]
            .into_iter()
            .find(|it| it.to_string() == text)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Privileged => "privileged",
            Self::Baseline => "baseline",
            Self::Restricted => "restricted",
        })
    }
}

/// A version of the standards: `latest` or `v1.25`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// The newest version.
    Latest,
    /// The version of Kubernetes 1.x.
    Minor(u32),
}

impl Version {
    fn parse(text: &str) -> Option<Self> {
        if text == "latest" {
            return Some(Self::Latest);
        }
        let minor = text.strip_prefix("v1.")?;
        let is_plain = minor == "0" || !minor.starts_with('0');
        let is_number = !minor.is_empty() && minor.bytes().all(|b| b.is_ascii_digit());
        (is_plain && is_number).then(|| minor.parse().ok().map(Self::Minor)).flatten()
    }

    /// Whether this version includes the checks of Kubernetes 1.`minor_version`.
    pub(super) fn includes(self, minor_version: u16) -> bool {
        match self {
            Self::Latest => true,
            Self::Minor(minor) => minor >= u32::from(minor_version),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Latest => f.write_str("latest"),
            Self::Minor(minor) => write!(f, "v1.{minor}"),
        }
    }
}

/// A level in a version, such as `restricted:v1.25`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LevelVersion {
    /// The level.
    pub level: Level,
    /// The version of its checks.
    pub version: Version,
}

impl LevelVersion {
    const PRIVILEGED: Self = Self { level: Level::Privileged, version: Version::Latest };
}

impl fmt::Display for LevelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.level, self.version)
    }
}

/// The policy of a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// The level whose violations are refused.
    pub enforce: LevelVersion,
    /// The level whose violations are audited.
    pub audit: LevelVersion,
    /// The level whose violations cause warnings.
    pub warn: LevelVersion,
}

const PREFIX: &str = "pod-security.kubernetes.io/";

impl Policy {
    /// Parses the labels of a namespace. An invalid level adds to `errors`, and counts as
    /// restricted for `enforce` and as privileged otherwise; an invalid version counts as latest.
    pub fn of<'a>(label: impl Fn(&str) -> Option<&'a str>, errors: &mut ErrorList) -> Self {
        // The outer `Option` is None if the label is missing; the `Err` has the level that replaces
        // an invalid one.
        let mut read = |mode: &str, if_invalid: Level| {
            let key = format!("{PREFIX}{mode}");
            let level = label(&key).map(|text| {
                Level::parse(text).ok_or_else(|| {
                    let why = "must be one of privileged, baseline, restricted";
                    add_error(errors, &key, text, why);
                    if_invalid
                })
            });
            let key = format!("{PREFIX}{mode}-version");
            let version = label(&key).map(|text| {
                Version::parse(text).unwrap_or_else(|| {
                    add_error(errors, &key, text, r#"must be "latest" or "v1.x""#);
                    Version::Latest
                })
            });
            (level, version)
        };
        let enforce = read("enforce", Level::Restricted);
        let audit = read("audit", Level::Privileged);
        let warn = read("warn", Level::Privileged);
        let or_default = |(level, version): (Option<Result<Level, Level>>, Option<Version>)| {
            let level =
                level.map_or(LevelVersion::PRIVILEGED.level, |it| it.unwrap_or_else(|it| it));
            LevelVersion { level, version: version.unwrap_or(LevelVersion::PRIVILEGED.version) }
        };
        let mut policy =
            Self { enforce: or_default(enforce), audit: or_default(audit), warn: or_default(warn) };
        // Without a label for warnings, the enforced level also causes warnings: it is not enforced
        // on pod templates.
        if let (None, Some(Ok(level))) = (warn.0, enforce.0)
            && level > policy.warn.level
        {
            policy.warn.level = level;
            policy.warn.version = warn.1.unwrap_or(policy.enforce.version);
        }
        policy
    }

    /// Whether every pod is allowed, without warnings or audit annotations.
    pub fn is_fully_privileged(&self) -> bool {
        [self.enforce, self.audit, self.warn].iter().all(|it| it.level == Level::Privileged)
    }
}

fn add_error(errors: &mut ErrorList, key: &str, value: &str, why: &str) {
    let path = Path::root("metadata");
    errors.invalid(&path.child("labels").key(key), value, why);
}
