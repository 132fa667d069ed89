//! Errors in the text of an expression, formatted with the position, the line and a caret.
//!
//! ```text
//! ERROR: <input>:1:8: found no matching overload for '_==_' applied to '(int, string)'
//!  | self.n == 'x'
//!  | .......^
//! ```

use std::fmt;

/// Longer lines are not shown below a message.
const MAX_SNIPPET_BYTES: usize = 16_384;

/// The maximum number of errors that are shown; further ones are only counted.
const MAX_SHOWN: usize = 100;

/// One error that the parser or the checker found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issue {
    /// The position in code points; None if the error has no position.
    pub offset: Option<usize>,
    /// cel-go's message.
    pub message: String,
}

impl Issue {
    pub(crate) fn at(offset: usize, message: impl Into<String>) -> Self {
        Self { offset: Some(offset), message: message.into() }
    }

    pub(crate) fn without_location(message: impl Into<String>) -> Self {
        Self { offset: None, message: message.into() }
    }
}

/// All errors of an expression, in the order of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompileErrors {
    source: String,
    issues: Vec<Issue>,
}

impl CompileErrors {
    pub(crate) fn new(source: &str, mut issues: Vec<Issue>) -> Self {
        issues.sort_by_key(|issue| issue.offset);
        Self { source: source.to_owned(), issues }
    }

    /// The errors one by one.
    pub fn issues(&self) -> &[Issue] {
        &self.issues
    }
}

impl std::error::Error for CompileErrors {}

impl fmt::Display for CompileErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, issue) in self.issues.iter().take(MAX_SHOWN).enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write_issue(f, &self.source, issue)?;
        }
        if self.issues.len() > MAX_SHOWN {
            write!(f, "\n{} more errors were truncated", self.issues.len() - MAX_SHOWN)?;
        }
        Ok(())
    }
}

fn write_issue(f: &mut fmt::Formatter<'_>, source: &str, issue: &Issue) -> fmt::Result {
    let Some(offset) = issue.offset else {
        return write!(f, "ERROR: <input>:-1:0: {}", issue.message);
    };
    let (number, column, line) = locate(source, offset);
    write!(f, "ERROR: <input>:{number}:{}: {}", column + 1, issue.message)?;
    if line.len() > MAX_SNIPPET_BYTES {
        return Ok(());
    }
    let line = line.replace('\t', " ");
    let mut characters = line.chars();
    let mut pointer = String::new();
    for character in characters.by_ref().take(column) {
        pointer.push(if character.is_ascii() { '.' } else { '\u{ff0e}' });
    }
    let wide = characters.next().is_some_and(|character| !character.is_ascii());
    pointer.push(if wide { '\u{ff3e}' } else { '^' });
    write!(f, "\n | {line}\n | {pointer}")
}

/// The line number (from one), the column (from zero) and the line of an offset in code points.
fn locate(source: &str, offset: usize) -> (usize, usize, &str) {
    let mut start = 0;
    for (index, line) in source.split('\n').enumerate() {
        let length = line.chars().count();
        if offset <= start + length {
            return (index + 1, offset - start, line);
        }
        start += length + 1;
    }
    (1, 0, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caret_is_below_the_error_on_its_own_line() {
        let errors = CompileErrors::new("a +\n\tb", vec![Issue::at(5, "odd")]);
        assert_eq!(errors.to_string(), "ERROR: <input>:2:2: odd\n |  b\n | .^");
    }

    #[test]
    fn wide_characters_are_pointed_at_with_wide_dots() {
        let errors = CompileErrors::new("'é' + x", vec![Issue::at(6, "odd")]);
        assert_eq!(errors.to_string(), "ERROR: <input>:1:7: odd\n | 'é' + x\n | .．....^");
    }
}
