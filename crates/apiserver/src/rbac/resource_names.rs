//! [`ResourceNames`]: the names of objects that a rule is limited to. A role can have tens of thousands
//! of them, so that a name is found by binary search.

use serde::{Deserialize, Serialize, Serializer};

/// See the [module documentation](self).
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(from = "Vec<String>")]
pub(crate) struct ResourceNames {
    /// In the order of the role.
    names: Vec<String>,
    /// The positions of the names, in the order of the names.
    sorted: Vec<u32>,
}

impl From<Vec<String>> for ResourceNames {
    fn from(names: Vec<String>) -> Self {
        let count = u32::try_from(names.len()).expect("a role is smaller than 4 GiB");
        let mut sorted: Vec<u32> = (0..count).collect();
        sorted.sort_unstable_by(|a, b| names[*a as usize].cmp(&names[*b as usize]));
        Self { names, sorted }
    }
}

impl Serialize for ResourceNames {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.names.serialize(serializer)
    }
}

impl ResourceNames {
    /// The names, in the order of the role.
    pub(super) fn as_slice(&self) -> &[String] {
        &self.names
    }

    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.sorted.binary_search_by(|at| self.names[*at as usize].as_str().cmp(name)).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_wherever_it_stands_and_the_order_stays() {
        let listed: Vec<String> = ["m", "z", "a", "m", ""].map(str::to_owned).into();
        let names = ResourceNames::from(listed.clone());
        assert_eq!(names.as_slice(), listed);
        assert!(listed.iter().all(|name| names.contains(name)));
        assert!(!names.contains("b") && !names.contains("zz"));
        assert!(!ResourceNames::default().contains(""));
    }
}
