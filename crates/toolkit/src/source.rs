//! [`SourceArgs`]: where a project finds the crates of Sampan.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use toml_edit::Value;

/// The checkout from which this program was built.
const CHECKOUT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The crates that a project uses, by their folders below `crates`.
const CRATES: [&str; 2] = ["runtime", "testenv"];

/// Where a project finds the crates of Sampan: in a checkout, a git repository, or among the released
/// crates. The default is the checkout from which `sampan` was built, if it still exists, or else the
/// release of `sampan`.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct SourceArgs {
    /// Use the crates of a checkout of Sampan
    #[arg(long, value_name = "DIR", group = "source", help_heading = "Crates of Sampan")]
    pub sampan_path: Option<PathBuf>,
    /// Use the crates of a git repository
    #[arg(long, value_name = "URL", group = "source", help_heading = "Crates of Sampan")]
    pub sampan_git: Option<String>,
    /// Revision of the git repository
    #[arg(long, value_name = "REV", requires = "sampan_git", help_heading = "Crates of Sampan")]
    pub sampan_rev: Option<String>,
    /// Use released crates [default: those of this program, unless its checkout exists]
    #[arg(long, value_name = "VERSION", group = "source", help_heading = "Crates of Sampan")]
    pub sampan_version: Option<String>,
}

/// The lines of a `Cargo.toml`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Source {
    /// Says where the crates come from.
    pub(crate) comment: String,
    /// The keys of the dependencies on the crates `runtime` and `testenv`.
    pub(crate) keys: [String; 2],
}

impl SourceArgs {
    /// The keys for a project.
    pub(crate) fn source(&self) -> Result<Source> {
        self.source_with(Path::new(CHECKOUT))
    }

    fn source_with(&self, own_checkout: &Path) -> Result<Source> {
        if let Some(url) = &self.sampan_git {
            return git_source(url, self.sampan_rev.as_deref());
        }
        if let Some(version) = &self.sampan_version {
            return Ok(release_source(version));
        }
        if let Some(path) = &self.sampan_path {
            let Some(checkout) = checkout(path) else {
                bail!(
                    "--sampan-path {}: this is no checkout of Sampan, which has the folders \
                     crates/runtime and crates/testenv",
                    path.display()
                );
            };
            return path_source(&checkout);
        }
        match checkout(own_checkout) {
            Some(checkout) => path_source(&checkout),
            None => Ok(release_source(env!("CARGO_PKG_VERSION"))),
        }
    }
}

/// The absolute path of a checkout.
fn checkout(path: &Path) -> Option<PathBuf> {
    let absolute = path.canonicalize().ok()?;
    let has_all =
        CRATES.iter().all(|it| absolute.join("crates").join(it).join("Cargo.toml").exists());
    has_all.then_some(absolute)
}

fn path_source(checkout: &Path) -> Result<Source> {
    let Some(path) = checkout.to_str() else {
        bail!(
            "the path {} is not UTF-8, and cannot stand in a Cargo.toml: use another with --sampan-path",
            checkout.display()
        );
    };
    Ok(Source {
        comment: "The crates of Sampan come from a checkout.".to_owned(),
        keys: CRATES.map(|it| format!("path = {}", text(&format!("{path}/crates/{it}")))),
    })
}

fn git_source(url: &str, rev: Option<&str>) -> Result<Source> {
    let Some(rev) = rev else {
        bail!(
            "--sampan-git needs a revision, so that a build can be repeated: add --sampan-rev REV"
        );
    };
    let key = format!("git = {}, rev = {}", text(url), text(rev));
    let comment = "The crates of Sampan come from a git repository.".to_owned();
    Ok(Source { comment, keys: [key.clone(), key] })
}

fn release_source(version: &str) -> Source {
    let key = format!("version = {}", text(version));
    let comment = "The crates of Sampan are a release.".to_owned();
    Source { comment, keys: [key.clone(), key] }
}

/// A string in TOML.
fn text(value: &str) -> String {
    Value::from(value).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_the_checkout_or_else_the_release() {
        let args = SourceArgs::default();
        let checkout = Path::new(CHECKOUT).canonicalize().unwrap();
        let expected = format!("path = \"{}/crates/runtime\"", checkout.display());
        assert_eq!(args.source().unwrap().keys[0], expected);
        let release = args.source_with(Path::new("/no/such/checkout")).unwrap();
        assert_eq!(release.keys[1], concat!("version = \"", env!("CARGO_PKG_VERSION"), "\""));
    }

    #[test]
    fn the_flags_name_other_sources() {
        let git = SourceArgs { sampan_git: Some("u\"".to_owned()), ..SourceArgs::default() };
        assert!(git.source().unwrap_err().to_string().contains("--sampan-rev"));
        let git = SourceArgs { sampan_rev: Some("abc".to_owned()), ..git };
        assert_eq!(git.source().unwrap().keys[0], "git = 'u\"', rev = \"abc\"");
        let version =
            SourceArgs { sampan_version: Some("1.2".to_owned()), ..SourceArgs::default() };
        assert_eq!(version.source().unwrap().keys[0], "version = \"1.2\"");
        let path = SourceArgs { sampan_path: Some("/tmp".into()), ..SourceArgs::default() };
        assert!(path.source().unwrap_err().to_string().contains("no checkout"));
    }
}
