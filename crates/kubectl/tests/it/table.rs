//! [`check`]: runs a table of command lines with both programs.

use std::path::Path;

use crate::mask::{mask, mask_line};
use crate::plane::{Outcome, Plane};

/// How often a read is compared: controllers may still write what it shows on one of the planes.
const READS: usize = 20;

/// Runs each line with kubectl on one plane and with this crate on another, and compares.
pub(crate) async fn check(table: &str) {
    let (theirs, ours) = tokio::join!(Plane::start(), Plane::start());
    let (mut compared, mut differing) = (0, Vec::new());
    let mut reason = None;
    for line in table.lines().map(str::trim).filter(|it| !it.is_empty() && !it.starts_with('#')) {
        if let Some(text) = line.strip_prefix("~ ") {
            reason = Some(text);
            continue;
        }
        let is_preparation = line.starts_with("! ");
        let (command, file) = line
            .trim_start_matches("! ")
            .split_once(" << ")
            .unwrap_or((line.trim_start_matches("! "), ""));
        let input = if file.is_empty() {
            Vec::new()
        } else {
            std::fs::read(fixtures().join(file)).unwrap()
        };
        let (of_theirs, of_ours) = (arguments(command, &theirs), arguments(command, &ours));
        if is_preparation {
            for (plane, args) in [(&theirs, of_theirs), (&ours, of_ours)] {
                let outcome = plane.kubectl(&args, &input).await;
                assert_eq!(outcome.code, 0, "{line}: {outcome:?}");
            }
            continue;
        }
        let run = async || {
            let expected = masked(&theirs.kubectl(&of_theirs, &input).await, &theirs);
            (expected, masked(&ours.ours(&of_ours, &input).await, &ours))
        };
        let (mut expected, mut found) = run().await;
        let is_read = command.starts_with("get ") || command.starts_with("describe ");
        for _ in 0..READS {
            if !is_read || reason.is_some() || expected == found {
                break;
            }
            (expected, found) = run().await;
        }
        compared += 1;
        match (reason.take(), expected == found) {
            (None, true) | (Some(_), false) => {}
            (None, false) => differing.push(difference(line, &expected, &found)),
            (Some(reason), true) => {
                differing.push(format!("== {line}\nis the same: not {reason}\n"));
            }
        }
    }
    let number = differing.len();
    assert!(differing.is_empty(), "{}\n{number} of {compared} differ", differing.join("\n"));
}

fn difference(line: &str, expected: &Outcome, found: &Outcome) -> String {
    let mut text = format!("== {line}\n");
    for (what, expected, found) in [
        ("stdout", &expected.stdout, &found.stdout),
        ("stderr", &expected.stderr, &found.stderr),
        ("code", &expected.code.to_string(), &found.code.to_string()),
    ] {
        if expected != found {
            text.push_str(&format!(
                "-- {what}: < kubectl, > ours\n{}",
                line_difference(expected, found)
            ));
        }
    }
    text
}

/// The lines between the common beginning and the common end.
fn line_difference(expected: &str, found: &str) -> String {
    let (mut left, mut right): (Vec<&str>, Vec<&str>) =
        (expected.lines().collect(), found.lines().collect());
    while !left.is_empty() && left.first() == right.first() {
        left.remove(0);
        right.remove(0);
    }
    while !left.is_empty() && left.last() == right.last() {
        left.pop();
        right.pop();
    }
    let mark = |mark: &str, lines: &[&str]| -> String {
        lines.iter().flat_map(|it| [mark, " ", it, "\n"]).collect()
    };
    format!("{}{}", mark("<", &left), mark(">", &right))
}

fn masked(outcome: &Outcome, plane: &Plane) -> Outcome {
    let text = |text: &str| {
        let text = without_revisions(text);
        mask(&text.replace(&plane.address(), "ADDRESS").replace(&plane.directory(), "DIRECTORY"))
    };
    let stderr = outcome.stderr.lines().filter(|it| mask_line(it)).map(unlogged);
    let stderr: Vec<String> = stderr.collect();
    Outcome { code: outcome.code, stdout: text(&outcome.stdout), stderr: text(&stderr.join("\n")) }
}

/// Replaces the revisions in JSON without spaces.
fn without_revisions(text: &str) -> String {
    const FIELD: &str = "\"resourceVersion\":\"";
    let mut parts = text.split(FIELD);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |before, after| {
        let rest = after.trim_start_matches(|c: char| c.is_ascii_digit());
        format!("{before}{FIELD}REVISION{rest}")
    })
}

/// kubectl logs the errors of its command line: `E1118 … err="the text"`.
fn unlogged(line: &str) -> String {
    match line.split_once(r#""command failed" err=""#) {
        Some((_, text)) => format!("error: {}", text.trim_end_matches('"').replace(r#"\""#, "\"")),
        // Some builds of kubectl begin these errors with a capital letter.
        None => line.strip_prefix("Error: ").map_or(line.to_owned(), |it| format!("error: {it}")),
    }
}

fn fixtures() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/fixtures")
}

/// The words of a command line. `@` is the folder of fixtures, `%` the plane's own folder.
fn arguments(line: &str, plane: &Plane) -> Vec<String> {
    let mut words = Vec::new();
    let (mut word, mut quote, mut is_word) = (String::new(), None, false);
    for c in line.chars() {
        match (quote, c) {
            (None, ' ') if is_word => {
                words.push(std::mem::take(&mut word));
                is_word = false;
            }
            (None, ' ') => {}
            (None, '\'' | '"') => {
                quote = Some(c);
                is_word = true;
            }
            (Some(open), _) if open == c => quote = None,
            _ => {
                word.push(c);
                is_word = true;
            }
        }
    }
    if is_word {
        words.push(word);
    }
    let folder = format!("{}/", fixtures().display());
    let own = format!("{}/", plane.directory());
    words.into_iter().map(|it| it.replace("@/", &folder).replace("%/", &own)).collect()
}
