//! Static bearer tokens, in kube-apiserver's file format: `token,user,uid,"group1,group2"`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use ring::digest::{SHA256, digest};

use super::User;

/// Tokens and their users. Only digests of tokens are stored, so that the time of a lookup does not
/// depend on how much of a token was guessed.
#[derive(Debug, Default, Clone)]
pub struct TokenFile(HashMap<[u8; 32], User>);

/// A token file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Check the path.
    #[error("cannot read the token file {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// Correct the line.
    #[error("cannot use the token file {path}")]
    Line {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: LineError,
    },
}

/// A line that is not valid. Lines are counted from one.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// Add the missing columns.
    #[error("line {line} has {found} columns, but needs at least three: token,user,uid")]
    Columns {
        /// The line.
        line: usize,
        /// The number of columns in it.
        found: usize,
    },
    /// Close the quote, or double those inside of a column.
    #[error(
        "line {line} has a quote that is not closed, or is not at the beginning of a column; groups \
         are quoted as in token,user,uid,\"group1,group2\""
    )]
    Quote {
        /// The line.
        line: usize,
    },
    /// Add the name.
    #[error("line {line} has no user name in its second column")]
    NoUser {
        /// The line.
        line: usize,
    },
}

impl TokenFile {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| Error::Read { path: path.to_owned(), source })?;
        let warn = |line: usize, message: &str| {
            tracing::warn!(path = %path.display(), line, "{message}");
        };
        Self::parse_lines(&text, warn)
            .map_err(|source| Error::Line { path: path.to_owned(), source })
    }

    /// Reads the lines of a file.
    pub fn parse(text: &str) -> Result<Self, LineError> {
        Self::parse_lines(text, |line, message| tracing::warn!(line, "{message}"))
    }

    /// Parses the lines; calls `warn` for lines that have no effect or replace an earlier one.
    ///
    /// Upstream: pkg/authentication/token/tokenfile `NewCSV`, which accepts a user without a name.
    fn parse_lines(text: &str, mut warn: impl FnMut(usize, &str)) -> Result<Self, LineError> {
        let mut tokens = Self::default();
        for (index, text) in text.lines().enumerate().filter(|(_, it)| !it.trim().is_empty()) {
            let line = index + 1;
            let columns = split(text).ok_or(LineError::Quote { line })?;
            let [token, name, uid, rest @ ..] = columns.as_slice() else {
                return Err(LineError::Columns { line, found: columns.len() });
            };
            if token.is_empty() {
                warn(line, "the token is empty; the line has no effect");
                continue;
            }
            if name.is_empty() {
                return Err(LineError::NoUser { line });
            }
            let groups = rest.first().map_or_else(Vec::new, |it| {
                it.split(',').map(|it| it.trim().to_owned()).filter(|it| !it.is_empty()).collect()
            });
            if tokens.user(token).is_some() {
                warn(line, "the token occurs more than once; its last line is used");
            }
            tokens.insert(token, User::authenticated(name, uid, groups));
        }
        Ok(tokens)
    }

    /// Adds a token.
    pub fn insert(&mut self, token: &str, user: User) {
        self.0.insert(hash(token), user);
    }

    /// The user of a token.
    pub fn user(&self, token: &str) -> Option<&User> {
        self.0.get(&hash(token))
    }
}

fn hash(token: &str) -> [u8; 32] {
    digest(&SHA256, token.as_bytes()).as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// Splits a line of CSV by the rules of Go's `encoding/csv`: a column that begins with a quote may
/// contain commas, `""` in it is a quote, and no other column has quotes. `None` if a quote is
/// elsewhere or not closed. Spaces around columns are removed.
fn split(line: &str) -> Option<Vec<String>> {
    let mut columns = Vec::new();
    let mut rest = line.trim();
    loop {
        let (column, after) = if let Some(quoted) = rest.strip_prefix('"') {
            split_quoted(quoted)?
        } else {
            let (column, after) = rest.split_at(rest.find(',').unwrap_or(rest.len()));
            if column.contains('"') {
                return None;
            }
            (column.to_owned(), after)
        };
        columns.push(column.trim().to_owned());
        match after.strip_prefix(',') {
            Some(next) => rest = next,
            None if after.is_empty() => return Some(columns),
            None => return None,
        }
    }
}

/// A column whose opening quote has been read, and what follows its closing quote.
fn split_quoted(text: &str) -> Option<(String, &str)> {
    let mut column = String::new();
    let mut rest = text;
    loop {
        let (part, after) = rest.split_once('"')?;
        column.push_str(part);
        match after.strip_prefix('"') {
            Some(next) => {
                column.push('"');
                rest = next;
            }
            None => return Some((column, after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_user_and_the_groups_of_a_token() {
        let tokens = TokenFile::parse("t1,alice,1,\"dev,ops\"\n\nt2,bob,2\n").unwrap();
        let alice = tokens.user("t1").unwrap();
        assert_eq!((alice.name.as_str(), alice.uid.as_str()), ("alice", "1"));
        assert_eq!(alice.groups, ["dev", "ops", "system:authenticated"]);
        assert_eq!(tokens.user("t2").unwrap().groups, ["system:authenticated"]);
        assert_eq!(tokens.user("t3"), None);
    }

    #[test]
    fn a_short_line_is_refused_with_its_number() {
        let error = TokenFile::parse("a,b,c\nnonsense").unwrap_err();
        assert_eq!(error, LineError::Columns { line: 2, found: 1 });
    }

    #[test]
    fn an_unclosed_or_misplaced_quote_is_refused_with_the_number_of_its_line() {
        for line in
            ["t,alice,1,\"dev,ops", "t,ali\"ce,1", "t,alice,1,\"dev\"ops", "t,alice,1,\"\"\""]
        {
            let error = TokenFile::parse(&format!("a,b,c\n{line}")).unwrap_err();
            assert_eq!(error, LineError::Quote { line: 2 }, "{line}");
        }
        let tokens = TokenFile::parse("\"t\"\"1\",alice,1,\"a\"").unwrap();
        assert_eq!(tokens.user("t\"1").unwrap().groups, ["a", "system:authenticated"]);
    }

    #[test]
    fn a_line_without_a_user_is_refused_and_one_without_a_token_has_no_effect() {
        let error = TokenFile::parse("t,,1").unwrap_err();
        assert_eq!(error, LineError::NoUser { line: 1 });
        let mut warned = Vec::new();
        let tokens =
            TokenFile::parse_lines(",alice,1\nt,bob,2", |line, _| warned.push(line)).unwrap();
        assert_eq!((tokens.user(""), warned), (None, vec![1]));
    }

    #[test]
    fn the_last_line_of_a_repeated_token_is_used_with_a_warning() {
        let mut warned = Vec::new();
        let text = "t,alice,1\nu,carol,3\nt,bob,2";
        let tokens = TokenFile::parse_lines(text, |line, message| {
            warned.push((line, message.to_owned()));
        });
        assert_eq!(tokens.unwrap().user("t").unwrap().name, "bob");
        let message = "the token occurs more than once; its last line is used".to_owned();
        assert_eq!(warned, [(3, message)]);
    }

    #[test]
    fn an_error_names_the_file_once_and_the_line_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tokens.csv");
        std::fs::write(&path, "nonsense").unwrap();
        let error = TokenFile::read(&path).unwrap_err();
        assert_eq!(error.to_string(), format!("cannot use the token file {}", path.display()));
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert_eq!(cause, "line 1 has 1 columns, but needs at least three: token,user,uid");
    }
}
