//! Set operations on lists: `sets.contains`, `sets.equivalent`, `sets.intersects`.

use super::{EvalResult, Library, no_such_overload};
use crate::value::Value;
use crate::value::equality::equal;

pub(super) fn declare(library: &mut Library) {
    let declared = "(list(T), list(T)) -> bool";
    library.add("sets.contains", "list_sets_contains_list", declared, |args| {
        compare_lists(args, contains)
    });
    library.add("sets.equivalent", "list_sets_equivalent_list", declared, |args| {
        compare_lists(args, |a, b| contains(a, b) && contains(b, a))
    });
    library.add("sets.intersects", "list_sets_intersects_list", declared, |args| {
        compare_lists(args, |a, b| a.iter().any(|own| b.iter().any(|other| equal(own, other))))
    });
}

fn compare_lists<'a>(
    args: &mut [Value<'a>],
    test: fn(&[Value<'a>], &[Value<'a>]) -> bool,
) -> EvalResult<'a> {
    match args {
        [Value::List(a), Value::List(b)] => Ok(Value::Bool(test(&a.values()?, &b.values()?))),
        _ => no_such_overload(),
    }
}

fn contains(a: &[Value<'_>], b: &[Value<'_>]) -> bool {
    b.iter().all(|wanted| a.iter().any(|own| equal(own, wanted)))
}
