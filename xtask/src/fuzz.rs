//! Runs all fuzz targets for a while, and tells how many inputs each of them was given.

#![allow(clippy::print_stdout, reason = "the counts are what it is run for")]

use crate::command;
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;

/// What cargo-fuzz builds with when it is told to use no sanitizer: counters at every edge, which a
/// stable compiler can do.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Ccodegen-units=1";

/// The seconds for all targets together, unless told otherwise.
const SECONDS: u64 = 600;

/// Builds the targets and runs one after the other: all of them, or those that are named.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let (seconds, named) = match arguments {
        ["--seconds", seconds, named @ ..] => {
            (seconds.parse().context("--seconds takes a number")?, named)
        }
        named => (SECONDS, named),
    };
    let folder = command::root().join("fuzz");
    let targets: Vec<String> = targets(&folder)?
        .into_iter()
        .filter(|it| named.is_empty() || named.contains(&it.as_str()))
        .collect();
    if targets.is_empty() {
        bail!("there is no such target");
    }
    let host = host()?;
    let mut build = command::cargo(&["build", "--release", "--bins", "--target", &host]);
    command::run(build.current_dir(&folder).env("RUSTFLAGS", FLAGS))?;
    let share = (seconds / targets.len() as u64).max(1);
    let mut failed = Vec::new();
    for target in &targets {
        let (inputs, is_good) = fuzz(&folder, &host, target, share)?;
        println!("{target:16} {inputs:>12} inputs{}", if is_good { "" } else { "  FAILED" });
        if !is_good {
            failed.push(target.as_str());
        }
    }
    if !failed.is_empty() {
        bail!("failed: {}; the inputs are in fuzz/artifacts", failed.join(", "));
    }
    Ok(())
}

/// The names of all targets.
fn targets(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for file in std::fs::read_dir(folder.join("fuzz_targets"))? {
        let path = file?.path();
        names.extend(path.file_stem().map(|it| it.to_string_lossy().into_owned()));
    }
    names.sort();
    Ok(names)
}

/// The triple of this machine; with it, build scripts are built without counters.
fn host() -> Result<String> {
    let told = Command::new("rustc").arg("-vV").output().context("cannot run rustc")?;
    let text = String::from_utf8(told.stdout)?;
    let host = text.lines().find_map(|it| it.strip_prefix("host: "));
    Ok(host.context("rustc does not tell its host")?.to_owned())
}

/// Runs one target; how many inputs it was given, and whether all of them were fine.
fn fuzz(folder: &Path, host: &str, target: &str, seconds: u64) -> Result<(u64, bool)> {
    let corpus = folder.join("corpus").join(target);
    let artifacts = folder.join("artifacts").join(target);
    std::fs::create_dir_all(&corpus)?;
    std::fs::create_dir_all(&artifacts)?;
    let ran = Command::new(folder.join("target").join(host).join("release").join(target))
        .arg(&corpus)
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .arg(format!("-max_total_time={seconds}"))
        .args(["-print_final_stats=1", "-rss_limit_mb=2048", "-timeout=60"])
        .output()
        .with_context(|| format!("cannot run {target}"))?;
    let told = String::from_utf8_lossy(&ran.stderr);
    let count = told.lines().find_map(|it| it.strip_prefix("stat::number_of_executed_units:"));
    let count = count.and_then(|it| it.trim().parse().ok()).unwrap_or_default();
    Ok((count, ran.status.success()))
}
