//! [`MarkedFile`]: a file of the user into which lines are inserted, above the comments that begin with
//! `sampan:`.
//!
//! Everything else stays as it is. If a comment is gone, the error has the lines to be added by hand.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// See the [module documentation](self).
pub(crate) struct MarkedFile {
    /// The path in the project.
    path: String,
    lines: Vec<String>,
    /// The insertions for which there is no comment.
    missing: Vec<String>,
}

impl MarkedFile {
    /// Reads a file of the project `root`.
    pub(crate) fn read(root: &Path, path: &str) -> Result<Self> {
        let text = fs::read_to_string(root.join(path)).with_context(|| {
            format!(
                "cannot read {path}, which `sampan` changes: is this the folder of the project?"
            )
        })?;
        Ok(Self::of(path, &text))
    }

    /// A file with this content.
    pub(crate) fn of(path: &str, text: &str) -> Self {
        let lines = text.lines().map(str::to_owned).collect();
        Self { path: path.to_owned(), lines, missing: Vec::new() }
    }

    /// Whether a line has this text, apart from its indentation.
    pub(crate) fn has_line(&self, text: &str) -> bool {
        self.lines.iter().any(|line| line.trim() == text)
    }

    /// Inserts lines above the comment `sampan:mark`, with the indentation of the comment, unless they
    /// are there already.
    pub(crate) fn insert(&mut self, mark: &str, text: &str) {
        let comment = format!("// sampan:{mark}");
        let Some(index) = self.lines.iter().position(|line| line.trim() == comment) else {
            self.missing
                .push(format!("above a line `{comment}`:\n{}", indented(text, "    ").join("\n")));
            return;
        };
        let marked = &self.lines[index];
        let indentation = &marked[..marked.len() - marked.trim_start().len()];
        let new = indented(text, indentation);
        if !self.lines.windows(new.len()).any(|present| present == new) {
            self.lines.splice(index..index, new);
        }
    }

    /// The path, and the content with the insertions.
    pub(crate) fn finish(self) -> Result<(String, String)> {
        if !self.missing.is_empty() {
            bail!(
                "{} has no place for new lines, since comments of `sampan` were removed. Nothing was \
                 changed. Add a comment back, and repeat the command; it adds {}",
                self.path,
                self.missing.join("\nand ")
            );
        }
        Ok((self.path, format!("{}\n", self.lines.join("\n"))))
    }
}

/// The lines with an indentation; empty ones stay empty.
fn indented(text: &str, indentation: &str) -> Vec<String> {
    let lines = text.lines().map(|line| match line {
        "" => String::new(),
        _ => format!("{indentation}{line}"),
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_inserted_once_above_the_comment_with_its_indentation() {
        let mut file = MarkedFile::of("lib.rs", "a\n  // sampan:things\n  b\n");
        file.insert("things", "one {\n\n  two\n}");
        file.insert("things", "three");
        file.insert("things", "three");
        let (path, text) = file.finish().unwrap();
        assert_eq!(path, "lib.rs");
        assert_eq!(text, "a\n  one {\n\n    two\n  }\n  three\n  // sampan:things\n  b\n");
    }

    #[test]
    fn without_the_comment_the_error_has_the_lines() {
        let mut file = MarkedFile::of("src/lib.rs", "// sampan:thing\n");
        file.insert("thing", "fine");
        file.insert("things", "one\ntwo");
        let error = file.finish().unwrap_err().to_string();
        assert!(error.starts_with("src/lib.rs has no place"), "{error}");
        assert!(error.ends_with("above a line `// sampan:things`:\n    one\n    two"), "{error}");
    }
}
