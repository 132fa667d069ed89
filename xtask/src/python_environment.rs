//! Virtual environments of Python with the packages of a test, below `target/tools/python`.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::command::{root, run};
use crate::tools;

/// The directory of the environment `name`, with this package, such as `neutron==29.0.0`. The first
/// call installs the package, as does a call with another version.
pub(crate) fn with_package(name: &str, package: &str) -> Result<PathBuf> {
    let environment = root().join("target/tools/python").join(name);
    // Written last: an interrupted installation starts again.
    let installed = environment.join("installed-package");
    if fs::read_to_string(&installed).is_ok_and(|it| it == package) {
        return Ok(environment);
    }
    let python = tools::find_or_install_python()?;
    run(Command::new(python).args(["-m", "venv", "--clear"]).arg(&environment))
        .context("python3 has no module venv: install it (Debian's package python3-venv)")?;
    run(Command::new(environment.join("bin/python")).args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        package,
    ]))?;
    fs::write(&installed, package)?;
    Ok(environment)
}
