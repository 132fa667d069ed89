//! Parses `emit.txt`: the facts of Go's structs that neither crate has.
//!
//! Each line is a type, followed by words:
//!
//! ```text
//! core/v1.ContainerPort protocol=v1.Protocol      the field's Go type, where it has a name of its own
//! core/v1.ContainerStatus state:a                 what the encoder does, where the rule is wrong
//! core/v1.LocalObjectReference name?              not required, whatever k8s-openapi says; `!`: required
//! meta/v1.DeleteOptions @                         has kind and apiVersion
//! apidiscovery/v2.ApiGroupDiscovery =APIGroupDiscovery      the type's true name
//! core/v1.PodIP ip>IP                             the field's true name, after its folded one; `-`: inlined
//! ```

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;

/// The content of the file.
#[derive(Default)]
pub(crate) struct Facts {
    /// The encoder's letter, by type and field.
    pub(crate) emit: BTreeMap<(String, String), char>,
    /// Whether it is required, by type and field.
    pub(crate) required: BTreeMap<(String, String), bool>,
    /// The Go type, by type and field.
    pub(crate) go: BTreeMap<(String, String), String>,
    /// The JSON name, by type and folded name.
    pub(crate) fields: BTreeMap<(String, String), String>,
    /// The name of a type, by the one in k8s-pb.
    pub(crate) types: BTreeMap<String, String>,
    /// The types that have kind and apiVersion.
    pub(crate) kinds: BTreeSet<String>,
}

impl Facts {
    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        let mut facts = Self::default();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let mut words = line.split(' ');
            let owner = words.next().context("an empty line")?.to_owned();
            for word in words {
                facts
                    .add(&owner, word)
                    .with_context(|| format!("unknown word {word:?} of {owner}"))?;
            }
        }
        Ok(facts)
    }

    fn add(&mut self, owner: &str, word: &str) -> Option<()> {
        let key = |field: &str| (owner.to_owned(), field.to_owned());
        if word == "@" {
            self.kinds.insert(owner.to_owned());
        } else if let Some(name) = word.strip_prefix('=') {
            self.types.insert(owner.to_owned(), name.to_owned());
        } else if let Some(field) = word.strip_suffix('!') {
            self.required.insert(key(field), true);
        } else if let Some(field) = word.strip_suffix('?') {
            self.required.insert(key(field), false);
        } else if let Some((old, name)) = word.split_once('>') {
            self.fields.insert(key(old), name.to_owned());
        } else if let Some((field, go)) = word.split_once('=') {
            self.go.insert(key(field), go.to_owned());
        } else {
            let (field, letter) = word.split_once(':')?;
            self.emit.insert(key(field), letter.chars().next()?);
        }
        Some(())
    }
}
