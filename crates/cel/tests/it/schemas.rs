//! Tests of JSON with declared types.

use std::sync::Arc;

use serde_json::{Value as Json, json};

use crate::{run, show};
use cel::{
    Bindings, Budget, DeclKind, DeclType, Env, EvalError, Fields, Library, ListKind, Messages,
    Object, Type, Value,
};

fn check(decl: DeclType, data: &Json, table: &[(&str, &str)]) {
    let env = Env::new(Library::kubernetes()).variable("self", decl);
    for (source, expected) in table {
        assert_eq!(run(&env, source, &[("self", data)]), *expected, "{source}");
    }
}

fn object(fields: Vec<(&str, DeclType)>) -> DeclType {
    let fields = fields.into_iter().map(|(name, decl)| (name.to_owned(), decl));
    DeclType::object(Object::new("self", fields))
}

#[test]
fn reserved_words_and_symbols_in_field_names_are_escaped() {
    let decl = object(vec![
        ("namespace", DeclType::string(9)),
        ("a-b", DeclType::int()),
        ("x.y", DeclType::new(DeclKind::Bool, 0)),
    ]);
    let data = json!({"namespace": "n", "a-b": 0, "x.y": true});
    check(
        decl,
        &data,
        &[
            ("self.__namespace__ != '' && self.a__dash__b > 0 && self.x__dot__y", "false"),
            ("self.__namespace__", "\"n\""),
            ("has(self.namespace) && self.namespace == self.__namespace__", "true"),
            ("self.x__dot__y", "true"),
        ],
    );
}

#[test]
fn strings_are_converted_to_times_and_bytes_by_their_format() {
    let decl = object(vec![
        ("t", DeclType::new(DeclKind::Timestamp, 40)),
        ("day", DeclType::new(DeclKind::Date, 40)),
        ("d", DeclType::new(DeclKind::Duration, 40)),
        ("b", DeclType::new(DeclKind::Bytes, 40)),
        ("f", DeclType::new(DeclKind::Double, 0)),
    ]);
    let data =
        json!({"t": "2024-06-01T00:00:00Z", "day": "2024-06-01", "d": "30m", "b": "QUI=", "f": 1});
    check(
        decl,
        &data,
        &[
            ("self.t > timestamp('2024-01-01T00:00:00Z')", "true"),
            ("string(timestamp('2024-01-01T01:00:00+01:00'))", "\"2024-01-01T01:00:00+01:00\""),
            ("timestamp('2024-01-01T01:00:00+01:00').getHours()", "0"),
            ("timestamp('2024-01-01T01:00:00+01:00') == timestamp('2024-01-01T00:00:00Z')", "true"),
            ("optional.ofNonZeroValue(timestamp('0001-01-01T00:00:00Z')).hasValue()", "false"),
            ("self.day == self.t", "true"),
            ("self.d <= duration('1h')", "true"),
            ("self.b == b'AB'", "true"),
            ("self.f / 2.0", "double 0.5"),
        ],
    );
}

#[test]
fn a_null_field_is_absent_and_a_null_element_is_null() {
    let decl = object(vec![
        ("a", DeclType::int().or_null()),
        ("m", DeclType::map(DeclType::int().or_null(), 5)),
        ("strict", DeclType::list(DeclType::int(), 5)),
    ]);
    let data = json!({"a": null, "m": {"x": null}, "strict": [null]});
    check(
        decl,
        &data,
        &[
            ("has(self.a)", "false"),
            ("self.a == 1", "error: no such key: a"),
            ("type(self.m['x']) == null_type", "true"),
            ("self.strict[0] == 1", "error: invalid data, got null for schema with nullable=false"),
        ],
    );
}

#[test]
fn equality_and_addition_of_lists_depend_on_the_list_type() {
    let pair = || {
        let fields = [("k".to_owned(), DeclType::string(9)), ("v".to_owned(), DeclType::int())];
        DeclType::object(Object::new("pair", fields))
    };
    let list = |element: DeclType, kind| DeclType::new(DeclKind::List(Arc::new(element), kind), 9);
    let keyed = || list(pair(), ListKind::Map(vec!["k".to_owned()]));
    let decl = object(vec![
        ("atomic", DeclType::list(DeclType::int(), 9)),
        ("set", list(DeclType::int(), ListKind::Set)),
        ("a", keyed()),
        ("b", keyed()),
    ]);
    let data = json!({
        "atomic": [1, 2],
        "set": [1, 2],
        "a": [{"k": "x", "v": 1}, {"k": "y", "v": 2}],
        "b": [{"k": "y", "v": 3}, {"k": "z", "v": 4}],
    });
    check(
        decl,
        &data,
        &[
            ("self.atomic == [2, 1]", "false"),
            ("self.set == [2, 1]", "true"),
            ("self.atomic + [1]", "[1,2,1]"),
            ("self.set + [1, 3]", "[1,2,3]"),
            ("self.a == [self.a[1], self.a[0]]", "true"),
            ("(self.a + self.b).map(e, e.v)", "[1,3,4]"),
        ],
    );
}

#[test]
fn the_type_of_an_int_or_string_is_that_of_the_value() {
    let decl = object(vec![("port", DeclType::new(DeclKind::IntOrString, 10))]);
    let source = "type(self.port) == int ? self.port < 5 : self.port.endsWith('%')";
    check(decl.clone(), &json!({"port": 3}), &[(source, "true")]);
    check(decl.clone(), &json!({"port": "25%"}), &[(source, "true")]);
    check(
        decl,
        &json!({"port": 1.5}),
        &[(
            source,
            "error: invalid data, expected XIntOrString value to be either a string or integer",
        )],
    );
}

#[test]
fn undeclared_fields_matter_for_equality() {
    let inner = || DeclType::object(Object::new("inner", [("n".to_owned(), DeclType::int())]));
    let decl = object(vec![("a", inner()), ("b", inner()), ("c", inner())]);
    let data = json!({"a": {"n": 1, "u": 1}, "b": {"n": 1, "u": 2}, "c": {"n": 1, "u": 1}});
    check(decl, &data, &[("self.a == self.b", "false"), ("self.a == self.c", "true")]);
}

#[test]
fn an_optional_variable_may_have_no_value() {
    let env = Env::new(Library::kubernetes())
        .variable("self", DeclType::string(9))
        .optional_variable("oldSelf", DeclType::string(9));
    let program = env.compile("oldSelf.hasValue() || self == 'first'").unwrap();
    assert!(program.uses("oldSelf"));
    let value = json!("x");
    for (old, expected) in [(None, "false"), (Some(&value), "true")] {
        let bound = Bindings::new().json("self", &value).optional_json("oldSelf", old);
        let found = program.evaluate(&bound, &mut Budget::new(100)).unwrap();
        assert_eq!(show(&found), expected);
    }
}

#[derive(Debug)]
struct Variables;

impl Fields for Variables {
    fn get(&self, name: &str) -> Option<Result<Value<'_>, EvalError>> {
        match name {
            "n" => Some(Ok(Value::Int(5))),
            "broken" => Some(Err("it broke".into())),
            _ => None,
        }
    }
}

#[test]
fn fields_may_be_computed_on_demand() {
    let fields = [("n".to_owned(), DeclType::any()), ("broken".to_owned(), DeclType::any())];
    let decl = DeclType::object(Object::new("kubernetes.variables", fields));
    let env = Env::new(Library::kubernetes()).variable("variables", decl);
    for (source, expected) in [
        ("'too many: ' + string(variables.n)", Ok("\"too many: 5\"")),
        ("variables.n > 3 || variables.broken", Ok("true")),
        ("variables.broken == 1", Err("it broke")),
    ] {
        let program = env.compile(source).unwrap();
        let bound = Bindings::new().value("variables", Value::Fields(&Variables));
        let found = program.evaluate(&bound, &mut Budget::new(1_000));
        let found = found.map(|value| show(&value)).map_err(|error| error.to_string());
        assert_eq!(found, expected.map(str::to_owned).map_err(str::to_owned), "{source}");
    }
}

#[test]
fn deeply_nested_data_does_not_exhaust_the_stack() {
    let mut data = json!(1);
    for _ in 0..1_000 {
        data = json!([data]);
    }
    let decl = object(vec![("a", DeclType::any()), ("b", DeclType::any())]);
    let shallow = json!({"a": [[1]], "b": [[1]]});
    check(decl.clone(), &shallow, &[("self.a == self.b", "true")]);
    let deep = json!({"a": data.clone(), "b": data});
    check(decl, &deep, &[("self.a == self.b", "false"), ("self.a.includes(1)", "false")]);
}

/// `Object` and all types below it, with any fields except `forbidden`.
#[derive(Debug)]
struct ObjectTypes;

impl Messages for ObjectTypes {
    fn find(&self, name: &str) -> Option<Arc<Object>> {
        name.starts_with("Object").then(|| Arc::new(Object::new(name, [])))
    }

    fn open_field(&self, _: &str, field: &str) -> Option<Type> {
        (field != "forbidden").then_some(Type::Dyn)
    }
}

#[test]
fn messages_can_be_created_if_the_environment_has_message_types() {
    let env = Env::new(Library::kubernetes())
        .variable("x", DeclType::any())
        .messages(Arc::new(ObjectTypes));
    let x = json!({"n": 2});
    for (source, expected) in [
        (
            "Object{spec: Object.spec{replicas: x.n, ?image: x.?image}, metadata: {'a': 'b'}}",
            "{\"metadata\":{\"a\":\"b\"},\"spec\":{\"replicas\":2}}",
        ),
        ("Object{n: 1}.n + 1", "2"),
        ("Object{n: 1} == Object{n: 1}", "true"),
        (
            "Object{forbidden: 1}",
            "compilation failed: ERROR: <input>:1:17: undefined field 'forbidden'\n | \
             Object{forbidden: 1}\n | ................^",
        ),
    ] {
        assert_eq!(run(&env, source, &[("x", &x)]), expected, "{source}");
    }
}
