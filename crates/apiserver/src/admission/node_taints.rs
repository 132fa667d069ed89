//! `TaintNodesByCondition`: a new node gets no pods before it has said that it is ready.

use super::{Attempt, Operation};
use machinery::Object;

/// Taints a new node.
pub(super) fn mutate(attempt: &Attempt<'_>, node: &mut Object) {
    if attempt.operation == Operation::Create && attempt.is_of("", "nodes") {
        kinds::core::node::taint_not_ready(node);
    }
}
