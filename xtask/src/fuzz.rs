//! `cargo xtask fuzz`: runs fuzz targets for a time and prints the number of inputs of each.

#![allow(clippy::print_stdout, reason = "the numbers of inputs are the result")]

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::command;

/// The flags of cargo-fuzz without a sanitizer: coverage counters at every edge, which the stable
/// compiler supports.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Ccodegen-units=1";

/// The default time for all targets together, in seconds.
const SECONDS: u64 = 600;

/// Builds the targets and runs one after the other: all of them, or the named ones.
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
        bail!("no fuzz target has this name");
    }
    let host = host()?;
    let mut build = command::cargo(&["build", "--release", "--bins", "--target", &host]);
    command::run(build.current_dir(&folder).env("RUSTFLAGS", FLAGS))?;
    let share = (seconds / targets.len() as u64).max(1);
    let mut failed = Vec::new();
    for target in &targets {
        let (inputs, succeeded) = fuzz(&folder, &host, target, share)?;
        println!("{target:16} {inputs:>12} inputs{}", if succeeded { "" } else { "  FAILED" });
        if !succeeded {
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

/// The target triple of this machine. With an explicit target, build scripts have no counters.
fn host() -> Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("cannot run rustc")?;
    let text = String::from_utf8(output.stdout)?;
    let host = text.lines().find_map(|it| it.strip_prefix("host: "));
    Ok(host.context("rustc does not print its host")?.to_owned())
}

/// Runs one target; returns the number of its inputs, and whether none failed.
fn fuzz(folder: &Path, host: &str, target: &str, seconds: u64) -> Result<(u64, bool)> {
    let corpus = folder.join("corpus").join(target);
    let artifacts = folder.join("artifacts").join(target);
    std::fs::create_dir_all(&corpus)?;
    std::fs::create_dir_all(&artifacts)?;
    let output = Command::new(folder.join("target").join(host).join("release").join(target))
        .arg(&corpus)
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .arg(format!("-max_total_time={seconds}"))
        .args(["-print_final_stats=1", "-rss_limit_mb=2048", "-timeout=60"])
        .output()
        .with_context(|| format!("cannot run {target}"))?;
    let log = String::from_utf8_lossy(&output.stderr);
    let count = log.lines().find_map(|it| it.strip_prefix("stat::number_of_executed_units:"));
    let count = count.and_then(|it| it.trim().parse().ok()).unwrap_or_default();
    Ok((count, output.status.success()))
}
