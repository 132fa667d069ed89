//! The Pod Security levels of a namespace, from its labels, with their versions.

use std::fmt;

use machinery::{ErrorList, Path};

/// The levels, in order of increasing strictness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Everything.
    Privileged,
    /// Nothing that is a known way out of its container.
    Baseline,
    /// Only what well hardened programs need.
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

/// Of the rules: `latest` or `v1.25`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// As they are now.
    Latest,
    /// As they were in 1.…
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

    /// Whether what came with 1.`since` is in it.
    pub(super) fn reaches(self, since: u16) -> bool {
        match self {
            Self::Latest => true,
            Self::Minor(minor) => minor >= u32::from(since),
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

/// `restricted:v1.25`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LevelVersion {
    /// A level.
    pub level: Level,
    /// By which rules.
    pub version: Version,
}

impl LevelVersion {
    const OPEN: Self = Self { level: Level::Privileged, version: Version::Latest };
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
    /// Reads the labels of a namespace. An invalid label adds to `errors`, and counts as restricted
    /// for `enforce` and as privileged otherwise.
    pub fn of<'a>(label: impl Fn(&str) -> Option<&'a str>, errors: &mut ErrorList) -> Self {
        let mut read = |mode: &str, or_else: Level| {
            let key = format!("{PREFIX}{mode}");
            let level = label(&key).map(|text| {
                Level::parse(text).ok_or_else(|| {
                    let why = "must be one of privileged, baseline, restricted";
                    complain(errors, &key, text, why);
                    or_else
                })
            });
            let key = format!("{PREFIX}{mode}-version");
            let version = label(&key).map(|text| {
                Version::parse(text).unwrap_or_else(|| {
                    complain(errors, &key, text, r#"must be "latest" or "v1.x""#);
                    Version::Latest
                })
            });
            (level, version)
        };
        let enforce = read("enforce", Level::Restricted);
        let audit = read("audit", Level::Privileged);
        let warn = read("warn", Level::Privileged);
        let made = |(level, version): (Option<Result<Level, Level>>, Option<Version>)| {
            let level = level.map_or(LevelVersion::OPEN.level, |it| it.unwrap_or_else(|it| it));
            LevelVersion { level, version: version.unwrap_or(LevelVersion::OPEN.version) }
        };
        let mut policy = Self { enforce: made(enforce), audit: made(audit), warn: made(warn) };
        // Without labels for warnings, `enforce` also warns about templates, where it is not
        // enforced.
        if let (None, Some(Ok(level))) = (warn.0, enforce.0)
            && level > policy.warn.level
        {
            policy.warn.level = level;
            policy.warn.version = warn.1.unwrap_or(policy.enforce.version);
        }
        policy
    }

    /// Whether every pod is allowed.
    pub fn is_open(&self) -> bool {
        [self.enforce, self.audit, self.warn].iter().all(|it| it.level == Level::Privileged)
    }
}

fn complain(errors: &mut ErrorList, key: &str, value: &str, why: &str) {
    let path = Path::root("metadata");
    errors.invalid(&path.child("labels").key(key), value, why);
}
