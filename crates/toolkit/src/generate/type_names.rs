//! [`type_names`]: the shortest names that tell the types of a file apart.
//!
//! A type is named after the field that has it. If two types would have one name, both are named after
//! their outer fields as well; with the kind, if necessary.
//!
//! ```text
//! spec.keystores.jks                          Jks
//! spec.issuerRef, spec.other.issuerRef        SpecIssuerRef, OtherIssuerRef
//! ```
//!
//! The names depend on the types alone, not on their order.

use std::collections::{BTreeMap, BTreeSet};

/// Names that a generated file uses otherwise.
const RESERVED: [&str; 58] = [
    "AsMut",
    "AsRef",
    "BTreeMap",
    "Box",
    "Clone",
    "Copy",
    "CustomResource",
    "Debug",
    "Default",
    "Deref",
    "DerefMut",
    "Deserialize",
    "DoubleEndedIterator",
    "Drop",
    "Eq",
    "Err",
    "ExactSizeIterator",
    "Extend",
    "Fn",
    "FnMut",
    "FnOnce",
    "From",
    "FromIterator",
    "Future",
    "Hash",
    "IntOrString",
    "Into",
    "IntoFuture",
    "IntoIterator",
    "Iterator",
    "JsonSchema",
    "None",
    "ObjectMeta",
    "Ok",
    "Option",
    "Ord",
    "PartialEq",
    "PartialOrd",
    "Repr",
    "Resource",
    "Result",
    "Root",
    "Self",
    "Send",
    "Serialize",
    "SerializeStruct",
    "Serializer",
    "Sized",
    "Some",
    "String",
    "Sync",
    "ToOwned",
    "ToString",
    "TryFrom",
    "TryInto",
    "Unpin",
    "Value",
    "Vec",
];

/// Whether a generated file uses this name otherwise.
pub(crate) fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name)
}

/// A name for each path. `taken` are the names of the kind and its parts.
pub(crate) fn type_names(kind: &str, paths: &[&[String]], taken: &BTreeSet<String>) -> Vec<String> {
    let full: Vec<Vec<&str>> = paths
        .iter()
        .map(|path| std::iter::once(kind).chain(path.iter().map(String::as_str)).collect())
        .collect();
    let mut lengths = vec![1; paths.len()];
    loop {
        let names: Vec<String> =
            full.iter().zip(&lengths).map(|(path, length)| suffix(path, *length)).collect();
        let mut users: BTreeMap<&str, usize> = BTreeMap::new();
        for name in &names {
            *users.entry(name).or_default() += 1;
        }
        let mut has_changed = false;
        for ((name, path), length) in names.iter().zip(&full).zip(&mut lengths) {
            let is_usable = users[name.as_str()] == 1 && !is_taken(name, taken);
            if !is_usable && *length < path.len() {
                *length += 1;
                has_changed = true;
            }
        }
        if !has_changed {
            return numbered(names, taken);
        }
    }
}

/// The last parts of a path as one name.
fn suffix(path: &[&str], length: usize) -> String {
    path[path.len() - length..].concat()
}

fn is_taken(name: &str, taken: &BTreeSet<String>) -> bool {
    let begins = name.starts_with(|first: char| first.is_ascii_uppercase());
    !begins || is_reserved(name) || taken.contains(name)
}

/// Numbers after names that are still used twice, such as those of `a.bC` and `aB.c`.
fn numbered(names: Vec<String>, taken: &BTreeSet<String>) -> Vec<String> {
    let mut used = taken.clone();
    let mut result = Vec::new();
    for name in names {
        let mut unique = name.clone();
        let mut number = 2;
        while is_taken(&unique, &used) {
            unique = format!("{name}{number}");
            number += 1;
        }
        used.insert(unique.clone());
        result.push(unique);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(paths: &[&str], expected: &[&str]) {
        let paths: Vec<Vec<String>> =
            paths.iter().map(|path| path.split('.').map(str::to_owned).collect()).collect();
        let paths: Vec<&[String]> = paths.iter().map(Vec::as_slice).collect();
        let taken = ["Site", "SiteSpec"].map(str::to_owned).into();
        assert_eq!(type_names("Site", &paths, &taken), expected);
    }

    #[test]
    fn a_name_is_as_short_as_possible() {
        check(&["Spec.Keystores.Jks", "Spec.Keystores"], &["Jks", "Keystores"]);
        check(&["Spec.Ref", "Spec.Other.Ref"], &["SpecRef", "OtherRef"]);
        check(&["Spec.A.Ref", "Status.A.Ref", "Spec.B.Ref"], &["SpecARef", "StatusARef", "BRef"]);
    }

    #[test]
    fn a_name_hides_no_other_type() {
        check(&["Spec.Option", "Spec.Site"], &["SpecOption", "SpecSite"]);
        check(&["Option"], &["SiteOption"]);
        check(&["Spec.3d", "Spec."], &["Spec3d", "Spec"]);
    }

    #[test]
    fn paths_that_spell_the_same_are_numbered() {
        check(&["A.BC", "AB.C"], &["BC", "C"]);
        check(&["A.BC", "AB.C", "BC", "C"], &["SiteABC", "SiteABC2", "SiteBC", "SiteC"]);
    }
}
