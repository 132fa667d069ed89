//! Tests of the parser.

use super::*;
use crate::macros::Family;

fn macros() -> Macros {
    let mut macros = Macros::default();
    for family in [Family::Standard, Family::TwoVariables, Family::Optional, Family::Bind] {
        macros.add(family);
    }
    macros
}

fn show(expr: &Expr) -> String {
    let all = |exprs: &[Expr]| exprs.iter().map(show).collect::<Vec<_>>().join(", ");
    match &expr.kind {
        Kind::Literal(literal) => format!("{literal:?}"),
        Kind::Ident(name) => name.clone(),
        Kind::Select { operand, field, test } => {
            format!("{}.{field}{}", show(operand), if *test { "~test" } else { "" })
        }
        Kind::Call { function, target: Some(target), args } => {
            format!("{}.{function}({})", show(target), all(args))
        }
        Kind::Call { function, target: None, args } => format!("{function}({})", all(args)),
        Kind::List(items) => {
            format!("[{}]", items.iter().map(|it| show(&it.value)).collect::<Vec<_>>().join(", "))
        }
        Kind::Map(entries) => {
            let shown: Vec<_> = entries
                .iter()
                .map(|it| format!("{}: {}", show(&it.key), show(&it.value)))
                .collect();
            format!("{{{}}}", shown.join(", "))
        }
        Kind::Struct { name, fields } => format!("{name}{{{}}}", fields.len()),
        Kind::Comprehension(comprehension) => format!(
            "comprehension({} in {}; {} = {}; {}; {}; {})",
            comprehension.variable,
            show(&comprehension.range),
            comprehension.accumulator,
            show(&comprehension.init),
            show(&comprehension.condition),
            show(&comprehension.step),
            show(&comprehension.result)
        ),
        Kind::Invalid => "invalid".to_owned(),
    }
}

fn check(source: &str, expected: &str) {
    let shown = match parse(source, &macros()) {
        Ok(parsed) => show(&parsed.expr),
        Err(issues) => crate::CompileErrors::new(source, issues).to_string(),
    };
    assert_eq!(shown, expected, "{source}");
}

fn fails(source: &str, expected: &str) {
    let issues = parse(source, &macros()).expect_err(source);
    let shown = crate::CompileErrors::new(source, issues).to_string();
    assert!(shown.contains(expected), "{source}: {shown}");
}

#[test]
fn operators_have_the_precedence_of_the_grammar() {
    check("1 + 2 * 3", "_+_(Int(1), _*_(Int(2), Int(3)))");
    check("a || b && c || d", "_||_(a, _&&_(b, c), d)");
    check("a ? b : c ? d : e", "_?_:_(a, b, _?_:_(c, d, e))");
    check("1 - -2", "_-_(Int(1), Int(-2))");
    check("!!a", "a");
    check("-a.b", "-_(a.b)");
    check("a in b == c", "_==_(@in(a, b), c)");
    check("-9223372036854775808", "Int(-9223372036854775808)");
}

#[test]
fn members_calls_and_literals_are_parsed() {
    check("a.b(c)[0].?d", "_?._(_[_](a.b(c), Int(0)), String(\"d\"))");
    check("[1, 2,]", "[Int(1), Int(2)]");
    check("{'a': 1}.a", "{String(\"a\"): Int(1)}.a");
    check("a.b.C{x: 1, y: 2}", "a.b.C{2}");
    check(".a", ".a");
}

#[test]
fn macros_are_expanded_to_comprehensions() {
    check("has(a.b)", "a.b~test");
    check(
        "a.all(x, x)",
        "comprehension(x in a; @result = Bool(true); @not_strictly_false(@result); _&&_(@result, x); @result)",
    );
    check("cel.bind(x, 1, x)", "comprehension(#unused in []; x = Int(1); Bool(false); x; x)");
}

#[test]
fn a_missing_operand_is_reported_with_the_expected_tokens() {
    check(
        "object.x +",
        "ERROR: <input>:1:11: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', \
         '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, \
         IDENTIFIER}\n | object.x +\n | ..........^",
    );
    fails("1 + * 2", "1:5: Syntax error: extraneous input '*' expecting {'['");
}

#[test]
fn unclosed_and_superfluous_brackets_are_reported() {
    fails("f(1", "1:4: Syntax error: missing ')' at '<EOF>'");
    fails("(1 2)", "1:4: Syntax error: extraneous input '2' expecting ')'");
    fails("1)", "1:2: Syntax error: extraneous input ')' expecting <EOF>");
    fails("f(){}", "1:4: Syntax error: mismatched input '{' expecting <EOF>");
    fails("a.", "1:3: Syntax error: no viable alternative at input '.'");
}

#[test]
fn reserved_words_are_refused_as_names() {
    fails("namespace == 'a'", "1:1: reserved identifier: namespace");
    fails("a.true", "mismatched input 'true' expecting IDENTIFIER");
}

#[test]
fn invalid_arguments_of_macros_are_reported() {
    fails("has(a)", "1:5: invalid argument to has() macro");
    fails("a.all(1, true)", "1:7: argument must be a simple name");
    fails("a.map(b.c, 1)", "1:8: argument is not an identifier");
}

#[test]
fn nesting_and_size_are_limited() {
    let limit = "<input>:-1:0: expression recursion limit exceeded: 250";
    fails(&format!("{}1{}", "(".repeat(300), ")".repeat(300)), limit);
    fails(&format!("1{}", " + 1".repeat(300)), limit);
    fails(&format!("a{}", ".b".repeat(300)), limit);
    fails(&"[".repeat(90_000), limit);
    fails(&"x".repeat(100_001), "expression code point size exceeds limit");
    check(&format!("{}true", "!".repeat(90_000)), "Bool(true)");
}
