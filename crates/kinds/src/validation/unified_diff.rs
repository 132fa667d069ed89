//! The difference between two texts in the format of `diff -u`, computed as Python's difflib does.
//! Upstream shows the output of a Go port of difflib in some errors.
//!
//! The algorithm takes quadratic time, so its steps are limited by a [`DiffBudget`]. A difference
//! that is not found within the budget, or whose text is very long, is replaced by a note.

use std::collections::HashMap;
use std::ops::Range;

/// The number of unchanged lines around a change.
const CONTEXT: usize = 3;

/// In a text with at least this many lines, difflib ignores popular lines, those that make up more
/// than 1 % of it, as the start of a match.
const POPULAR_MIN_LINES: usize = 200;

/// A sequence of lines that both texts have.
#[derive(Debug, Clone, Copy)]
struct Match {
    left: usize,
    right: usize,
    length: usize,
}

/// An operation that turns a range of the left text into one of the right text: difflib's opcode.
#[derive(Debug, Clone)]
struct Opcode {
    /// Whether the ranges are equal; otherwise the left one is replaced by the right one.
    equal: bool,
    left: Range<usize>,
    right: Range<usize>,
}

/// The maximum length of a difference that is shown, in bytes.
const TEXT_MAX: usize = 64 << 10;

/// Replaces a difference that is not shown. Upstream has no limit.
const NOT_SHOWN: &str = "(the difference is too large to be shown)\n";

/// The number of steps that computing all differences of one request may take.
#[derive(Debug)]
pub(crate) struct DiffBudget {
    steps: usize,
}

impl Default for DiffBudget {
    /// Enough for dozens of changes in the largest objects that can be stored.
    fn default() -> Self {
        Self { steps: 4_000_000 }
    }
}

impl DiffBudget {
    /// None if fewer than `steps` remain.
    fn spend(&mut self, steps: usize) -> Option<()> {
        let left = self.steps.checked_sub(steps);
        self.steps = left.unwrap_or_default();
        left.map(|_| ())
    }
}

/// The hunks of the difference, each with its header; empty if the texts are the same.
pub(crate) fn unified_diff(left: &str, right: &str, budget: &mut DiffBudget) -> String {
    let shown = find_difference(left, right, budget).filter(|text| text.len() <= TEXT_MAX);
    shown.unwrap_or_else(|| NOT_SHOWN.to_owned())
}

/// The text of the difference; None if the budget does not suffice.
fn find_difference(left: &str, right: &str, budget: &mut DiffBudget) -> Option<String> {
    let left: Vec<&str> = left.split('\n').collect();
    let right: Vec<&str> = right.split('\n').collect();
    let mut out = String::new();
    for hunk in hunks(opcodes(&left, &right, budget)?) {
        let (Some(first), Some(last)) = (hunk.first(), hunk.last()) else { continue };
        out += &format!(
            "@@ -{} +{} @@\n",
            position(&(first.left.start..last.left.end)),
            position(&(first.right.start..last.right.end))
        );
        for opcode in &hunk {
            if opcode.equal {
                write_lines(&mut out, ' ', &left[opcode.left.clone()]);
            } else {
                write_lines(&mut out, '-', &left[opcode.left.clone()]);
                write_lines(&mut out, '+', &right[opcode.right.clone()]);
            }
        }
    }
    Some(out)
}

fn write_lines(out: &mut String, mark: char, lines: &[&str]) {
    for line in lines {
        out.push(mark);
        *out += line;
        out.push('\n');
    }
}

/// The position of a hunk: `12,3` is three lines from line 12. The length of a single line is
/// omitted; an empty range has the number of the line before it.
fn position(range: &Range<usize>) -> String {
    match range.len() {
        1 => (range.start + 1).to_string(),
        0 => format!("{},0", range.start),
        length => format!("{},{length}", range.start + 1),
    }
}

/// Splits the opcodes into hunks, where more than twice the context is equal.
fn hunks(mut opcodes: Vec<Opcode>) -> Vec<Vec<Opcode>> {
    if let Some(first) = opcodes.first_mut().filter(|opcode| opcode.equal) {
        let skipped = first.left.len().saturating_sub(CONTEXT);
        first.left.start += skipped;
        first.right.start += skipped;
    }
    if let Some(last) = opcodes.last_mut().filter(|opcode| opcode.equal) {
        let kept = last.left.len().min(CONTEXT);
        last.left.end = last.left.start + kept;
        last.right.end = last.right.start + kept;
    }
    let mut hunks = Vec::new();
    let mut current: Vec<Opcode> = Vec::new();
    for mut opcode in opcodes {
        if opcode.equal && opcode.left.len() > 2 * CONTEXT {
            let mut end = opcode.clone();
            end.left.end = end.left.start + CONTEXT;
            end.right.end = end.right.start + CONTEXT;
            current.push(end);
            hunks.push(std::mem::take(&mut current));
            opcode.left.start = opcode.left.end - CONTEXT;
            opcode.right.start = opcode.right.end - CONTEXT;
        }
        current.push(opcode);
    }
    hunks.push(current);
    hunks.retain(|hunk| hunk.iter().any(|opcode| !opcode.equal));
    hunks
}

fn opcodes(left: &[&str], right: &[&str], budget: &mut DiffBudget) -> Option<Vec<Opcode>> {
    let mut opcodes = Vec::new();
    let (mut i, mut j) = (0, 0);
    for found in matches(left, right, budget)? {
        if i < found.left || j < found.right {
            opcodes.push(Opcode { equal: false, left: i..found.left, right: j..found.right });
        }
        (i, j) = (found.left + found.length, found.right + found.length);
        if found.length > 0 {
            opcodes.push(Opcode { equal: true, left: found.left..i, right: found.right..j });
        }
    }
    Some(opcodes)
}

/// All matches in order, neighbors joined, with an empty one at the end.
fn matches(left: &[&str], right: &[&str], budget: &mut DiffBudget) -> Option<Vec<Match>> {
    let positions = positions_of(right);
    let mut waiting = vec![(0..left.len(), 0..right.len())];
    let mut found = Vec::new();
    while let Some((l, r)) = waiting.pop() {
        let best = longest_match(left, right, &positions, (l.clone(), r.clone()), budget)?;
        if best.length == 0 {
            continue;
        }
        let (after_left, after_right) = (best.left + best.length, best.right + best.length);
        if l.start < best.left && r.start < best.right {
            waiting.push((l.start..best.left, r.start..best.right));
        }
        if after_left < l.end && after_right < r.end {
            waiting.push((after_left..l.end, after_right..r.end));
        }
        found.push(best);
    }
    found.sort_by_key(|it| (it.left, it.right));
    let mut joined: Vec<Match> = Vec::new();
    for next in found {
        match joined.last_mut() {
            Some(last)
                if last.left + last.length == next.left
                    && last.right + last.length == next.right =>
            {
                last.length += next.length;
            }
            _ => joined.push(next),
        }
    }
    joined.push(Match { left: left.len(), right: right.len(), length: 0 });
    Some(joined)
}

/// The positions of each line of the right text, without popular lines.
fn positions_of<'a>(right: &[&'a str]) -> HashMap<&'a str, Vec<usize>> {
    let mut positions: HashMap<&str, Vec<usize>> = HashMap::new();
    for (index, line) in right.iter().enumerate() {
        positions.entry(line).or_default().push(index);
    }
    if right.len() >= POPULAR_MIN_LINES {
        let max = right.len() / 100 + 1;
        positions.retain(|_, indices| indices.len() <= max);
    }
    positions
}

fn longest_match(
    left: &[&str],
    right: &[&str],
    positions: &HashMap<&str, Vec<usize>>,
    (l, r): (Range<usize>, Range<usize>),
    budget: &mut DiffBudget,
) -> Option<Match> {
    let mut best = Match { left: l.start, right: r.start, length: 0 };
    // The length of the match that ends at the previous left line and at each line of the right
    // text.
    let mut runs: HashMap<usize, usize> = HashMap::new();
    for i in l.clone() {
        let mut next = HashMap::new();
        let found = positions.get(left[i]).map_or(&[][..], Vec::as_slice);
        budget.spend(1 + found.len())?;
        for &j in found {
            if j < r.start {
                continue;
            }
            if j >= r.end {
                break;
            }
            let length = j.checked_sub(1).and_then(|j| runs.get(&j)).unwrap_or(&0) + 1;
            next.insert(j, length);
            if length > best.length {
                best = Match { left: i + 1 - length, right: j + 1 - length, length };
            }
        }
        runs = next;
    }
    // Popular lines do not start a match, but extend one.
    while best.left > l.start
        && best.right > r.start
        && left[best.left - 1] == right[best.right - 1]
    {
        best = Match { left: best.left - 1, right: best.right - 1, length: best.length + 1 };
    }
    while best.left + best.length < l.end
        && best.right + best.length < r.end
        && left[best.left + best.length] == right[best.right + best.length]
    {
        best.length += 1;
    }
    Some(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unified_diff(left: &str, right: &str) -> String {
        super::unified_diff(left, right, &mut DiffBudget::default())
    }

    #[test]
    fn a_difference_that_takes_too_many_steps_is_not_shown() {
        let left: Vec<String> = (0..60_000).map(|n| (n / 3).to_string()).collect();
        let right: Vec<String> = left.iter().rev().cloned().collect();
        assert_eq!(unified_diff(&left.join("\n"), &right.join("\n")), NOT_SHOWN);
    }

    #[test]
    fn a_difference_with_a_very_long_text_is_not_shown() {
        assert_eq!(unified_diff("a", &"b".repeat(TEXT_MAX)), NOT_SHOWN);
    }

    #[test]
    fn changes_of_a_long_text_are_shown() {
        let left: Vec<String> = (0..60_000).map(|n| n.to_string()).collect();
        let mut right = left.clone();
        for n in 0..20 {
            right[3000 * n] = format!("new {n}");
        }
        let shown = unified_diff(&left.join("\n"), &right.join("\n"));
        assert_eq!(shown.matches("@@\n").count(), 20);
    }

    #[test]
    fn equal_texts_have_no_difference() {
        assert_eq!(unified_diff("a\nb", "a\nb"), "");
    }

    #[test]
    fn a_changed_line_is_shown_with_its_neighbors() {
        let left = "1\n2\n3\n4\n5\n6\n7\n8\n9";
        assert_eq!(
            unified_diff(left, &left.replace('5', "x")),
            "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+x\n 6\n 7\n 8\n"
        );
    }

    #[test]
    fn changes_far_apart_have_their_own_hunks() {
        let left: Vec<String> = (0..20).map(|n| n.to_string()).collect();
        let mut right = left.clone();
        right.remove(18);
        right.insert(1, "new".to_owned());
        assert_eq!(
            unified_diff(&left.join("\n"), &right.join("\n")),
            "@@ -1,4 +1,5 @@\n 0\n+new\n 1\n 2\n 3\n@@ -16,5 +17,4 @@\n 15\n 16\n 17\n-18\n 19\n"
        );
    }
}
