//! [`Validator`]: the compiled rules of a schema, in a tree of only the nodes that lead to rules.

use super::{Compiled, compile, declare, element_decl, property_decl};
use crate::structural::{Additional, Node, NodeFlags};
use cel::{DeclType, Program};

/// The rules at a node and below.
#[derive(Debug)]
pub(crate) struct Validator {
    /// In the order of the node's own rules.
    pub(crate) rules: Box<[Compiled]>,
    /// The declared type of the values at the node; unused without rules.
    pub(crate) decl: DeclType,
    /// Sorted by name.
    properties: Box<[(Box<str>, Validator)]>,
    pub(crate) additional: Option<Box<Validator>>,
    pub(crate) items: Option<Box<Validator>>,
}

impl Validator {
    /// None if there are no rules, or rules cannot access the values.
    pub(crate) fn of(node: &Node, is_resource: bool) -> Option<Self> {
        Self::within(node, is_resource, None)
    }

    /// Like [`of`](Self::of), for a node whose type may be `declared` by the type of an enclosing
    /// node.
    fn within(node: &Node, is_resource: bool, declared: Option<&DeclType>) -> Option<Self> {
        if !node.flags.has(NodeFlags::RULES_BELOW) {
            return None;
        }
        let decl = match (declared, node.rules()) {
            (Some(decl), _) => Some(decl.clone()),
            (None, []) => None,
            (None, _) => Some(declare(node, is_resource, "selfType")?),
        };
        let below = |node: &Node, declared| Self::within(node, node.is_embedded(), declared);
        let property = |name: &str| decl.as_ref().and_then(|it| property_decl(it, name));
        let values = decl.as_ref().and_then(element_decl);
        let properties = node
            .properties()
            .filter_map(|(name, it)| Some((name.into(), below(it, property(name))?)))
            .collect();
        let additional = match &node.additional {
            Additional::Schema(it) => below(it, values).map(Box::new),
            _ => None,
        };
        let items = node.items.as_deref().and_then(|it| below(it, values)).map(Box::new);
        let decl = decl.unwrap_or_else(DeclType::any);
        let rules = match node.rules() {
            [] => Box::default(),
            rules => compile(rules, &decl).collect(),
        };
        Some(Self { rules, decl, properties, additional, items })
    }

    /// The approximate memory of the programs in bytes.
    pub(crate) fn memory(&self) -> usize {
        let programs = self.rules.iter().flat_map(|it| [&it.program, &it.message]);
        let own: usize = programs.flatten().map(Program::memory).sum();
        let properties = self.properties.iter().map(|(_, it)| it);
        let below = properties.chain(self.additional.as_deref()).chain(self.items.as_deref());
        own + below.map(Self::memory).sum::<usize>()
    }

    /// The rules of a field in `properties`.
    pub(crate) fn property(&self, name: &str) -> Option<&Self> {
        let index = self.properties.binary_search_by(|(it, _)| (**it).cmp(name)).ok()?;
        Some(&self.properties[index].1)
    }

    /// Whether a field in `properties` has rules at or below it.
    pub(crate) fn has_properties(&self) -> bool {
        !self.properties.is_empty()
    }
}
