//! Tests of cost estimates. The costs are those of Kubernetes.

use cel::{DeclKind, DeclType, Env, Library, Object};

/// Compiles `source` with `self` of this type, and checks the maximum cost.
fn check_max(decl: DeclType, source: &str, expected: u64) {
    let env = Env::new(Library::kubernetes()).variable("self", decl);
    let program = env.compile(source).expect(source);
    assert_eq!(program.estimate_cost().max, expected, "{source}");
}

/// Compiles `source` without variables, and checks the minimum and the maximum cost.
fn check_estimate(source: &str, min: u64, max: u64) {
    let program = Env::new(Library::kubernetes()).compile(source).unwrap();
    let found = program.estimate_cost();
    assert_eq!((found.min, found.max), (min, max), "{source}");
}

fn double() -> DeclType {
    DeclType::new(DeclKind::Double, 0)
}

/// The maximum length of a string in a request of three mebibytes.
const MAX_STRING: u64 = 3_145_726;

#[test]
fn the_cost_of_a_comprehension_is_multiplied_by_the_size_of_its_range() {
    check_max(DeclType::list(double(), 10), "self.all(x, true)", 32);
    check_max(DeclType::list(double(), 1_572_863), "self.all(x, true)", 4_718_591);
    check_max(DeclType::list(DeclType::string(MAX_STRING), 20), "self.all(x, true)", 62);
    check_max(DeclType::list(double(), 10), "self.all(x, self.all(y, true))", 352);
    check_max(DeclType::list(double(), 10), "self.all(x, self.all(y, self.all(z, true)))", 3_552);
    check_max(DeclType::map(double(), 10), "self.all(x, true)", 32);
    check_max(DeclType::list(double(), 3 * 1_024 * 2_048), "self.all(x, x == 0.0)", 25_165_826);
}

#[test]
fn comparing_types_has_a_constant_cost() {
    let either = DeclType::new(DeclKind::IntOrString, MAX_STRING);
    let own = || DeclType::object(Object::new("self", [("x".to_owned(), either.clone())]));
    check_max(own(), "type(self.x) == int", 4);
    check_max(own(), "type(self.x) == google.protobuf.Timestamp", 4);
    check_max(own(), "type(self.x) == int ? self.x == 1 : self.x == '25%'", 7);
}

#[test]
fn functions_on_strings_cost_by_the_maximum_length() {
    // Kubernetes declares four times maxLength, for the bytes that a character may have.
    check_max(DeclType::string(4 * 10), "self.contains('test')", 5);
    check_max(DeclType::string(MAX_STRING), "self.contains('test')", 314_574);
    check_max(DeclType::string(15), "self.startsWith('test')", 2);
    check_max(DeclType::string(4 * 4), "size(self + \"hello\") > size(\"hello\")", 7);
    check_max(DeclType::string(4 * 50), "self.matches(\"x\")", 22);
    check_max(DeclType::string(10), "\"\".matches(\"(((((((((())))))))))[0-9]\")", 7);
    check_max(DeclType::string(100), "self.matches(\"\")", 1);
    check_max(DeclType::string(0), "self == \"x\"", 1);
}

#[test]
fn an_indexed_element_has_the_declared_size() {
    check_max(DeclType::list(double(), 5_000), "self[1] == 0.0", 2);
    check_max(DeclType::list(DeclType::string(MAX_STRING), 8), "self[1] == self[1]", 314_577);
    let object = Object::new("self.@idx", [("x".to_owned(), double())]);
    check_max(DeclType::list(DeclType::object(object), 422), "self[0] == null", 2);
    check_max(DeclType::list(DeclType::list(double(), 9), 51), "self[0][0] == -1.0", 3);
    check_max(DeclType::list(DeclType::map(double(), 9), 12), "self.all(x, x.y == 25.2)", 74);
    check_max(
        DeclType::list(DeclType::new(DeclKind::IntOrString, MAX_STRING), 10),
        "self[0] == 5",
        3,
    );
}

#[test]
fn operations_on_literals_have_exact_estimates() {
    check_estimate("[1, 2, 3, 4, 5].sum()", 15, 15);
    check_estimate("[uint(1), uint(2), uint(3), uint(4), uint(5)].sum()", 20, 20);
    check_estimate("[1, 2, 3, 4, 5].indexOf(3)", 15, 15);
    check_estimate("'01234567890123456789012345678901234567890123456789'.indexOf('123')", 5, 5);
    check_estimate("url('https:://kubernetes.io/').getHost()", 4, 4);
    check_estimate("url('https:://kubernetes.io/') == url('http://x.b')", 5, 5);
    check_estimate("ip('192.168.0.1').family()", 3, 3);
    check_estimate("ip('192.168.0.1') == ip('192.168.0.1')", 5, 5);
    check_estimate("ip.isCanonical('2001:db8:3333:4444:5555:6666:7777:8888')", 8, 8);
    check_estimate("cidr('192.168.0.0/16').containsCIDR(cidr('192.0.0.0/30'))", 7, 11);
}

#[test]
fn the_cost_of_a_string_of_unknown_length_is_unlimited() {
    check_max(DeclType::int(), "'n is ' + string(self)", 1_844_674_407_370_955_266);
    check_max(DeclType::string(9), "'red, not ' + self", 3);
}
