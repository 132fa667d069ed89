//! Tests of functions on strings, patterns, formatting and encodings.

use crate::check_all;

#[test]
fn positions_in_strings_are_code_points() {
    check_all(&[
        ("'hé👑o'.charAt(2)", "\"👑\""),
        ("'abc'.charAt(3)", "\"\""),
        ("'abc'.charAt(4)", "error: index out of range: 4"),
        ("'hé👑o'.indexOf('o')", "3"),
        ("'ababa'.indexOf('ba', 2)", "3"),
        ("'abc'.indexOf('z')", "-1"),
        ("'abc'.indexOf('')", "0"),
        ("'ababa'.lastIndexOf('ba')", "3"),
        ("'ababa'.lastIndexOf('ba', 2)", "1"),
        ("'hé👑o'.substring(1, 3)", "\"é👑\""),
        ("'abc'.substring(1)", "\"bc\""),
        ("'abc'.substring(2, 1)", "error: invalid substring range. start: 2, end: 1"),
        ("'abc'.substring(4)", "error: index out of range: 4"),
    ]);
}

#[test]
fn strings_are_split_joined_and_replaced() {
    check_all(&[
        ("'a,b,c'.split(',')", "[\"a\",\"b\",\"c\"]"),
        ("'a,b,c'.split(',', 2)", "[\"a\",\"b,c\"]"),
        ("'abc'.split('')", "[\"a\",\"b\",\"c\"]"),
        ("'a,b'.split(',', 0)", "[]"),
        ("['a', 'b'].join('-')", "\"a-b\""),
        ("['a', 'b'].join()", "\"ab\""),
        ("'Über'.lowerAscii()", "\"Über\""),
        ("'abc'.upperAscii()", "\"ABC\""),
        ("'  a '.trim()", "\"a\""),
        ("'hello'.replace('l', 'L')", "\"heLLo\""),
        ("'hello'.replace('l', 'L', 1)", "\"heLlo\""),
        ("'ab'.replace('', '-')", "\"-a-b-\""),
        ("'abc'.reverse()", "\"cba\""),
        ("strings.quote('a\"b\\n')", r#""\"a\\\"b\\n\"""#),
    ]);
}

#[test]
fn strings_are_searched() {
    check_all(&[
        ("'hello'.contains('ell')", "true"),
        ("'hello'.startsWith('he')", "true"),
        ("'hello'.endsWith('lo')", "true"),
        ("'hello'.matches('^h.*o$')", "true"),
        ("matches('hello', 'xyz')", "false"),
        ("'abc 123'.find('[0-9]+')", "\"123\""),
        ("'abc'.find('[0-9]+')", "\"\""),
        ("'a1b22'.findAll('[0-9]+')", "[\"1\",\"22\"]"),
        ("'a1b22'.findAll('[0-9]+', 1)", "[\"1\"]"),
        ("x.s.matches('^t' + 'ext$')", "true"),
    ]);
}

#[test]
fn format_replaces_clauses_by_arguments() {
    check_all(&[
        ("'%s has %d'.format(['x', 3])", "\"x has 3\""),
        ("'%.2f'.format([3.14159])", "\"3.14\""),
        ("'%f'.format([1.0])", "\"1.000000\""),
        ("'%e'.format([3.14])", "\"3.140000×10⁰⁰\""),
        ("'%b %o %x %X'.format([5, 8, 255, 255])", "\"101 10 ff FF\""),
        ("'%x'.format(['ab'])", "\"6162\""),
        ("'%s'.format([[1, 'a', true]])", "\"[1, \\\"a\\\", true]\""),
        ("'%s'.format([{'b': 2, 'a': 1}])", "\"{\\\"a\\\": 1, \\\"b\\\": 2}\""),
        (
            "'%s %s'.format([duration('1m'), timestamp('2000-01-01T00:00:00Z')])",
            "\"60s 2000-01-01T00:00:00Z\"",
        ),
        ("'100%%'.format([])", "\"100%\""),
        ("'%s'.format([])", "error: index 0 out of range"),
        (
            "'%d'.format(['a'])",
            "error: error during formatting: decimal clause can only be used on integers, was given string",
        ),
    ]);
}

#[test]
fn bytes_are_encoded_and_decoded_as_base64() {
    check_all(&[
        ("base64.encode(b'hello')", "\"aGVsbG8=\""),
        ("base64.decode('aGVsbG8=')", "b\"hello\""),
        ("base64.decode('aGVsbG8')", "b\"hello\""),
    ]);
}
