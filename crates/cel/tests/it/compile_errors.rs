//! What the compiler says of expressions that cannot be used.

use crate::check_all;
use cel::{DeclType, Env, Library, Object};

/// Compiles against `self`, an object with `n` (int), `s` (string) and `o` (an object).
fn refused(source: &str, expected: &str) {
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
fn literals_that_can_only_fail_are_found() {
    refused(
        "timestamp(-62135596801) == timestamp(0)",
        "compilation failed: ERROR: <input>:1:11: invalid timestamp argument\n \
         | timestamp(-62135596801) == timestamp(0)\n | ..........^",
    );
    refused(
        "self.s.matches('x++')",
        "compilation failed: ERROR: <input>:1:16: invalid matches argument\n \
         | self.s.matches('x++')\n | ...............^",
    );
    refused(
        "self.s.find(')') == ''",
        "program instantiation failed: error parsing regexp: unexpected ): `)`",
    );
}

#[test]
fn types_that_do_not_fit_are_shown_with_the_operator() {
    refused(
        "self.n == 'x'",
        "compilation failed: ERROR: <input>:1:8: found no matching overload for '_==_' applied to \
         '(int, string)'\n | self.n == 'x'\n | .......^",
    );
    refused(
        "self.n.startsWith('x')",
        "compilation failed: ERROR: <input>:1:18: found no matching overload for 'startsWith' \
         applied to 'int.(string)'\n | self.n.startsWith('x')\n | .................^",
    );
    refused(
        "self.s && true",
        "compilation failed: ERROR: <input>:1:5: expected type 'bool' but found 'string'\n | self.s \
         && true\n | ....^",
    );
}

#[test]
fn undeclared_names_are_reported() {
    refused(
        "self.missing > 1",
        "compilation failed: ERROR: <input>:1:5: undefined field 'missing'\n | self.missing > 1\n | \
         ....^",
    );
    refused(
        "nothing(self.n)",
        "compilation failed: ERROR: <input>:1:8: undeclared reference to 'nothing' (in container \
         '')\n | nothing(self.n)\n | .......^",
    );
    refused(
        "other == 1",
        "compilation failed: ERROR: <input>:1:1: undeclared reference to 'other' (in container '')\n \
         | other == 1\n | ^",
    );
    refused(
        "has(self.o.shallow)",
        "compilation failed: ERROR: <input>:1:4: undefined field 'shallow'\n | \
         has(self.o.shallow)\n | ...^",
    );
    refused(
        "Thing{a: 1}",
        "compilation failed: ERROR: <input>:1:6: undeclared reference to 'Thing' (in container '')\n \
         | Thing{a: 1}\n | .....^",
    );
}

#[test]
fn values_of_the_libraries_have_no_fields() {
    refused(
        "quantity('1').foo == 1",
        "compilation failed: ERROR: <input>:1:14: unexpected failed resolution of \
         'kubernetes.Quantity'\n | quantity('1').foo == 1\n | .............^",
    );
    refused(
        "ip('1.2.3.4').foo == 1",
        "compilation failed: ERROR: <input>:1:14: type 'net.IP' does not support field selection\n \
         | ip('1.2.3.4').foo == 1\n | .............^",
    );
}

#[test]
fn every_error_is_reported_once() {
    refused(
        "self.a + self.b == self.n.c",
        "compilation failed: ERROR: <input>:1:5: undefined field 'a'\n | self.a + self.b == \
         self.n.c\n | ....^\nERROR: <input>:1:14: undefined field 'b'\n | self.a + self.b == \
         self.n.c\n | .............^\nERROR: <input>:1:26: type 'int' does not support field \
         selection\n | self.a + self.b == self.n.c\n | .........................^",
    );
}

#[test]
fn only_collections_can_be_iterated() {
    refused(
        "self.n.all(x, x > 0)",
        "compilation failed: ERROR: <input>:1:5: expression of type 'int' cannot be range of a \
         comprehension (must be list, map, or dynamic)\n | self.n.all(x, x > 0)\n | ....^",
    );
}

#[test]
fn functions_outside_of_kubernetes_do_not_exist() {
    for source in ["math.abs(1)", "cel.bind(a, 1, a)", "base64.encode(b'')", "'a'.reverse()"] {
        let env = Env::new(Library::kubernetes());
        assert!(env.compile(source).is_err(), "{source}");
    }
}

#[test]
fn literals_that_cannot_be_read_are_refused() {
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
fn results_have_types() {
    refused("self.n + 1", "a program for int");
    refused("[self.s].map(x, size(x))", "a program for list(int)");
    refused("{'a': self.n}", "a program for map(string, int)");
    refused("true ? self.n : dyn(self.s)", "a program for dyn");
    refused("optional.of(self.n)", "a program for optional_type(int)");
    refused("ip(self.s)", "a program for net.IP");
    refused("[]", "a program for list(dyn)");
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
