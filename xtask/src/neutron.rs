//! Neutron, for the tests of the network operator.

use std::path::PathBuf;

use anyhow::Result;

use crate::python_environment;

/// The variable with the path of the Python that has Neutron.
pub(crate) const VARIABLE: &str = "SAMPAN_TEST_NEUTRON_PYTHON";

const PACKAGE: &str = "neutron==29.0.0";

/// The Python of an environment with Neutron, which is installed if it is missing.
pub(crate) fn python() -> Result<PathBuf> {
    let environment = python_environment::with_package("neutron", PACKAGE)?;
    Ok(environment.join("bin/python"))
}
