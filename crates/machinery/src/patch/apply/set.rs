//! [`Set`]: a set of field paths, such as the fields that a manager owns.
//!
//! A path can be in the set without its descendants, and descendants without the path:
//!
//! ```text
//! {"f:data":{".":{},"f:x":{}}}     .data and .data.x
//! {"f:data":{"f:x":{}}}            .data.x only
//! {"f:data":{}}                    .data only
//! ```

use super::element::{ParseElementError, PathElement};
use crate::codec::json;
use crate::{Map, Value};

/// See the [module documentation](self).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Set {
    /// Sorted by element; each node is owned itself or has a non-empty set below it.
    pub(super) nodes: Vec<Node>,
}

/// An element, and the part of the set below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) element: PathElement,
    /// Whether the path that ends here is in the set.
    pub(super) owned: bool,
    pub(super) below: Set,
}

/// The key in `fieldsV1` that adds the parent's path to the set if descendants are in it as well.
const SELF: &str = ".";

impl Set {
    /// An empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Parses `fieldsV1`.
    pub fn parse(fields: &Value) -> Result<Self, ParseElementError> {
        let map = match fields {
            Value::Object(map) => map,
            Value::Null => return Ok(Self::new()),
            other => return Err(ParseElementError(other.to_string())),
        };
        let mut nodes = Vec::with_capacity(map.len());
        for (key, value) in map {
            if key == SELF {
                continue;
            }
            let Some(element) = PathElement::parse(key)? else { continue };
            let below = Self::parse(value)?;
            let owned = below.is_empty() || value.get(SELF).is_some();
            nodes.push(Node { element, owned, below });
        }
        Ok(Self::from_nodes(nodes))
    }

    /// Builds a set from nodes in any order. The keys of `fieldsV1` are sorted as strings, where 10
    /// comes before 9; inserting them one by one would shift the later nodes each time.
    fn from_nodes(mut nodes: Vec<Node>) -> Self {
        nodes.sort_by(|a, b| a.element.cmp(&b.element));
        nodes.dedup_by(|next, node| {
            let is_same = next.element == node.element;
            if is_same {
                node.owned |= next.owned;
                let below = std::mem::take(&mut node.below);
                node.below = below.union(std::mem::take(&mut next.below));
            }
            is_same
        });
        Self { nodes }
    }

    /// The set as `fieldsV1`.
    pub fn to_value(&self) -> Value {
        self.to_map(false).into()
    }

    fn to_map(&self, owned: bool) -> Map<String, Value> {
        let mut map = Map::new();
        if owned && !self.is_empty() {
            map.insert(SELF.to_owned(), Map::new().into());
        }
        for node in &self.nodes {
            map.insert(node.element.to_text(), node.below.to_map(node.owned).into());
        }
        map
    }

    /// The set as `fieldsV1`, in upstream's order of elements: 80 before 443.
    pub fn to_json(&self) -> String {
        let mut text = String::new();
        self.write(false, &mut text);
        text
    }

    fn write(&self, owned: bool, text: &mut String) {
        text.push('{');
        if owned && !self.is_empty() {
            text.push_str("\".\":{}");
        }
        for node in &self.nodes {
            if !text.ends_with('{') {
                text.push(',');
            }
            text.push_str(&json::to_text(&node.element.to_text().into()));
            text.push(':');
            node.below.write(node.owned, text);
        }
        text.push('}');
    }

    /// Whether the set contains no path.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Adds a path. The empty path (the whole object) is ignored: it has no owner.
    pub fn insert(&mut self, path: &[PathElement]) {
        let Some((last, parents)) = path.split_last() else { return };
        let mut set = self;
        for element in parents {
            set = &mut set.node(element).below;
        }
        set.node(last).owned = true;
    }

    /// Whether the set contains a path.
    pub fn contains(&self, path: &[PathElement]) -> bool {
        let Some((last, parents)) = path.split_last() else { return false };
        let mut set = self;
        for element in parents {
            match set.find(element) {
                Some(node) => set = &node.below,
                None => return false,
            }
        }
        set.find(last).is_some_and(|node| node.owned)
    }

    pub(super) fn find(&self, element: &PathElement) -> Option<&Node> {
        let at = self.nodes.binary_search_by(|node| node.element.cmp(element)).ok()?;
        Some(&self.nodes[at])
    }

    /// The node of an element, created if it is missing.
    fn node(&mut self, element: &PathElement) -> &mut Node {
        let at = match self.nodes.binary_search_by(|node| node.element.cmp(element)) {
            Ok(at) => at,
            Err(at) => {
                let node = Node { element: element.clone(), owned: false, below: Self::new() };
                self.nodes.insert(at, node);
                at
            }
        };
        &mut self.nodes[at]
    }

    /// Adds an element and its descendants, unless they are empty.
    pub(super) fn attach(&mut self, element: PathElement, owned: bool, below: Set) {
        if !owned && below.is_empty() {
            return;
        }
        // The usual case: the fields of an object are visited in order.
        if self.nodes.last().is_none_or(|last| last.element < element) {
            self.nodes.push(Node { element, owned, below });
            return;
        }
        let node = self.node(&element);
        node.owned |= owned;
        let own = std::mem::take(&mut node.below);
        node.below = own.union(below);
    }

    /// The union of both sets.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        if self.is_empty() {
            return other;
        }
        if other.is_empty() {
            return self;
        }
        let mut nodes = Vec::with_capacity(self.nodes.len() + other.nodes.len());
        let mut theirs = other.nodes.into_iter().peekable();
        for mut node in self.nodes {
            while let Some(before) = theirs.next_if(|it| it.element < node.element) {
                nodes.push(before);
            }
            if let Some(same) = theirs.next_if(|it| it.element == node.element) {
                node.owned |= same.owned;
                node.below = node.below.union(same.below);
            }
            nodes.push(node);
        }
        nodes.extend(theirs);
        Self { nodes }
    }

    /// The union of all sets. Merges pairs of sets, then pairs of the results, so that n sets move
    /// a path log2(n) times and not n times.
    #[must_use]
    pub fn union_all(mut sets: Vec<Self>) -> Self {
        while sets.len() > 1 {
            let mut rest = sets.into_iter();
            let mut halved = Vec::with_capacity(rest.len().div_ceil(2));
            while let Some(set) = rest.next() {
                halved.push(set.union(rest.next().unwrap_or_default()));
            }
            sets = halved;
        }
        sets.pop().unwrap_or_default()
    }

    /// The intersection of both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let mut set = Self::new();
        for (node, theirs) in matched(&self.nodes, &other.nodes) {
            let Some(theirs) = theirs else { continue };
            let (owned, below) =
                (node.owned && theirs.owned, node.below.intersection(&theirs.below));
            if owned || !below.is_empty() {
                set.nodes.push(Node { element: node.element.clone(), owned, below });
            }
        }
        set
    }

    /// The difference of the sets. A path in the other set does not remove its descendants.
    #[must_use]
    pub fn difference(self, other: &Self) -> Self {
        self.without(other, false)
    }

    /// The difference of the sets, without the descendants of the other's paths.
    #[must_use]
    pub fn recursive_difference(self, other: &Self) -> Self {
        self.without(other, true)
    }

    fn without(self, other: &Self, recursive: bool) -> Self {
        if other.is_empty() {
            return self;
        }
        let mut theirs = other.nodes.as_slice();
        let mut set = Self { nodes: Vec::with_capacity(self.nodes.len()) };
        for mut node in self.nodes {
            theirs = skip_to(theirs, &node.element);
            if let Some(same) = theirs.first().filter(|it| it.element == node.element) {
                if recursive && same.owned {
                    continue;
                }
                node.owned &= !same.owned;
                node.below = node.below.without(&same.below, recursive);
            }
            if node.owned || !node.below.is_empty() {
                set.nodes.push(node);
            }
        }
        set
    }

    /// Whether the other set contains every path of this one.
    pub fn is_subset(&self, other: &Self) -> bool {
        matched(&self.nodes, &other.nodes).all(|(node, theirs)| {
            theirs.is_some_and(|theirs| {
                (theirs.owned || !node.owned) && node.below.is_subset(&theirs.below)
            })
        })
    }

    /// The paths without descendants in the set.
    #[must_use]
    pub fn leaves(self) -> Self {
        let leaf = |node: Node| Node {
            owned: node.owned && node.below.is_empty(),
            below: node.below.leaves(),
            element: node.element,
        };
        Self { nodes: self.nodes.into_iter().map(leaf).collect() }
    }

    /// Every path in the form of messages: the paths of a level first, then their descendants.
    pub fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.visit(&mut Vec::new(), &mut |path| {
            paths.push(path.iter().map(ToString::to_string).collect());
        });
        paths
    }

    /// Calls `visitor` with every path, in the order of [`paths`](Self::paths).
    pub(super) fn visit<'a>(
        &'a self,
        path: &mut Vec<&'a PathElement>,
        visitor: &mut dyn FnMut(&[&PathElement]),
    ) {
        for node in self.nodes.iter().filter(|node| node.owned) {
            path.push(&node.element);
            visitor(path);
            path.pop();
        }
        for node in &self.nodes {
            path.push(&node.element);
            node.below.visit(path, visitor);
            path.pop();
        }
    }
}

/// Pairs each node with the other set's node of the same element.
fn matched<'a>(
    ours: &'a [Node],
    theirs: &'a [Node],
) -> impl Iterator<Item = (&'a Node, Option<&'a Node>)> {
    let mut rest = theirs;
    ours.iter().map(move |node| {
        rest = skip_to(rest, &node.element);
        (node, rest.first().filter(|it| it.element == node.element))
    })
}

/// The nodes from an element on, found by a galloping search: near elements are found at once, and
/// thousands of small sets can be compared with a large one.
fn skip_to<'a>(nodes: &'a [Node], element: &PathElement) -> &'a [Node] {
    let mut step = 1;
    while nodes.get(step - 1).is_some_and(|it| it.element < *element) {
        step *= 2;
    }
    // The element is between step / 2 and step.
    let (low, high) = (step / 2, nodes.len().min(step));
    let skipped = low + nodes[low..high].partition_point(|it| it.element < *element);
    &nodes[skipped..]
}

#[cfg(test)]
mod tests;
