//! Checks of programs and files of this machine.

use std::env;
use std::process::{Command, Stdio};

use super::check::{Check, Status};
use crate::image::{Platform, find_ca_certificates, is_in_path, musl_obstacle};

/// The oldest Rust that compiles an operator.
const RUST_VERSION: &str = env!("CARGO_PKG_RUST_VERSION");
const INSTALL_RUST: &str = "install Rust with rustup, or add it to the PATH";

/// cargo, rustc and a linker.
pub(super) fn build_checks() -> Vec<Check> {
    let cargo = match version_of("cargo") {
        Some(version) => Check::ok("build", "cargo", version),
        None => Check::not_ok("build", "cargo", Status::Missing, "not found", INSTALL_RUST),
    };
    let linker = ["cc", "gcc", "clang"].into_iter().find(|name| is_in_path(name));
    let linker = match linker {
        Some("cc") => Check::ok("build", "linker", "cc"),
        Some(other) => {
            let next =
                format!("add `linker = \"{other}\"` to cargo's configuration, or make a link cc");
            Check::not_ok("build", "linker", Status::Missing, format!("{other}, but no cc"), next)
        }
        None => {
            let next = match env::consts::OS {
                "macos" => "xcode-select --install",
                _ => "install a C compiler, such as Debian's package gcc with libc6-dev",
            };
            Check::not_ok("build", "linker", Status::Missing, "no C compiler (cc)", next)
        }
    };
    vec![cargo, rustc_check(version_of("rustc")), linker]
}

fn rustc_check(version: Option<String>) -> Check {
    let Some(version) = version else {
        return Check::not_ok("build", "rustc", Status::Missing, "not found", INSTALL_RUST);
    };
    let number = version.split(' ').nth(1).unwrap_or_default().to_owned();
    if numbers(&number) >= numbers(RUST_VERSION) {
        return Check::ok("build", "rustc", version);
    }
    let found = format!("{version}, and {RUST_VERSION} is needed");
    Check::not_ok("build", "rustc", Status::Missing, found, "rustup update stable")
}

/// Major and minor number of a version.
fn numbers(version: &str) -> Vec<u32> {
    let numbers = version.split(['.', '-']).map(|part| part.parse().unwrap_or(0));
    numbers.take(2).collect()
}

/// What a program prints of its version.
fn version_of(program: &str) -> Option<String> {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).stderr(Stdio::null());
    let printed = command.output().ok().filter(|ended| ended.status.success())?;
    Some(String::from_utf8_lossy(&printed.stdout).trim().to_owned())
}

/// What `sampan image build` would make.
pub(super) fn image_checks() -> Vec<Check> {
    let certificates = match find_ca_certificates() {
        Some(path) => Check::ok("image", "CA certificates", path.display().to_string()),
        None => Check::not_ok(
            "image",
            "CA certificates",
            Status::Optional,
            "none for the image",
            "install ca-certificates",
        ),
    };
    vec![libc_check(), certificates]
}

fn libc_check() -> Check {
    let Some(platform) = Platform::of_this_machine() else {
        let found = format!("no images for {}", env::consts::ARCH);
        return Check::not_ok("image", "C library", Status::Optional, found, "use --platform");
    };
    let Some(obstacle) = musl_obstacle(platform) else {
        return Check::ok("image", "C library", "musl: static programs");
    };
    if cfg!(target_os = "linux") {
        let found = format!(
            "that of this machine, which is copied to the image (for static programs: {obstacle})"
        );
        return Check::ok("image", "C library", found);
    }
    Check::not_ok("image", "C library", Status::Optional, "no programs for Linux", obstacle)
}

/// Bridges and network namespaces need root.
pub(super) fn network_check() -> Check {
    if !cfg!(target_os = "linux") {
        let found = "bridges of this machine need Linux";
        let next = "use the network operator with OpenStack Neutron";
        return Check::not_ok("network", "Linux", Status::Optional, found, next);
    }
    if rustix::process::geteuid().is_root() {
        return Check::ok(
            "network",
            "root",
            "the network operator can make bridges and namespaces",
        );
    }
    let found = "this user cannot make bridges and network namespaces";
    let next = "run `sampan up --with network` as root, or use OpenStack Neutron";
    Check::not_ok("network", "root", Status::Optional, found, next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_rust_is_missing_and_a_newer_one_is_not() {
        let status = |version: &str| rustc_check(Some(version.to_owned())).status;
        assert_eq!(status("rustc 1.94.1 (abc 2026-01-01)"), Status::Missing);
        assert_eq!(status("rustc 1.95.0 (abc 2026-01-01)"), Status::Ok);
        assert_eq!(status("rustc 1.100.0-nightly (abc 2026-01-01)"), Status::Ok);
        assert_eq!(status("rustc 2.0.0"), Status::Ok);
        assert_eq!(rustc_check(None).status, Status::Missing);
    }
}
