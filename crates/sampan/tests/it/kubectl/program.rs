//! [`Program`]: a kubectl that is under test.
//!
//! `cargo xtask test` names them in `SAMPAN_TEST_KUBECTL`; without it they are looked for where
//! that command would find or put them. None at all is a failure, not a reason to skip.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

const VARIABLE: &str = "SAMPAN_TEST_KUBECTL";

/// Where `cargo xtask test` unpacks Debian's.
const UNPACKED: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/tools/kubernetes-client/usr/bin/kubectl");

/// See the [module documentation](self).
#[derive(Debug)]
pub(super) struct Program {
    pub path: PathBuf,
    /// It came with Kubernetes 1.`minor`.
    pub minor: u32,
}

impl Program {
    /// All of them, at least one.
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
            // Whoever runs the tests may have a cluster: it is none of our business.
            .env("KUBECONFIG", "/dev/null")
            .output()
            .unwrap_or_else(|error| panic!("{} cannot be run: {error}", path.display()));
        let version: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let minor = version["clientVersion"]["minor"].as_str().unwrap();
        // Builds that are not upstream's say "32+".
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
    first.into_iter().chain(Some(PathBuf::from(UNPACKED)).filter(|it| Path::is_file(it))).collect()
}
