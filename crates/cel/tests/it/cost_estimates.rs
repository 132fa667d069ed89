//! What evaluations are estimated to cost. The figures are Kubernetes' own.

use cel::{DeclKind, DeclType, Env, Library, Object};

/// Compiles against `self` of this type and compares the most that it may cost.
fn at_most(decl: DeclType, source: &str, expected: u64) {
    let env = Env::new(Library::kubernetes()).variable("self", decl);
    let program = env.compile(source).expect(source);
    assert_eq!(program.estimate_cost().max, expected, "{source}");
}

/// Compiles without variables and compares both ends.
fn estimate(source: &str, min: u64, max: u64) {
    let program = Env::new(Library::kubernetes()).compile(source).unwrap();
    let found = program.estimate_cost();
    assert_eq!((found.min, found.max), (min, max), "{source}");
}

fn double() -> DeclType {
    DeclType::new(DeclKind::Double, 0)
}

/// What a string may have in a request of three megabytes.
const MAX_STRING: u64 = 3_145_726;

#[test]
fn loops_multiply_by_the_size_of_their_range() {
    at_most(DeclType::list(double(), 10), "self.all(x, true)", 32);
    at_most(DeclType::list(double(), 1_572_863), "self.all(x, true)", 4_718_591);
    at_most(DeclType::list(DeclType::string(MAX_STRING), 20), "self.all(x, true)", 62);
    at_most(DeclType::list(double(), 10), "self.all(x, self.all(y, true))", 352);
    at_most(DeclType::list(double(), 10), "self.all(x, self.all(y, self.all(z, true)))", 3_552);
    at_most(DeclType::map(double(), 10), "self.all(x, true)", 32);
    at_most(DeclType::list(double(), 3 * 1_024 * 2_048), "self.all(x, x == 0.0)", 25_165_826);
}

#[test]
fn to_compare_types_costs_little() {
    let either = DeclType::new(DeclKind::IntOrString, MAX_STRING);
    let own = || DeclType::object(Object::new("self", [("x".to_owned(), either.clone())]));
    at_most(own(), "type(self.x) == int", 4);
    at_most(own(), "type(self.x) == google.protobuf.Timestamp", 4);
    at_most(own(), "type(self.x) == int ? self.x == 1 : self.x == '25%'", 7);
}

#[test]
fn strings_cost_by_their_greatest_length() {
    // Kubernetes declares four times maxLength, for the bytes that a character may have.
    at_most(DeclType::string(4 * 10), "self.contains('test')", 5);
    at_most(DeclType::string(MAX_STRING), "self.contains('test')", 314_574);
    at_most(DeclType::string(15), "self.startsWith('test')", 2);
    at_most(DeclType::string(4 * 4), "size(self + \"hello\") > size(\"hello\")", 7);
    at_most(DeclType::string(4 * 50), "self.matches(\"x\")", 22);
    at_most(DeclType::string(10), "\"\".matches(\"(((((((((())))))))))[0-9]\")", 7);
    at_most(DeclType::string(100), "self.matches(\"\")", 1);
    at_most(DeclType::string(0), "self == \"x\"", 1);
}

#[test]
fn indices_lead_to_the_sizes_of_elements() {
    at_most(DeclType::list(double(), 5_000), "self[1] == 0.0", 2);
    at_most(DeclType::list(DeclType::string(MAX_STRING), 8), "self[1] == self[1]", 314_577);
    let object = Object::new("self.@idx", [("x".to_owned(), double())]);
    at_most(DeclType::list(DeclType::object(object), 422), "self[0] == null", 2);
    at_most(DeclType::list(DeclType::list(double(), 9), 51), "self[0][0] == -1.0", 3);
    at_most(DeclType::list(DeclType::map(double(), 9), 12), "self.all(x, x.y == 25.2)", 74);
    at_most(
        DeclType::list(DeclType::new(DeclKind::IntOrString, MAX_STRING), 10),
        "self[0] == 5",
        3,
    );
}

#[test]
fn literals_have_exact_estimates() {
    estimate("[1, 2, 3, 4, 5].sum()", 15, 15);
    estimate("[uint(1), uint(2), uint(3), uint(4), uint(5)].sum()", 20, 20);
    estimate("[1, 2, 3, 4, 5].indexOf(3)", 15, 15);
    estimate("'01234567890123456789012345678901234567890123456789'.indexOf('123')", 5, 5);
    estimate("url('https:://kubernetes.io/').getHost()", 4, 4);
    estimate("url('https:://kubernetes.io/') == url('http://x.b')", 5, 5);
    estimate("ip('192.168.0.1').family()", 3, 3);
    estimate("ip('192.168.0.1') == ip('192.168.0.1')", 5, 5);
    estimate("ip.isCanonical('2001:db8:3333:4444:5555:6666:7777:8888')", 8, 8);
    estimate("cidr('192.168.0.0/16').containsCIDR(cidr('192.0.0.0/30'))", 7, 11);
}

#[test]
fn a_text_of_unknown_length_has_no_bound() {
    at_most(DeclType::int(), "'n is ' + string(self)", 1_844_674_407_370_955_266);
    at_most(DeclType::string(9), "'red, not ' + self", 3);
}
