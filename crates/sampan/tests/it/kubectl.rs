//! The real kubectl, an old and a new one, against the real program.
//!
//! Each scenario gets a plane, a home directory and a discovery cache of its own, once for every
//! kubectl there is:
//!
//! ```text
//! each(|kubectl| {
//!     kubectl.does_with("create -f -", manifests::VPC_DEFINITION);
//!     assert_eq!(kubectl.fails("get vpc one"), "Error from server (NotFound): …");
//! });
//! ```

mod program;
mod session;
mod running;
mod manifests;
mod textbook;
mod custompod;
mod discovery;
mod create;
mod get;
mod watch;
mod describe;
mod explain;
mod patch;
mod change;
mod apply;
mod delete;
mod wait;
mod initializers;

use program::Program;
use session::Kubectl;

/// Plays the scenario with every kubectl.
fn each(scenario: impl Fn(&Kubectl)) {
    for program in Program::all() {
        scenario(&Kubectl::new(program));
    }
}

/// Plays it with those that have what came with Kubernetes 1.`minor`.
fn each_since(minor: u32, scenario: impl Fn(&Kubectl)) {
    each(|kubectl| match kubectl.program.minor {
        older if older < minor => eprintln!("kubectl 1.{older} is left out: it is too old"),
        _ => scenario(kubectl),
    });
}

/// Plays it with those that do things as they were done before Kubernetes 1.`minor`.
fn each_before(minor: u32, scenario: impl Fn(&Kubectl)) {
    each(|kubectl| match kubectl.program.minor {
        newer if newer >= minor => eprintln!("kubectl 1.{newer} is left out: it is too new"),
        _ => scenario(kubectl),
    });
}

/// A text with one blank for many.
fn squeeze(text: &str) -> String {
    let line = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// A table with one blank between its cells and `*` for each age.
fn table(text: &str) -> String {
    let line = |line: &str| {
        let cells: Vec<_> = line.split(' ').map(|it| if is_age(it) { "*" } else { it }).collect();
        cells.join(" ")
    };
    squeeze(text).lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Such as `7s` or `2m5s`.
fn is_age(cell: &str) -> bool {
    cell.ends_with(['s', 'm', 'h'])
        && cell.starts_with(|it: char| it.is_ascii_digit())
        && cell.chars().all(|it| it.is_ascii_digit() || "smh".contains(it))
}

/// Each of `lines` is a line of the text, whatever its blanks.
fn assert_lines(text: &str, lines: &[&str]) {
    let text = squeeze(text);
    for line in lines {
        assert!(text.lines().any(|it| it == *line), "{line} is not in:\n{text}");
    }
}
