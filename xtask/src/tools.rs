//! The client programs of the tests: installed ones, or downloaded by Debian's package manager.

#![allow(clippy::print_stderr, reason = "a missing program is reported")]

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::command::{find, is_installed, root, run};

/// Every kubectl to test with: the installed one, and the old one of Debian, which is unpacked below
/// `target` and not installed.
pub(crate) fn kubectls() -> Result<Vec<PathBuf>> {
    let mut found: Vec<PathBuf> = find("kubectl").into_iter().collect();
    let old = root().join("target/tools/kubernetes-client/usr/bin/kubectl");
    if !old.exists() {
        match unpack("kubernetes-client") {
            Ok(()) => {}
            Err(error) if found.is_empty() => {
                return Err(error.context(
                    "the tests need kubectl: install it, or Debian's package kubernetes-client",
                ));
            }
            Err(error) => {
                eprintln!("note: the tests use only the kubectl of this machine: {error:#}");
                return Ok(found);
            }
        }
    }
    found.push(old);
    Ok(found)
}

/// The path of Python, which is installed with apt-get if it is missing.
pub(crate) fn find_or_install_python() -> Result<PathBuf> {
    find_or_install("python3")
}

/// Installs the programs of the tests of images. Without them, these tests are skipped.
pub(crate) fn install_image_programs() {
    for program in ["docker-registry", "skopeo"] {
        if let Err(error) = find_or_install(program) {
            eprintln!("note: tests with {program} are skipped: {error:#}");
        }
    }
}

/// The path of a program, whose Debian package has the same name and is installed with apt-get if it
/// is missing.
fn find_or_install(program: &str) -> Result<PathBuf> {
    let needed = || format!("{program} is needed: install it");
    if !is_installed(program) {
        run(Command::new("apt-get").args(["install", "-y", "--no-install-recommends", program]))
            .with_context(needed)?;
    }
    find(program).with_context(needed)
}

/// Downloads a Debian package and unpacks it below `target/tools`.
fn unpack(package: &str) -> Result<()> {
    if !is_installed("apt-get") || !is_installed("dpkg-deb") {
        bail!("apt-get, which downloads the package {package}, is not installed");
    }
    let directory = root().join("target/tools").join(package);
    let download = root().join("target/tools/download").join(package);
    fs::create_dir_all(&download)?;
    let fetch = || run(Command::new("apt-get").args(["download", package]).current_dir(&download));
    if fetch().is_err() {
        run(Command::new("apt-get").arg("update"))?;
        fetch()?;
    }
    let archive = fs::read_dir(&download)?
        .filter_map(|it| it.ok().map(|it| it.path()))
        .find(|it| it.extension().is_some_and(|it| it == "deb"))
        .with_context(|| format!("apt-get downloaded no archive of {package}"))?;
    fs::create_dir_all(&directory)?;
    run(Command::new("dpkg-deb").arg("-x").arg(archive).arg(&directory))
}
