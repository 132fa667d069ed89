//! [`Program`]: the operator's program, built for an image.
//!
//! | platform | C library | why |
//! |---|---|---|
//! | this machine's | musl, if its Rust target and a C compiler for it are installed | a static program needs no files, and any base suits it |
//! | this machine's | glibc otherwise | needs nothing to be installed; the loader and the libraries of this machine are copied |
//! | another | musl | this machine has no libraries for it |

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::elf::Elf;
use super::platform::{Libc, Platform};
use crate::cargo::Cargo;

/// See the [module documentation](self).
#[derive(Debug)]
pub(super) struct Program {
    pub(super) path: PathBuf,
    /// The dynamic loader; none for a static program.
    pub(super) interpreter: Option<String>,
}

impl Program {
    /// A program that exists.
    pub(super) fn read(path: &Path, platform: Platform) -> Result<Self> {
        let shown = path.display();
        let bytes = fs::read(path).with_context(|| format!("cannot read the program {shown}"))?;
        let elf = Elf::read(&bytes).with_context(|| format!("cannot use the program {shown}"))?;
        if elf.machine != platform.elf_machine() {
            bail!("the program {shown} is not for {platform}; choose another --platform");
        }
        Ok(Self { path: path.to_owned(), interpreter: elf.interpreter })
    }

    /// Builds the program `name` of a project.
    pub(super) fn build(
        cargo: &Cargo,
        name: &str,
        platform: Platform,
        libc: Option<Libc>,
    ) -> Result<Self> {
        let target = cargo_target(platform, libc)?;
        let mut arguments = vec!["build", "--release", "--message-format=json-render-diagnostics"];
        if let Some(target) = &target {
            arguments.extend(["--target", target]);
        }
        let printed = cargo.run(&arguments, &[], "build the operator")?;
        let path = executable(&String::from_utf8_lossy(&printed), name)?;
        Self::read(&path, platform)
    }
}

/// The target of cargo; none is that of this machine.
fn cargo_target(platform: Platform, libc: Option<Libc>) -> Result<Option<String>> {
    let is_native = cfg!(target_os = "linux") && Platform::of_this_machine() == Some(platform);
    let obstacle = musl_obstacle(platform);
    match (libc, obstacle) {
        (Some(Libc::Musl) | None, None) => Ok(Some(musl_target(platform))),
        (Some(Libc::Glibc) | None, _) if is_native => Ok(None),
        (Some(Libc::Glibc), _) => {
            bail!("this machine has no glibc for {platform}: leave --libc glibc out")
        }
        (_, Some(obstacle)) => bail!("cannot build a static program for {platform}: {obstacle}"),
    }
}

fn musl_target(platform: Platform) -> String {
    format!("{}-unknown-linux-musl", platform.rust_architecture())
}

/// What prevents static programs for a platform, and what to do.
pub(crate) fn musl_obstacle(platform: Platform) -> Option<String> {
    let target = musl_target(platform);
    let mut command = Command::new("rustc");
    command.args(["--print", "target-libdir", "--target", &target]).stdin(Stdio::null());
    let Ok(printed) = command.stderr(Stdio::null()).output() else {
        return Some("rustc does not start; install Rust, or add it to the PATH".to_owned());
    };
    let folder = String::from_utf8_lossy(&printed.stdout).trim().to_owned();
    if folder.is_empty() || !Path::new(&folder).is_dir() {
        return Some(format!(
            "Rust's target {target} is not installed; install it with `rustup target add {target}`"
        ));
    }
    // ring, which the TLS of operators needs, has parts in C.
    let prefixed = format!("{}-linux-musl-gcc", platform.rust_architecture());
    let variable = format!("CC_{}", target.replace('-', "_"));
    let is_native = Platform::of_this_machine() == Some(platform);
    let has_compiler = env::var_os(&variable).is_some()
        || is_in_path(&prefixed)
        || (is_native && is_in_path("musl-gcc"));
    (!has_compiler).then(|| {
        format!(
            "there is no C compiler for {target}; install one ({prefixed}; musl-gcc of Debian's package \
             musl-tools builds for the machine itself), or name one with {variable}"
        )
    })
}

/// Whether a program is installed.
pub(crate) fn is_in_path(program: &str) -> bool {
    let folders = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&folders).any(|folder| folder.join(program).is_file())
}

/// The program `name` in the messages of cargo, or the only one.
fn executable(messages: &str, name: &str) -> Result<PathBuf> {
    let mut programs = Vec::new();
    for line in messages.lines().filter(|line| line.starts_with('{')) {
        let message: Value = serde_json::from_str(line).context("cargo printed no valid JSON")?;
        if let Some(path) = message["executable"].as_str() {
            let name = message["target"]["name"].as_str().unwrap_or_default().to_owned();
            programs.push((name, PathBuf::from(path)));
        }
    }
    if let Some((_, path)) = programs.iter().find(|(found, _)| found == name) {
        return Ok(path.clone());
    }
    match programs.as_slice() {
        [(_, path)] => Ok(path.clone()),
        [] => bail!("the project has no program: it has no src/main.rs"),
        _ => {
            let names: Vec<_> = programs.iter().map(|(name, _)| name.as_str()).collect();
            bail!(
                "the project has several programs and none is called {name}: {}. Build one, and name \
                 its file with --program",
                names.join(", ")
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(name: &str) -> String {
        format!(
            r#"{{"reason":"compiler-artifact","target":{{"name":"{name}"}},"executable":"/t/{name}"}}"#
        )
    }

    #[test]
    fn the_program_with_the_name_of_the_project_is_used() {
        let library =
            r#"{"reason":"compiler-artifact","target":{"name":"a"},"executable":null}"#.to_owned();
        let both = [library.clone(), message("other"), message("demo")].join("\n");
        assert_eq!(executable(&both, "demo").unwrap(), Path::new("/t/demo"));
        assert_eq!(executable(&message("only"), "demo").unwrap(), Path::new("/t/only"));
        let error = executable(&both, "third").unwrap_err().to_string();
        assert!(error.contains("other, demo") && error.contains("--program"), "{error}");
        assert!(executable(&library, "demo").is_err());
    }

    #[test]
    fn a_program_for_another_architecture_is_refused() {
        let other = match Platform::of_this_machine() {
            Some(Platform::Amd64) => Platform::Arm64,
            _ => Platform::Amd64,
        };
        let error = Program::read(&env::current_exe().unwrap(), other).unwrap_err().to_string();
        assert!(error.contains("--platform"), "{error}");
    }
}
