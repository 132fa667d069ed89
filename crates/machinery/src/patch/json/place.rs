//! [`Place`]: the target of a JSON pointer, an object or a list and a key in it.

use super::{Failure, Limits};
use crate::Value;
use crate::field_path::quote;

/// See the module documentation. The key need not exist yet.
pub(super) struct Place<'a> {
    /// An object or a list.
    container: &'a mut Value,
    key: String,
}

impl<'a> Place<'a> {
    /// Follows the path up to its last segment.
    pub(super) fn find(doc: &'a mut Value, path: &str) -> Result<Self, Failure> {
        let missing = || Failure::Other(format!("path {} does not exist", quote(path)));
        let segments: Vec<String> = path.split('/').skip(1).map(unescaped).collect();
        let Some((key, above)) = segments.split_last() else { return Err(missing()) };
        let mut container = doc;
        for segment in above {
            let next = match container {
                Value::Object(map) => map.get_mut(segment),
                Value::Array(list) => index(segment, list.len()).and_then(|it| list.get_mut(it)),
                _ => None,
            };
            container = next.ok_or_else(missing)?;
        }
        match container {
            Value::Object(_) | Value::Array(_) => Ok(Self { container, key: key.clone() }),
            _ => Err(missing()),
        }
    }

    /// The value at the place; it may be missing in an object, but not in a list.
    pub(super) fn get(&self) -> Result<Option<&Value>, Failure> {
        match &*self.container {
            Value::Array(list) => {
                let found = index(&self.key, list.len()).and_then(|it| list.get(it));
                found.map(Some).ok_or_else(|| self.no_value())
            }
            container => Ok(container.get(&self.key)),
        }
    }

    /// Inserts a value; in a list, before the element at the index.
    pub(super) fn add(self, value: Value, limits: &mut Limits) -> Result<(), Failure> {
        let no_value = self.no_value();
        match self.container {
            Value::Array(list) if self.key == "-" => list.push(value),
            Value::Array(list) => {
                // As upstream, -1 in an `add` means after the last element.
                let at = index(&self.key, list.len() + 1).filter(|it| *it <= list.len());
                let at = at.ok_or(no_value)?;
                limits.count_shift(list.len() - at)?;
                list.insert(at, value);
            }
            container => container[self.key] = value,
        }
        Ok(())
    }

    /// Replaces the value.
    pub(super) fn set(self, value: Value) -> Result<(), Failure> {
        let no_value = self.no_value();
        match self.container {
            Value::Array(list) => {
                let slot = index(&self.key, list.len()).and_then(|it| list.get_mut(it));
                *slot.ok_or(no_value)? = value;
            }
            container => container[self.key] = value,
        }
        Ok(())
    }

    /// Removes the value.
    pub(super) fn remove(self, limits: &mut Limits) -> Result<Value, Failure> {
        let no_value = self.no_value();
        match self.container {
            Value::Array(list) => {
                let at = index(&self.key, list.len()).filter(|it| *it < list.len());
                let at = at.ok_or(no_value)?;
                limits.count_shift(list.len() - at)?;
                Ok(list.remove(at))
            }
            Value::Object(map) => map.remove(&self.key).ok_or(no_value),
            _ => Err(no_value),
        }
    }

    fn no_value(&self) -> Failure {
        Failure::Other(format!("no value at {}", quote(&self.key)))
    }
}

/// Parses a segment as an index of a list of this length; a negative index counts from the end.
fn index(segment: &str, length: usize) -> Option<usize> {
    let index: i64 = segment.parse().ok()?;
    let length = i64::try_from(length).ok()?;
    usize::try_from(if index < 0 { index + length } else { index }).ok()
}

fn unescaped(segment: &str) -> String {
    segment.replace("~1", "/").replace("~0", "~")
}
