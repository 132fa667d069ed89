//! Tests of lists, maps and their macros.

use crate::check_all;

#[test]
fn quantifiers_stop_when_the_result_is_known() {
    check_all(&[
        ("[1, 2, 3].all(e, e > 0)", "true"),
        ("[1, 2, 3].all(e, e > 1)", "false"),
        ("[].all(e, e > 1)", "true"),
        ("[1, 2, 3].exists(e, e == 2)", "true"),
        ("[1, 2, 3].exists_one(e, e > 2)", "true"),
        ("[1, 2, 3].exists_one(e, e > 1)", "false"),
        ("[0, 1].exists(e, 1 / e == 1)", "true"),
        ("[0, 2].exists(e, 1 / e == 1)", "error: division by zero"),
        ("[1, 0].all(e, 1 / e == 2)", "false"),
        ("{'a': 1, 'b': 2}.all(k, k < 'c')", "true"),
        ("x.m.exists(k, x.m[k] == 2)", "true"),
        ("x.s.all(e, true)", "error: got 'types.String', expected iterable type"),
        ("dyn(null).map(e, e)", "error: got 'types.Null', expected iterable type"),
    ]);
}

#[test]
fn lists_are_mapped_and_filtered() {
    check_all(&[
        ("[1, 2, 3].map(e, e * 2)", "[2,4,6]"),
        ("[1, 2, 3].map(e, e > 1, e * 2)", "[4,6]"),
        ("[1, 2, 3].filter(e, e % 2 == 1)", "[1,3]"),
        ("[[1, 2], [3]].map(l, l.map(e, e + 1))", "[[2,3],[4]]"),
        ("{'a': 1}.map(k, k + '!')", "[\"a!\"]"),
        ("[1, 2].map(e, 1 / 0)", "error: division by zero"),
        ("lists.range(1000).map(i, i).size()", "1000"),
    ]);
}

#[test]
fn a_comprehension_may_iterate_over_a_bound_variable() {
    check_all(&[
        ("[3, 1, 2].map(e, e * 2).sortBy(e, -e)", "[6,4,2]"),
        ("cel.bind(l, [1, 2].map(e, e + 1), l.all(e, l.exists(f, f == e)))", "true"),
        ("[1, 2].map(e, cel.bind(l, [e, 5].filter(f, f > 1), l.map(g, g + e)))", "[[6],[4,7]]"),
        ("dyn([1.5, 2.0]).sum()", "double 3.5"),
        ("dyn([duration('1s'), duration('2s')]).sum() == duration('3s')", "true"),
    ]);
}

#[test]
fn two_variables_are_index_and_element_or_key_and_value() {
    check_all(&[
        ("[1, 2].all(i, v, v == i + 1)", "true"),
        ("{'a': 1}.exists(k, v, k == 'a' && v == 1)", "true"),
        ("[5, 6].existsOne(i, v, v > 5)", "true"),
        ("['a', 'b'].transformList(i, v, string(i) + v)", "[\"0a\",\"1b\"]"),
        ("[1, 2, 3].transformList(i, v, i > 0, v * v)", "[4,9]"),
        ("{'a': 1, 'b': 2}.transformMap(k, v, v * 10)", "{\"a\":10,\"b\":20}"),
        ("{'a': 1, 'b': 2}.transformMap(k, v, v > 1, v)", "{\"b\":2}"),
        ("['x', 'y'].transformMapEntry(i, v, {v: i})", "{\"x\":0,\"y\":1}"),
        (
            "['x', 'x'].transformMapEntry(i, v, {v: i})",
            "error: insert failed: key x already exists",
        ),
    ]);
}

#[test]
fn cel_bind_binds_a_lazily_evaluated_name() {
    check_all(&[
        ("cel.bind(a, 1 + 1, a * a)", "4"),
        ("cel.bind(a, 1 / 0, 5)", "5"),
        ("cel.bind(a, [1], cel.bind(b, a + [2], b.map(e, e + size(a))))", "[2,3]"),
    ]);
}

#[test]
fn the_in_operator_searches_lists_and_map_keys() {
    check_all(&[
        ("2 in [1, 2]", "true"),
        (
            "2.0 in [1, 2]",
            "compilation failed: ERROR: <input>:1:5: found no matching overload for '@in' \
          applied to '(double, list(int))'\n | 2.0 in [1, 2]\n | ....^",
        ),
        ("dyn(2.0) in [1, 2]", "true"),
        ("'a' in {'a': 1}", "true"),
        ("'z' in x.m", "false"),
        ("x.i in x.l", "true"),
        ("1 in []", "false"),
    ]);
}

#[test]
fn size_counts_elements_entries_code_points_or_bytes() {
    check_all(&[
        ("size([1, 2])", "2"),
        ("[1, 2].size()", "2"),
        ("size({'a': 1})", "1"),
        ("size('héllo')", "5"),
        ("'👑'.size()", "1"),
        ("size(b'\\xff\\xfe')", "2"),
        ("x.l.size() + x.m.size()", "5"),
    ]);
}

#[test]
fn the_lists_extension_slices_flattens_and_sorts() {
    check_all(&[
        ("[1, 2, 3, 4].slice(1, 3)", "[2,3]"),
        ("[1].slice(0, 2)", "error: cannot slice(0, 2), list is length 1"),
        ("[[1], [2, 3]].flatten()", "[1,2,3]"),
        ("[[[1], [2]], [[3]]].flatten(2)", "[1,2,3]"),
        ("[3, 1, 2].sort()", "[1,2,3]"),
        ("['b', 'a'].sort()", "[\"a\",\"b\"]"),
        ("[{'n': 2}, {'n': 1}].sortBy(e, e.n)", "[{\"n\":1},{\"n\":2}]"),
        (
            "[1, 2, 1, 2.0].distinct()",
            "compilation failed: ERROR: <input>:1:11: expected type 'int' \
          but found 'double'\n | [1, 2, 1, 2.0].distinct()\n | ..........^",
        ),
        ("[1, 2, 1].distinct()", "[1,2]"),
        ("[1, 2].reverse()", "[2,1]"),
        ("lists.range(3)", "[0,1,2]"),
        ("lists.range(-1)", "error: lists.range: size must be non-negative, got -1"),
        (
            "lists.range(1000000000000)",
            "error: lists.range: size 1000000000000 exceeds maximum allowed (1000000)",
        ),
    ]);
}

#[test]
fn kubernetes_lists_library_aggregates_and_searches() {
    check_all(&[
        ("[1, 2, 2].isSorted()", "true"),
        ("['b', 'a'].isSorted()", "false"),
        ("[1, 2, 3].sum()", "6"),
        ("[1.5, 2.5].sum()", "double 4"),
        ("[duration('1m'), duration('1s')].sum()", "\"61s\""),
        ("[].sum() == 0", "true"),
        ("[3, 1, 2].min()", "1"),
        ("['a', 'c'].max()", "\"c\""),
        ("x.l.filter(e, e > 9).max()", "error: max called on empty list"),
        ("[1].filter(e, e > 9).max()", "error: max called on empty list"),
        ("[1, 2, 1].indexOf(1)", "0"),
        ("[1, 2, 1].lastIndexOf(1)", "2"),
        ("[1].indexOf(5)", "-1"),
        ("[1, 2].includes(2)", "true"),
        ("'a'.includes('a')", "true"),
    ]);
}

#[test]
fn the_sets_extension_compares_lists_as_sets() {
    check_all(&[
        ("sets.contains([1, 2, 3], [2, 3])", "true"),
        ("sets.contains([1], [2])", "false"),
        ("sets.equivalent([1, 2, 2], [2, 1])", "true"),
        ("sets.intersects([1, 2], [2, 5])", "true"),
        ("sets.intersects([1], [])", "false"),
    ]);
}
