//! `cargo xtask interop`: tests planes with widely used client libraries in their default
//! configuration.
//!
//! The programs are in `tests/clients`, one folder per language. Each runs against a separate plane,
//! named by `KUBECONFIG`, and prints a line `ok NAME` or `FAIL NAME: reason` for each check. Their
//! dependencies are installed below `target/interop`.

#![allow(clippy::print_stdout, reason = "the checks are the result")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::command::{cargo, find, root, run};
use crate::plane::{self, Plane, Profile};
use crate::tools;

/// A language: its name, which is also its folder, and the function that prepares its program.
type Language = (&'static str, fn() -> Result<Command>);

const LANGUAGES: [Language; 4] =
    [("go", go), ("python", python), ("javascript", javascript), ("rust", rust)];

/// The numbers of passed and failed checks.
#[derive(Default)]
struct Tally {
    passed: usize,
    failed: usize,
}

/// Runs the programs of the languages in `arguments`; without any, those of all languages.
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
        let mut program =
            prepare().with_context(|| format!("cannot prepare the {name} clients"))?;
        let plane = Plane::start(&sampan, &install_dir(name)?, &[])?;
        tally.count(program.env("KUBECONFIG", &plane.kubeconfig))?;
    }
    println!("{} passed, {} failed", tally.passed, tally.failed);
    if tally.failed > 0 {
        bail!("{} checks failed", tally.failed);
    }
    Ok(())
}

impl Tally {
    /// Runs a program to its end, prints its output and counts its checks.
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
        // The program ended before it printed a failure.
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
    let program = install_dir("go")?.join("clients");
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
    let environment = install_dir("python")?;
    let interpreter = environment.join("bin/python");
    if !environment.join("bin/pip").exists() {
        run(Command::new(tools::find_or_install_python()?).args(["-m", "venv"]).arg(&environment))
            .context("python3 has no module venv: install it (Debian's package python3-venv)")?;
    }
    run(Command::new(&interpreter)
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"])
        .arg(sources("python").join("requirements.txt")))?;
    let mut program = Command::new(interpreter);
    // -B writes no bytecode beside the sources.
    program.arg("-B").arg(sources("python").join("main.py"));
    Ok(program)
}

/// The package @kubernetes/client-node.
fn javascript() -> Result<Command> {
    let node = find("node").context("there is no node on the path: install Node.js 20 or newer")?;
    let npm =
        find("npm").context("there is no npm on the path: install it, it is part of Node.js")?;
    // Node searches packages beside the program, so the program is copied out of the sources.
    let directory = install_dir("javascript")?;
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
    let target = install_dir("rust")?;
    run(cargo(&["build", "--locked", "--manifest-path"])
        .arg(sources("rust").join("Cargo.toml"))
        .env("CARGO_TARGET_DIR", &target))?;
    Ok(Command::new(target.join("debug/clients")))
}

/// The folder of a language's program.
fn sources(language: &str) -> PathBuf {
    root().join("tests/clients").join(language)
}

/// The folder of a language's dependencies.
fn install_dir(language: &str) -> Result<PathBuf> {
    let directory = root().join("target/interop").join(language);
    fs::create_dir_all(&directory)?;
    Ok(directory)
}
