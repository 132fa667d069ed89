//! [`FieldCache`]: the values of the selectable fields of one object.
//!
//! Versions may have different lists of selectable fields, and a request that began before a change
//! of the CRD has the list of the earlier CRD. The values are therefore stored with the list that
//! they belong to, and one object may have the values of several lists.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use types::resource::Selectable;

/// The largest number of lists with stored values: two groups serve events, each with its own list.
/// The values of further lists are looked up each time.
const MAX_LISTS: usize = 2;

/// See the [module documentation](self).
#[derive(Debug, Default)]
pub(super) struct FieldCache(OnceLock<Box<FieldValues>>);

/// The values of one list of fields.
#[derive(Debug)]
struct FieldValues {
    fields: Arc<[Selectable]>,
    values: Box<[Box<str>]>,
    /// The values of another list.
    next: FieldCache,
}

impl FieldCache {
    /// The value of `fields[index]`, which `lookup` reads from the object unless it is stored.
    pub(super) fn value(
        &self,
        fields: &Arc<[Selectable]>,
        index: usize,
        lookup: impl Fn(&Selectable) -> String,
    ) -> Cow<'_, str> {
        let mut cache = self;
        for _ in 0..MAX_LISTS {
            let found = cache.0.get_or_init(|| Box::new(FieldValues::new(fields, &lookup)));
            if found.is_of(fields) {
                return found.values.get(index).map_or(Cow::default(), |it| Cow::Borrowed(it));
            }
            cache = &found.next;
        }
        fields.get(index).map_or(Cow::default(), |it| Cow::Owned(lookup(it)))
    }
}

impl FieldValues {
    fn new(fields: &Arc<[Selectable]>, lookup: impl Fn(&Selectable) -> String) -> Self {
        let values = fields.iter().map(|it| lookup(it).into_boxed_str()).collect();
        Self { fields: Arc::clone(fields), values, next: FieldCache::default() }
    }

    fn is_of(&self, fields: &Arc<[Selectable]>) -> bool {
        Arc::ptr_eq(&self.fields, fields) || self.fields == *fields
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_lists_of_fields_have_different_values() {
        let list = |fields: &[&str]| -> Arc<[Selectable]> {
            let field = |it: &&str| Selectable {
                label: (*it).to_owned(),
                path: vec![(*it).to_owned()],
                fallback: None,
                absent: "",
            };
            fields.iter().map(field).collect()
        };
        let cache = FieldCache::default();
        let value = |fields, index| cache.value(fields, index, |it| format!("={}", it.label));
        let lists = [list(&["a", "b"]), list(&["b", "a"]), list(&["c"]), list(&["a"])];
        for _ in 0..2 {
            assert_eq!(lists.each_ref().map(|it| value(it, 0)), ["=a", "=b", "=c", "=a"]);
            assert_eq!((value(&lists[0], 1), value(&lists[1], 1)), ("=b".into(), "=a".into()));
            assert_eq!(value(&lists[2], 1), "");
        }
    }

    #[test]
    fn an_equal_list_of_fields_shares_the_values() {
        let list = || -> Arc<[Selectable]> {
            let path = vec!["a".to_owned()];
            [Selectable { label: "a".to_owned(), path, fallback: None, absent: "" }].into()
        };
        let cache = FieldCache::default();
        cache.value(&list(), 0, |_| "1".to_owned());
        assert_eq!(cache.value(&list(), 0, |_| unreachable!("the value is cached")), "1");
    }
}
