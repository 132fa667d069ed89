//! Reads k8s-openapi: the JSON spelling of types and fields, and the required fields.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::fold;

/// The types of the release's OpenAPI document.
pub(crate) struct Schemas {
    /// The types by module (`api/core/v1`) and folded name.
    types: BTreeMap<(String, String), Schema>,
    /// Every spelling of a folded field name anywhere in the API.
    spellings: BTreeMap<String, BTreeSet<String>>,
    /// The group of each module that has kinds.
    groups: BTreeMap<String, String>,
}

/// One type.
pub(crate) struct Schema {
    pub(crate) name: String,
    /// The JSON fields, including those that Go inlines.
    pub(crate) fields: BTreeSet<String>,
    pub(crate) required: BTreeSet<String>,
}

impl Schemas {
    /// Reads the folder of one release.
    pub(crate) fn read(source: &Path) -> anyhow::Result<Self> {
        let mut schemas =
            Self { types: BTreeMap::new(), spellings: BTreeMap::new(), groups: BTreeMap::new() };
        for path in super::rust_files(source)? {
            let folder = path.parent().and_then(|folder| folder.strip_prefix(source).ok());
            let module = folder.unwrap_or(Path::new("")).to_string_lossy().replace('\\', "/");
            schemas.add(&module, &fs::read_to_string(&path)?);
        }
        Ok(schemas)
    }

    /// The type of a module whose folded name is that of `name`.
    pub(crate) fn get(&self, module: &str, name: &str) -> Option<&Schema> {
        self.types.get(&(module.to_owned(), fold(name)))
    }

    /// Returns whether the release has types in a module.
    pub(crate) fn has_module(&self, module: &str) -> bool {
        self.types.keys().any(|(known, _)| known == module)
    }

    /// The API group of a module.
    pub(crate) fn group(&self, module: &str) -> Option<&str> {
        self.groups.get(module).map(String::as_str)
    }

    /// The spelling of a field's folded name, if all types that have such a field agree.
    pub(crate) fn spelling(&self, folded: &str) -> Option<&str> {
        let spellings = self.spellings.get(folded)?;
        spellings.first().filter(|_| spellings.len() == 1).map(String::as_str)
    }

    fn add(&mut self, module: &str, text: &str) {
        let Some(name) =
            text.split("\npub struct ").nth(1).and_then(|rest| rest.split([' ', '(']).next())
        else {
            return;
        };
        let listed = text.split("deserialize_struct(").nth(1).unwrap_or_default();
        let fields = quoted_list(listed.split("&[").nth(1).unwrap_or_default());
        for field in &fields {
            self.spellings.entry(fold(field)).or_default().insert(field.clone());
        }
        let required = text.rsplit("\n            \"required\": [").next().unwrap_or_default();
        let mut required = quoted_list(if required.len() < text.len() { required } else { "" });
        // k8s-openapi requires metadata of every resource; the API does not.
        required.remove("metadata");
        if let Some(group) = text.split("const GROUP: &'static str = \"").nth(1) {
            let group = group.split('"').next().unwrap_or_default();
            self.groups.insert(module.to_owned(), group.to_owned());
        }
        let schema = Schema { name: name.to_owned(), fields, required };
        self.types.insert((module.to_owned(), fold(name)), schema);
    }
}

/// The strings up to the closing bracket.
fn quoted_list(text: &str) -> BTreeSet<String> {
    let list = text.split(']').next().unwrap_or_default();
    list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}
