//! `TaintNodesByCondition`: a new node gets no pods before its status is ready.

use super::{Attributes, Operation};
use machinery::Object;

/// Adds the not-ready taint to a new node.
pub(super) fn mutate(attributes: &Attributes<'_>, node: &mut Object) {
    if attributes.operation == Operation::Create && attributes.is_of("", "nodes") {
        kinds::core::node::taint_not_ready(node);
    }
}
