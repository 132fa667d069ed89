//! Tests of compile errors.

use crate::check_all;
use cel::{DeclType, Env, Library, Object};

/// Compiles `source` with `self`, an object with `n` (int), `s` (string) and `o` (an object), and
/// compares the errors, or the result type if there are none.
fn check(source: &str, expected: &str) {
    let inner = Object::new("self.o", [("deep".to_owned(), DeclType::int())]);
    let fields = [
        ("n".to_owned(), DeclType::int()),
        ("s".to_owned(), DeclType::string(10)),
        ("o".to_owned(), DeclType::object(inner)),
    ];
    let env = Env::new(Library::kubernetes())
        .variable("self", DeclType::object(Object::new("self", fields)));
    let found = match env.compile(source) {
        Ok(program) => format!("a program for {}", program.result_type()),
        Err(error) => error.to_string(),
    };
    assert_eq!(found, expected, "{source}");
}

#[test]
fn invalid_arguments_in_literals_are_reported() {
    check(
        "timestamp(-62135596801) == timestamp(0)",
        "compilation failed: ERROR: <input>:1:11: invalid timestamp argument\n \
         | timestamp(-62135596801) == timestamp(0)\n | ..........^",
    );
    check(
        "self.s.matches('x++')",
        "compilation failed: ERROR: <input>:1:16: invalid matches argument\n \
         | self.s.matches('x++')\n | ...............^",
    );
    check(
        "self.s.find(')') == ''",
        "program instantiation failed: error parsing regexp: unexpected ): `)`",
    );
}

#[test]
fn operators_and_functions_without_a_matching_overload_are_reported() {
    check(
        "self.n == 'x'",
        "compilation failed: ERROR: <input>:1:8: found no matching overload for '_==_' applied to \
         '(int, string)'\n | self.n == 'x'\n | .......^",
    );
    check(
        "self.n.startsWith('x')",
        "compilation failed: ERROR: <input>:1:18: found no matching overload for 'startsWith' \
         applied to 'int.(string)'\n | self.n.startsWith('x')\n | .................^",
    );
    check(
        "self.s && true",
        "compilation failed: ERROR: <input>:1:5: expected type 'bool' but found 'string'\n | self.s \
         && true\n | ....^",
    );
}

#[test]
fn undeclared_names_are_reported() {
    check(
        "self.missing > 1",
        "compilation failed: ERROR: <input>:1:5: undefined field 'missing'\n | self.missing > 1\n | \
         ....^",
    );
    check(
        "nothing(self.n)",
        "compilation failed: ERROR: <input>:1:8: undeclared reference to 'nothing' (in container \
         '')\n | nothing(self.n)\n | .......^",
    );
    check(
        "other == 1",
        "compilation failed: ERROR: <input>:1:1: undeclared reference to 'other' (in container '')\n \
         | other == 1\n | ^",
    );
    check(
        "has(self.o.shallow)",
        "compilation failed: ERROR: <input>:1:4: undefined field 'shallow'\n | \
         has(self.o.shallow)\n | ...^",
    );
    check(
        "Thing{a: 1}",
        "compilation failed: ERROR: <input>:1:6: undeclared reference to 'Thing' (in container '')\n \
         | Thing{a: 1}\n | .....^",
    );
}

#[test]
fn opaque_values_have_no_fields() {
    check(
        "quantity('1').foo == 1",
        "compilation failed: ERROR: <input>:1:14: unexpected failed resolution of \
         'kubernetes.Quantity'\n | quantity('1').foo == 1\n | .............^",
    );
    check(
        "ip('1.2.3.4').foo == 1",
        "compilation failed: ERROR: <input>:1:14: type 'net.IP' does not support field selection\n \
         | ip('1.2.3.4').foo == 1\n | .............^",
    );
}

#[test]
fn every_error_is_reported_once() {
    check(
        "self.a + self.b == self.n.c",
        "compilation failed: ERROR: <input>:1:5: undefined field 'a'\n | self.a + self.b == \
         self.n.c\n | ....^\nERROR: <input>:1:14: undefined field 'b'\n | self.a + self.b == \
         self.n.c\n | .............^\nERROR: <input>:1:26: type 'int' does not support field \
         selection\n | self.a + self.b == self.n.c\n | .........................^",
    );
}

#[test]
fn only_collections_can_be_iterated() {
    check(
        "self.n.all(x, x > 0)",
        "compilation failed: ERROR: <input>:1:5: expression of type 'int' cannot be range of a \
         comprehension (must be list, map, or dynamic)\n | self.n.all(x, x > 0)\n | ....^",
    );
}

#[test]
fn extensions_that_kubernetes_does_not_enable_are_undeclared() {
    for source in ["math.abs(1)", "cel.bind(a, 1, a)", "base64.encode(b'')", "'a'.reverse()"] {
        let env = Env::new(Library::kubernetes());
        assert!(env.compile(source).is_err(), "{source}");
    }
}

#[test]
fn invalid_literals_and_mixed_lists_are_refused() {
    check_all(&[
        (
            "duration('soon') > duration('1s')",
            "compilation failed: ERROR: <input>:1:10: invalid duration argument\n | duration('soon') \
             > duration('1s')\n | .........^",
        ),
        (
            "timestamp('today') == timestamp('today')",
            "compilation failed: ERROR: <input>:1:11: invalid timestamp argument\n | \
             timestamp('today') == timestamp('today')\n | ..........^\nERROR: <input>:1:33: invalid \
             timestamp argument\n | timestamp('today') == timestamp('today')\n | \
             ................................^",
        ),
        (
            "'a'.matches('(')",
            "compilation failed: ERROR: <input>:1:13: invalid matches argument\n | 'a'.matches('(')\n \
             | ............^",
        ),
        (
            "[1, 'a']",
            "compilation failed: ERROR: <input>:1:5: expected type 'int' but found 'string'\n | [1, \
             'a']\n | ....^",
        ),
    ]);
}

#[test]
fn the_result_type_is_inferred() {
    check("self.n + 1", "a program for int");
    check("[self.s].map(x, size(x))", "a program for list(int)");
    check("{'a': self.n}", "a program for map(string, int)");
    check("true ? self.n : dyn(self.s)", "a program for dyn");
    check("optional.of(self.n)", "a program for optional_type(int)");
    check("ip(self.s)", "a program for net.IP");
    check("[]", "a program for list(dyn)");
}

#[test]
fn nothing_makes_the_compiler_panic() {
    let pieces = [
        "self", ".", "(", ")", "[", "]", "{", "}", "'a'", "1", "+", "?", ":", ",", "all", "x", "!",
        "-", "&&", "in",
    ];
    let env = Env::new(Library::kubernetes()).variable("self", DeclType::any());
    let mut state: u32 = 12_345;
    for _ in 0..5_000 {
        let mut source = String::new();
        for _ in 0..state % 12 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            source.push_str(pieces[(state >> 16) as usize % pieces.len()]);
        }
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        if let Err(error) = env.compile(&source) {
            assert!(!error.to_string().is_empty(), "{source}");
        }
    }
}
