//! `cargo xtask interop`: drives planes of ours with the client libraries that people use, as they
//! are out of the box.
//!
//! The programs are in `tests/clients`, one folder a language. Each gets a plane of its own by
//! `KUBECONFIG`, and prints a line `ok NAME` or `FAIL NAME: reason` for each check. What they need is
//! installed below `target/interop`, and nowhere else.

#![allow(clippy::print_stdout, reason = "a chore says what it found")]

use crate::command::{cargo, find, root, run};
use crate::plane::{self, Plane, Profile};
use crate::tools;
use anyhow::{Context, Result, bail};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A language: its name, which is its folder's as well, and how its program is made ready to run.
type Language = (&'static str, fn() -> Result<Command>);

const LANGUAGES: [Language; 4] =
    [("go", go), ("python", python), ("javascript", javascript), ("rust", rust)];

/// How many checks passed, and how many did not.
#[derive(Default)]
struct Tally {
    passed: usize,
    failed: usize,
}

/// Runs the programs of the languages that `arguments` name; of all, if they name none.
pub(crate) fn run_clients(arguments: &[&str]) -> Result<()> {
    let mut profile = Profile::Debug;
    let mut names = Vec::new();
    for argument in arguments {
        match *argument {
            "--release" => profile = Profile::Release,
            name if LANGUAGES.iter().any(|(known, _)| *known == name) => names.push(name),
            other => bail!("{other} is neither --release nor one of: go, python, javascript, rust"),
        }
    }
    let sampan = plane::build(profile)?;
    let mut tally = Tally::default();
    for (name, prepare) in LANGUAGES {
        if !names.is_empty() && !names.contains(&name) {
            continue;
        }
        let mut program = prepare().with_context(|| format!("cannot make the {name} clients"))?;
        let plane = Plane::start(&sampan, &installed(name)?, &[])?;
        tally.count(program.env("KUBECONFIG", &plane.kubeconfig))?;
    }
    println!("{} passed, {} failed", tally.passed, tally.failed);
    if tally.failed > 0 {
        bail!("{} checks failed", tally.failed);
    }
    Ok(())
}

impl Tally {
    /// Runs a program to its end, passes on what it prints, and counts its checks.
    fn count(&mut self, program: &mut Command) -> Result<()> {
        let mut process = program
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot run {}", program.get_program().display()))?;
        let output = process.stdout.take().context("the program has no output")?;
        let before = self.failed;
        for line in BufReader::new(output).lines() {
            let line = line?;
            self.passed += usize::from(line.starts_with("ok "));
            self.failed += usize::from(line.starts_with("FAIL "));
            println!("{line}");
        }
        let status = process.wait()?;
        // It ended before it could say what was wrong.
        if !status.success() && self.failed == before {
            println!("FAIL {}: {status}", program.get_program().display());
            self.failed += 1;
        }
        Ok(())
    }
}

/// client-go and controller-runtime.
fn go() -> Result<Command> {
    let go = find("go").context("there is no go on the path: install Go 1.26 or newer")?;
    let program = installed("go")?.join("clients");
    run(Command::new(go)
        .args(["build", "-o"])
        .arg(&program)
        .arg(".")
        .env("GOFLAGS", "-mod=mod")
        .current_dir(sources("go")))?;
    Ok(Command::new(program))
}

/// The packages kubernetes, lightkube, kr8s and kopf.
fn python() -> Result<Command> {
    let environment = installed("python")?;
    let interpreter = environment.join("bin/python");
    if !environment.join("bin/pip").exists() {
        run(Command::new(tools::python()?).args(["-m", "venv"]).arg(&environment))
            .context("python3 has no module venv: install it (Debian's package python3-venv)")?;
    }
    run(Command::new(&interpreter)
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"])
        .arg(sources("python").join("requirements.txt")))?;
    let mut program = Command::new(interpreter);
    // -B: nothing is to be written beside the sources.
    program.arg("-B").arg(sources("python").join("main.py"));
    Ok(program)
}

/// The package @kubernetes/client-node.
fn javascript() -> Result<Command> {
    let node = find("node").context("there is no node on the path: install Node.js 20 or newer")?;
    let npm = find("npm").context("there is no npm on the path: install it, it is Node.js' own")?;
    // Node looks for packages beside the program, and none are to be installed there.
    let directory = installed("javascript")?;
    for entry in fs::read_dir(sources("javascript"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|it| it == "js" || it == "json") {
            fs::copy(&path, directory.join(path.file_name().context("a file has a name")?))?;
        }
    }
    run(Command::new(npm)
        .args(["install", "--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error"])
        .current_dir(&directory))?;
    let mut program = Command::new(node);
    program.arg(directory.join("main.js"));
    Ok(program)
}

/// The crates kube and kube-runtime.
fn rust() -> Result<Command> {
    let target = installed("rust")?;
    run(cargo(&["build", "--locked", "--manifest-path"])
        .arg(sources("rust").join("Cargo.toml"))
        .env("CARGO_TARGET_DIR", &target))?;
    Ok(Command::new(target.join("debug/clients")))
}

/// Where the program of a language is.
fn sources(language: &str) -> PathBuf {
    root().join("tests/clients").join(language)
}

/// Where what a language needs is installed.
fn installed(language: &str) -> Result<PathBuf> {
    let directory = root().join("target/interop").join(language);
    fs::create_dir_all(&directory)?;
    Ok(directory)
}
