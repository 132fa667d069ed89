//! Which part of the old state a new value corresponds to, and whether it changed.
//!
//! Fields correspond by name, items of a list that is a map by their keys. Items of other lists do
//! not correspond: such a list changed or did not change as a whole.

use crate::structural::{List, Node};
use crate::validate::Data;
use machinery::Value;

/// The item of the old list with the same keys as `item`.
pub(crate) fn old_item<'a>(node: &Node, item: &Value, old: Data<'a>) -> Option<Data<'a>> {
    let (List::Map(keys), Data::List(items)) = (&node.list, old) else { return None };
    let same =
        |candidate: &&Value| keys.iter().all(|key| candidate.get(&**key) == item.get(&**key));
    items.iter().find(same).map(Data::from)
}

/// Whether a value is as it was. Fields that the schema does not know never correspond, as
/// upstream has it, so an object with such fields counts as changed.
pub(crate) fn is_unchanged(node: &Node, new: Data<'_>, old: Data<'_>) -> bool {
    match (new, old) {
        (Data::Null, Data::Null) => true,
        (Data::Bool(new), Data::Bool(old)) => new == old,
        (Data::Text(new), Data::Text(old)) => new == old,
        (Data::Number(new), Data::Number(old)) => new == old,
        (Data::List(new), Data::List(old_items)) => {
            new.len() == old_items.len()
                && match (&node.list, &node.items) {
                    (List::Map(_), Some(item_node)) => new.iter().all(|item| {
                        old_item(node, item, old)
                            .is_some_and(|old| is_unchanged(item_node, item.into(), old))
                    }),
                    _ => new == old_items,
                }
        }
        (Data::Object(new), Data::Object(old)) => {
            new.len() == old.len()
                && new.iter().all(|(key, value)| match (node.field(key), old.get(key)) {
                    (Some(field), Some(old)) => is_unchanged(field, value.into(), old.into()),
                    _ => false,
                })
        }
        _ => false,
    }
}
