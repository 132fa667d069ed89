//! Tests of the cost of evaluations. The costs are those of Kubernetes for these expressions and
//! data.

use serde_json::{Value as Json, json};

use cel::{Bindings, Budget, DeclKind, DeclType, Env, EvalError, Library, ListKind, Object};

fn object(name: &str, fields: Vec<(&str, DeclType)>) -> DeclType {
    DeclType::object(Object::new(
        name,
        fields.into_iter().map(|(name, decl)| (name.to_owned(), decl)),
    ))
}

fn string() -> DeclType {
    DeclType::string(1_000)
}

/// The declaration and the data of `self` for all tables.
fn declaration_and_data() -> (DeclType, Json) {
    let of = |kind| DeclType::new(kind, 0);
    let set = DeclType::new(DeclKind::List(string().into(), ListKind::Set), 10);
    let pair = object("pair", vec![("k", string()), ("v", string()), ("v2", string())]);
    let keyed = DeclType::new(DeclKind::List(pair.into(), ListKind::Map(vec!["k".to_owned()])), 10);
    let decl = object(
        "self",
        vec![
            ("s", string()),
            ("i", DeclType::int()),
            ("f", of(DeclKind::Double)),
            ("bytes", of(DeclKind::Bytes)),
            ("d", of(DeclKind::Duration)),
            ("list", DeclType::list(DeclType::int(), 10)),
            ("array", DeclType::list(DeclType::int(), 10)),
            ("set", set.clone()),
            ("set2", set),
            ("map", DeclType::map(DeclType::int(), 10)),
            ("listMap", keyed.clone()),
            ("objs", DeclType::list(keyed, 10)),
            ("a", object("a", vec![("b", DeclType::int()), ("c", DeclType::int())])),
            ("something", of(DeclKind::IntOrString)),
        ],
    );
    let data = json!({
        "s": "Rook takes 👑",
        "i": 10,
        "f": 10.0,
        "bytes": "QUI=",
        "d": "1h2m3s4ms",
        "list": [1, 2, 3],
        "array": [1, 1, 2, 2, 3, 3, 4, 5],
        "set": ["a", "b", "c"],
        "set2": ["a", "c", "b"],
        "map": {"b": 1, "d": 2},
        "listMap": [{"k": "a1", "v": "b1"}, {"k": "a2", "v": "b2"}, {"k": "a3", "v": "b3", "v2": "z"}],
        "objs": [
            [{"k": "a", "v": "1"}, {"k": "b", "v": "2"}],
            [{"k": "b", "v": "2"}, {"k": "a", "v": "1"}],
            [{"k": "b", "v": "3"}, {"k": "a", "v": "1"}],
        ],
        "a": {"b": 1},
        "something": "25%",
    });
    (decl, data)
}

/// Checks that every expression is true and has this cost.
fn check_costs(table: &[(&str, u64)]) {
    let (decl, data) = declaration_and_data();
    let env = Env::new(Library::kubernetes()).variable("self", decl);
    for (source, expected) in table {
        let program = env.compile(source).expect(source);
        let mut budget = Budget::new(1_000_000);
        let value = program.evaluate(&Bindings::new().json("self", &data), &mut budget);
        assert_eq!(value.unwrap().as_bool(), Some(true), "{source}");
        assert_eq!(1_000_000 - budget.remaining, *expected, "{source}");
    }
}

#[test]
fn operations_on_scalars_have_constant_costs() {
    check_costs(&[
        ("self.i == self.i", 5),
        ("type(self.i) == int", 4),
        ("self.f == 10.0", 3),
        ("double(self.i) < 11.0", 4),
        ("double(5) < 10.0", 1),
        ("self.bytes == b'AB'", 3),
        ("size(self.bytes) == 2", 4),
        ("self.d == duration('1h2m') + duration('3s4ms')", 4),
        ("self.d.getHours() == 1", 4),
        ("string(self.i) == '10'", 4),
    ]);
}

#[test]
fn functions_on_strings_cost_by_length() {
    check_costs(&[
        ("self.s.startsWith('Rook')", 3),
        ("!self.s.startsWith('knight')", 4),
        ("self.s.matches('^[^0-9]*$')", 8),
        ("!self.s.matches('^[0-9]*$')", 7),
        ("size(self.s) == 12", 4),
        ("self.s.charAt(3) == 'k'", 4),
        ("self.s.indexOf('o') == 1", 4),
        ("self.s.replace(' ', 'x') == 'Rookxtakesx👑'", 7),
        ("self.s.split(' ') == ['Rook', 'takes', '👑']", 6),
        ("self.s.substring(4, 10).trim() == 'takes'", 6),
        ("self.s.lowerAscii() == self.s.lowerAscii()", 10),
        (
            "'%d %s %f %s %s'.format([1, 'abc', 1.0, duration('1m'), \
             timestamp('2000-01-01T00:00:00.000Z')]) == '1 abc 1.000000 60s 2000-01-01T00:00:00Z'",
            6,
        ),
        ("'%e'.format([3.14]) == '3.140000×10⁰⁰'", 3),
        ("'%o %o %o'.format([7, 8, 9]) == '7 10 11'", 2),
    ]);
}

#[test]
fn operations_on_lists_cost_by_the_number_of_elements() {
    check_costs(&[
        ("1 in self.list", 5),
        ("self.list[0] in self.list", 8),
        ("!(0 in self.list)", 6),
        ("self.list + self.list == [1, 2, 3, 1, 2, 3]", 6),
        ("self.list + [4, 5] == [1, 2, 3, 4, 5]", 4),
        ("self.s in ['Pending', 'Rook takes 👑']", 2),
        ("has(self.list)", 1),
        ("has(self.list) && has(self.set)", 2),
        ("self.set == ['c', 'b', 'a']", 3),
        ("self.set == self.set2", 5),
        ("self.set + self.set2 == ['a', 'b', 'c']", 6),
        ("self.set + ['c', 'd'] == ['a', 'b', 'c', 'd']", 4),
        ("sets.contains(self.set, ['a'])", 6),
        ("sets.equivalent(self.set, ['a', 'b', 'c'])", 21),
        ("self.objs[0] == self.objs[1]", 7),
        ("self.objs[0] + self.objs[2] == self.objs[2]", 11),
        ("self.objs[0] == [self.objs[0][0], self.objs[0][1]]", 22),
    ]);
}

#[test]
fn comprehensions_cost_by_the_number_of_iterations() {
    check_costs(&[
        ("self.array.all(e, e > 0)", 43),
        ("self.array.exists(e, e > 2)", 36),
        ("self.array.exists_one(e, e > 4)", 22),
        ("!self.array.all(e, e < 2)", 21),
        ("size(self.array.filter(e, e%2 == 0)) == 3", 68),
        ("self.array.map(e, e * 20).filter(e, e > 50).exists(e, e == 60)", 194),
        ("self.array.all(i, e, e > 0)", 43),
        ("self.array.transformList(i, e, e > 2, e * 2).size() > 0", 77),
        ("self.map.all(k, self.map[k] > 0)", 17),
        ("!self.map.exists(k, self.map[k] == 3)", 20),
        ("self.map.exists_one(k, self.map[k] == 2)", 14),
        ("size(self.map.filter(k, self.map[k] > 1)) == 1", 26),
        ("self.map.all(k, v, v > 0)", 13),
        ("self.map.transformMap(k, v, v > 1, v + 1).size() == 1", 14),
        ("self.map.transformMapEntry(k, v, {k + '2': v + 1}).size() == 2", 77),
        ("self.listMap.all(m, m.k.startsWith('a'))", 21),
        ("self.listMap.all(m, !has(m.v2) || m.v2 == 'z')", 21),
        ("self.listMap.map(m, m.v).exists(v, v == 'b1')", 55),
        ("self.listMap.exists(m, m.v2 == 'z')", 24),
        ("!self.listMap.all(m, m.v2 != 'z')", 22),
        ("self.listMap.map(m, has(m.v2) && m.v2 == 'z', m.v2).size() == 1", 25),
    ]);
}

#[test]
fn presence_tests_and_conditionals_cost_only_the_evaluated_parts() {
    check_costs(&[
        ("has(self.a.b)", 2),
        ("!has(self.a.c)", 3),
        ("'b' in self.map", 3),
        ("!has(self.map.a)", 3),
        ("type(self.something) == int ? self.something == 1 : self.something == '25%'", 7),
        ("self.something == 1 || self.something == '25%'", 6),
        ("self.something == '25%' || self.something == 1", 3),
        ("type(self.something) == string && self.something == '25%'", 7),
        ("type(self) == type(self)", 5),
    ]);
}

#[test]
fn an_exhausted_budget_ends_the_evaluation_even_inside_of_a_logical_or() {
    let (decl, data) = declaration_and_data();
    let env = Env::new(Library::kubernetes()).variable("self", decl);
    let program = env.compile("self.array.all(e, e > 0) || true").unwrap();
    let mut budget = Budget::new(20);
    let outcome = program.evaluate(&Bindings::new().json("self", &data), &mut budget);
    assert_eq!(outcome.unwrap_err(), EvalError::Cost);
    assert_eq!(budget.remaining, 0);
    assert_eq!(EvalError::Cost.to_string(), "operation cancelled: actual cost limit exceeded");
}

#[test]
fn one_evaluation_may_not_exceed_its_limit_even_if_budget_remains() {
    let env = Env::new(Library::kubernetes());
    let program = env.compile("lists.range(100).map(x, x).size() == 100").unwrap();
    let mut budget = Budget { remaining: 1_000_000, per_call: 100 };
    assert_eq!(program.evaluate(&Bindings::new(), &mut budget).unwrap_err(), EvalError::Cost);
    assert!(budget.remaining > 999_000);
}
