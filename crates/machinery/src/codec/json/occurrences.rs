//! [`occurrences`]: the positions of fields in a document, to report errors in document order.

use std::collections::HashMap;
use std::fmt::Write;

use super::super::DecodeError;
use super::scalar::Reader;

/// The positions of a field: the number of keys in the document up to and including it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Positions {
    /// The first occurrence.
    pub first: usize,
    /// The second occurrence, if the key is repeated.
    pub second: Option<usize>,
}

/// Finds the fields of these paths, such as `spec.ports[0].port`, in a document. A document that is
/// not JSON is searched up to its first error.
pub fn occurrences<'p>(
    bytes: &[u8],
    paths: impl IntoIterator<Item = &'p str>,
) -> HashMap<&'p str, Positions> {
    let wanted: HashMap<&str, Option<Positions>> =
        paths.into_iter().map(|path| (path, None)).collect();
    let longest = wanted.keys().map(|it| it.len()).max().unwrap_or_default();
    let mut walk = Walk { path: String::new(), keys: 0, wanted, longest };
    // The decoder has already reported an error of the document.
    let _ = walk.document(bytes);
    walk.wanted.into_iter().filter_map(|(path, positions)| Some((path, positions?))).collect()
}

struct Walk<'p> {
    /// The path of the value that is being read.
    path: String,
    /// The number of keys so far.
    keys: usize,
    wanted: HashMap<&'p str, Option<Positions>>,
    /// The length of the longest wanted path.
    longest: usize,
}

/// An array or an object whose end has not been read yet.
struct Container {
    /// The length of its path.
    path_length: usize,
    /// The index of the current element of an array.
    index: Option<usize>,
}

impl Walk<'_> {
    fn document(&mut self, bytes: &[u8]) -> Result<(), DecodeError> {
        let mut reader = Reader::new(bytes);
        let mut open: Vec<Container> = Vec::new();
        loop {
            let first = reader.start_of_value()?;
            let path_length = self.path.len();
            match first {
                b'{' => {
                    if let Some(key) = reader.first_key()? {
                        open.push(Container { path_length, index: None });
                        self.enter_field(&key);
                        continue;
                    }
                }
                b'[' => {
                    if !reader.is_empty_array()? {
                        open.push(Container { path_length, index: Some(0) });
                        self.enter_element(0);
                        continue;
                    }
                }
                first => {
                    reader.scalar(first)?;
                }
            }
            // The value is complete, and the containers that it ends may be as well.
            while let Some(container) = open.last_mut() {
                self.path.truncate(container.path_length);
                if let Some(index) = &mut container.index {
                    if reader.after_element()? {
                        *index += 1;
                        self.enter_element(*index);
                        break;
                    }
                } else if let Some(key) = reader.after_pair()? {
                    self.enter_field(&key);
                    break;
                }
                open.pop();
            }
            if open.is_empty() {
                return Ok(());
            }
        }
    }

    fn enter_element(&mut self, index: usize) {
        let _ = write!(self.path, "[{index}]");
    }

    fn enter_field(&mut self, key: &str) {
        if !self.path.is_empty() {
            self.path.push('.');
        }
        self.path += key;
        self.keys += 1;
        if self.path.len() > self.longest {
            return;
        }
        match self.wanted.get_mut(self.path.as_str()) {
            Some(Some(Positions { second: second @ None, .. })) => *second = Some(self.keys),
            Some(positions @ None) => {
                *positions = Some(Positions { first: self.keys, second: None });
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_in_document_order() {
        let text = br#"{"z": [{}, {"y": 1, "a": [[], {"k": 2}]}], "b": {"c": 1, "c": 2}, "z": 3}"#;
        let found = occurrences(text, ["z", "z[1].a[1].k", "b.c", "b", "missing", "z[1].y"]);
        let mut found: Vec<_> =
            found.into_iter().map(|(path, it)| (path, (it.first, it.second))).collect();
        found.sort_unstable_by_key(|(_, positions)| *positions);
        assert_eq!(
            found,
            [
                ("z", (1, Some(8))),
                ("z[1].y", (2, None)),
                ("z[1].a[1].k", (4, None)),
                ("b", (5, None)),
                ("b.c", (6, Some(7))),
            ]
        );
    }
}
