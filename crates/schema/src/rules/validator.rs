//! [`Validator`]: the compiled rules of a schema, in a tree that has only the nodes that lead to one.

use super::{Compiled, compile, declare};
use crate::structural::{Additional, Marks, Node};
use cel::DeclType;

/// The rules at a node and below.
#[derive(Debug)]
pub(crate) struct Validator {
    /// In the order of the node's own rules.
    pub(crate) rules: Box<[Compiled]>,
    /// What values at the node look like; of no meaning without rules.
    pub(crate) decl: DeclType,
    /// Sorted by name.
    properties: Box<[(Box<str>, Validator)]>,
    pub(crate) additional: Option<Box<Validator>>,
    pub(crate) items: Option<Box<Validator>>,
}

impl Validator {
    /// None if there are no rules, or rules cannot see the values.
    pub(crate) fn of(node: &Node, is_resource: bool) -> Option<Self> {
        if !node.marks.has(Marks::RULES_BELOW) {
            return None;
        }
        let below = |node: &Node| Self::of(node, node.is_embedded()).map(Box::new);
        let (rules, decl) = match node.rules() {
            [] => (Vec::new(), DeclType::any()),
            rules => {
                let decl = declare(node, is_resource, "selfType")?.decl;
                (compile(rules, &decl), decl)
            }
        };
        Some(Self {
            rules: rules.into(),
            decl,
            properties: node
                .properties()
                .filter_map(|(name, it)| Some((name.into(), Self::of(it, it.is_embedded())?)))
                .collect(),
            additional: match &node.additional {
                Additional::Schema(values) => below(values),
                _ => None,
            },
            items: node.items.as_deref().and_then(below),
        })
    }

    /// The rules of a field that `properties` names.
    pub(crate) fn property(&self, name: &str) -> Option<&Self> {
        let index = self.properties.binary_search_by(|(it, _)| (**it).cmp(name)).ok()?;
        Some(&self.properties[index].1)
    }

    /// Whether a named field has rules.
    pub(crate) fn has_properties(&self) -> bool {
        !self.properties.is_empty()
    }
}
