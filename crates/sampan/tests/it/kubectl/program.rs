//! [`Program`]: a kubectl binary to test with.
//!
//! `cargo xtask test` lists the binaries in `SAMPAN_TEST_KUBECTL`; without it they are searched in
//! the places that this command uses. If there is none, the tests fail; they are not skipped.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

const VARIABLE: &str = "SAMPAN_TEST_KUBECTL";

/// The path to which `cargo xtask test` unpacks Debian's kubectl.
const DEBIAN_KUBECTL: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/tools/kubernetes-client/usr/bin/kubectl");

/// See the [module documentation](self).
#[derive(Debug)]
pub(super) struct Program {
    pub path: PathBuf,
    /// The minor version of its Kubernetes release.
    pub minor: u32,
}

impl Program {
    /// All binaries, at least one.
    pub(super) fn all() -> &'static [Self] {
        static ALL: LazyLock<Vec<Program>> = LazyLock::new(|| {
            let paths = named().unwrap_or_else(found);
            assert!(!paths.is_empty(), "there is no kubectl to test with: run `cargo xtask test`");
            paths.into_iter().map(Program::new).collect()
        });
        &ALL
    }

    fn new(path: PathBuf) -> Self {
        let output = Command::new(&path)
            .args(["version", "--client", "--output", "json"])
            // The tests must not use a cluster of the developer's kubeconfig.
            .env("KUBECONFIG", "/dev/null")
            .output()
            .unwrap_or_else(|error| panic!("{} cannot be run: {error}", path.display()));
        let version: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let minor = version["clientVersion"]["minor"].as_str().unwrap();
        // Vendor builds have a minor version such as "32+".
        let minor = minor.trim_end_matches('+').parse().unwrap();
        Self { path, minor }
    }
}

fn named() -> Option<Vec<PathBuf>> {
    let value = std::env::var_os(VARIABLE)?;
    Some(std::env::split_paths(&value).filter(|it| !it.as_os_str().is_empty()).collect())
}

fn found() -> Vec<PathBuf> {
    let directories = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&directories).map(|it| it.join("kubectl"));
    let first = on_path.into_iter().find(|it| it.is_file());
    first
        .into_iter()
        .chain(Some(PathBuf::from(DEBIAN_KUBECTL)).filter(|it| Path::is_file(it)))
        .collect()
}
