//! Where a document mentions given fields, for errors that are reported in document order.

use std::collections::HashMap;
use std::fmt::Write;

use super::super::DecodeError;
use super::scalar::Reader;

/// Finds the fields of these paths, such as `spec.ports[0].port`, in a document, and returns the places
/// of their first and second mention, counted in keys. A document that is not JSON is searched up to
/// its first error.
pub fn occurrences<'p>(
    bytes: &[u8],
    paths: impl IntoIterator<Item = &'p str>,
) -> HashMap<&'p str, (usize, Option<usize>)> {
    let wanted: HashMap<&str, Option<(usize, Option<usize>)>> =
        paths.into_iter().map(|path| (path, None)).collect();
    let longest = wanted.keys().map(|it| it.len()).max().unwrap_or_default();
    let mut walk = Walk { path: String::new(), keys: 0, wanted, longest };
    // What could not be read was refused before.
    let _ = walk.document(bytes);
    walk.wanted.into_iter().filter_map(|(path, places)| Some((path, places?))).collect()
}

struct Walk<'p> {
    /// The path of the value that is being read.
    path: String,
    /// The number of keys so far.
    keys: usize,
    wanted: HashMap<&'p str, Option<(usize, Option<usize>)>>,
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
            // A value is complete, and so may be the containers that it ends.
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
            Some(Some((_, second @ None))) => *second = Some(self.keys),
            Some(places @ None) => *places = Some((self.keys, None)),
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
        let mut found: Vec<_> = found.into_iter().collect();
        found.sort_unstable_by_key(|(_, place)| *place);
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
