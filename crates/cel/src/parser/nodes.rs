//! [`Nodes`]: creates the nodes of a tree, with their positions and heights.

use super::{MAX_NESTING, ParseAborted};
use crate::ast::{Expr, Id, Kind};
use crate::source::Issue;

/// Creates nodes for the parser and for macros.
pub(crate) struct Nodes {
    /// The positions of nodes in code points, by id.
    pub(super) offsets: Vec<usize>,
    /// The heights of nodes, by id: the number of nodes on the longest path to a leaf below.
    pub(super) heights: Vec<usize>,
    pub(super) issues: Vec<Issue>,
}

impl Nodes {
    pub(crate) fn id(&mut self, offset: usize) -> Id {
        self.offsets.push(offset);
        self.heights.push(0);
        self.offsets.len() - 1
    }

    pub(crate) fn offset(&self, id: Id) -> usize {
        self.offsets[id]
    }

    /// A node at `offset`.
    pub(crate) fn new_expr(&mut self, offset: usize, kind: Kind) -> Expr {
        let id = self.id(offset);
        self.with_id(id, kind)
    }

    /// A node with an id that was created before the ids of its children.
    pub(crate) fn with_id(&mut self, id: Id, kind: Kind) -> Expr {
        let expr = Expr { id, kind };
        let mut height = 0;
        expr.for_each_child(&mut |child| height = height.max(self.heights[child.id] + 1));
        self.heights[id] = height;
        expr
    }

    pub(crate) fn report(&mut self, offset: usize, message: impl Into<String>) {
        self.issues.push(Issue::at(offset, message));
    }

    pub(super) fn too_deep(&mut self) -> ParseAborted {
        let message = format!("expression recursion limit exceeded: {MAX_NESTING}");
        self.issues.push(Issue::without_location(message));
        ParseAborted
    }
}
