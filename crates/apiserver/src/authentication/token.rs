//! Static bearer tokens, in kube-apiserver's file format: `token,user,uid,"group1,group2"`.

use super::User;
use ring::digest::{SHA256, digest};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Tokens and whose they are. Only their digests are kept, so that looking one up takes the same
/// time however much of it was guessed right.
#[derive(Debug, Default, Clone)]
pub struct TokenFile(HashMap<[u8; 32], User>);

/// A token file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Check the path.
    #[error("cannot read the token file {path}")]
    Read {
        /// Of the file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// Mend the line.
    #[error("line {line} of the token file has {found} columns, needed are token, user and uid")]
    Columns {
        /// Counted from one.
        line: usize,
        /// How many there are.
        found: usize,
    },
}

impl TokenFile {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| Error::Read { path: path.to_owned(), source })?;
        Self::parse(&text)
    }

    /// Reads the lines of a file.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut tokens = Self::default();
        for (index, line) in text.lines().enumerate().filter(|(_, it)| !it.trim().is_empty()) {
            let columns = split(line);
            let [token, name, uid, rest @ ..] = columns.as_slice() else {
                return Err(Error::Columns { line: index + 1, found: columns.len() });
            };
            let groups = rest.first().map_or_else(Vec::new, |it| {
                it.split(',').map(|it| it.trim().to_owned()).filter(|it| !it.is_empty()).collect()
            });
            tokens.insert(token, User::authenticated(name, uid, groups));
        }
        Ok(tokens)
    }

    /// Adds a token.
    pub fn insert(&mut self, token: &str, user: User) {
        self.0.insert(hash(token), user);
    }

    /// Whose token it is.
    pub fn user(&self, token: &str) -> Option<&User> {
        self.0.get(&hash(token))
    }
}

fn hash(token: &str) -> [u8; 32] {
    digest(&SHA256, token.as_bytes()).as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// Splits a line of CSV; a quoted column may hold commas, and `""` in it is a quote.
fn split(line: &str) -> Vec<String> {
    let mut columns = vec![String::new()];
    let mut quoted = false;
    let mut chars = line.trim().chars().peekable();
    while let Some(c) = chars.next() {
        let column = columns.last_mut().expect("there is always a column");
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                column.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => columns.push(String::new()),
            c => column.push(c),
        }
    }
    columns.iter().map(|it| it.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_a_user_and_their_groups() {
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
        assert!(matches!(error, Error::Columns { line: 2, found: 1 }));
    }
}
