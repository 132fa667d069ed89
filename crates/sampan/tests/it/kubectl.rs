//! kubectl, an old and a new release, against the real binary.
//!
//! Each scenario runs once with every kubectl, each time with a new plane, home directory and
//! discovery cache:
//!
//! ```text
//! each(|kubectl| {
//!     kubectl.does_with("create -f -", manifests::VPC_CRD);
//!     assert_eq!(kubectl.fails("get vpc one"), "Error from server (NotFound): …");
//! });
//! ```

mod program;
mod session;
mod running;
mod manifests;
mod v1beta1_crd;
mod custompod;
mod vpc;
mod operators;
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
mod workloads;
mod jobs;
mod cascading;
mod nodes;
mod users;

use crate::plane::Plane;
use program::Program;
use session::Kubectl;

/// Runs the scenario with every kubectl.
fn each(scenario: impl Fn(&Kubectl)) {
    for program in Program::all() {
        scenario(&Kubectl::new(program));
    }
}

/// Runs the scenario with every kubectl, on planes with all controllers and simulated nodes.
fn each_alive(nodes: usize, scenario: impl Fn(&Kubectl)) {
    for program in Program::all() {
        scenario(&Kubectl::with_plane(program, Plane::alive(nodes)));
    }
}

/// Runs the scenario with every kubectl of Kubernetes 1.`minor` or later, on planes with all
/// controllers and simulated nodes.
fn each_since_alive(minor: u32, nodes: usize, scenario: impl Fn(&Kubectl)) {
    each_alive(nodes, |kubectl| match kubectl.program.minor {
        older if older < minor => eprintln!("kubectl 1.{older} is skipped: it is too old"),
        _ => scenario(kubectl),
    });
}

/// Runs the scenario with every kubectl of Kubernetes 1.`minor` or later.
fn each_since(minor: u32, scenario: impl Fn(&Kubectl)) {
    each(|kubectl| match kubectl.program.minor {
        older if older < minor => eprintln!("kubectl 1.{older} is skipped: it is too old"),
        _ => scenario(kubectl),
    });
}

/// Runs the scenario with every kubectl before Kubernetes 1.`minor`.
fn each_before(minor: u32, scenario: impl Fn(&Kubectl)) {
    each(|kubectl| match kubectl.program.minor {
        newer if newer >= minor => eprintln!("kubectl 1.{newer} is skipped: it is too new"),
        _ => scenario(kubectl),
    });
}

/// Collapses each sequence of spaces to one.
fn collapse_spaces(text: &str) -> String {
    let line = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// A table with one space between cells and `*` for each age.
fn table(text: &str) -> String {
    let line = |line: &str| {
        let cells: Vec<_> = line.split(' ').map(|it| if is_age(it) { "*" } else { it }).collect();
        cells.join(" ")
    };
    collapse_spaces(text).lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Returns whether a cell is an age, such as `7s` or `2m5s`.
fn is_age(cell: &str) -> bool {
    cell.ends_with(['s', 'm', 'h'])
        && cell.starts_with(|it: char| it.is_ascii_digit())
        && cell.chars().all(|it| it.is_ascii_digit() || "smh".contains(it))
}

/// Checks that each of `lines` is a line of the text, apart from repeated spaces.
fn assert_lines(text: &str, lines: &[&str]) {
    let text = collapse_spaces(text);
    for line in lines {
        assert!(text.lines().any(|it| it == *line), "{line} is not in:\n{text}");
    }
}
