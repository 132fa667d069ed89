//! Tests of arithmetic, comparison, logic, conversions and times.

use crate::check_all;

#[test]
fn integer_arithmetic_fails_on_overflow_and_division_by_zero() {
    check_all(&[
        ("1 + 2 * 3", "7"),
        ("7 / 2", "3"),
        ("-7 / 2", "-3"),
        ("-7 % 3", "-1"),
        ("7.0 / 2.0", "double 3.5"),
        ("1.0 / 0.0", "double +Inf"),
        ("1u + 2u", "3u"),
        ("1u - 2u", "error: unsigned integer overflow"),
        ("9223372036854775807 + 1", "error: integer overflow"),
        ("-9223372036854775808 / -1", "error: integer overflow"),
        ("1 / 0", "error: division by zero"),
        ("1 % 0", "error: modulus by zero"),
        ("-(-9223372036854775808)", "error: integer overflow"),
        ("x.i + 1", "2"),
        ("x.s + 1", "error: no such overload"),
        ("'a' + 'b'", "\"ab\""),
        ("b'a' + b'b'", "b\"ab\""),
        ("[1] + [2, 3]", "[1,2,3]"),
    ]);
}

#[test]
fn numbers_of_different_types_are_comparable() {
    check_all(&[
        ("1 < 2u", "true"),
        ("2.5 > 2", "true"),
        ("dyn(1) == 1.0", "true"),
        ("dyn(1u) == 1", "true"),
        ("dyn('1') == 1", "false"),
        ("x.i == 1.0", "true"),
        ("'b' > 'a'", "true"),
        ("false < true", "true"),
        ("[1, 2] == [1, 2]", "true"),
        ("{'a': 1} == {'a': 1}", "true"),
        ("{'a': 1, 'b': 2} != {'a': 1}", "true"),
        ("x.n == null", "true"),
        ("dyn([1]) == [1.0]", "true"),
        ("x.s < 1", "error: no such overload"),
    ]);
}

#[test]
fn a_deciding_operand_hides_errors() {
    check_all(&[
        ("false && 1 / 0 == 1", "false"),
        ("1 / 0 == 1 && false", "false"),
        ("true || 1 / 0 == 1", "true"),
        ("1 / 0 == 1 || true", "true"),
        ("1 / 0 == 1 && true", "error: division by zero"),
        ("x.s && false", "false"),
        ("x.s && true", "error: no such overload"),
        ("true ? 1 : 2", "1"),
        ("false ? 1 / 0 : 2", "2"),
        ("!true", "false"),
    ]);
}

#[test]
fn conversions_follow_go() {
    check_all(&[
        ("int('42')", "42"),
        ("int(2.9)", "2"),
        ("int(-2.9)", "-2"),
        ("int(x.d)", "1"),
        ("int(x.s)", "error: type conversion error from 'string' to 'int'"),
        ("int(x.d * 1e30)", "error: integer overflow"),
        ("uint('3')", "3u"),
        ("uint(x.i - 2)", "error: unsigned integer overflow"),
        ("double('1.5')", "double 1.5"),
        ("string(1.5)", "\"1.5\""),
        ("string(1000000.0)", "\"1e+06\""),
        ("string(true)", "\"true\""),
        ("string(b'abc')", "\"abc\""),
        ("string(b'\\xff' + b'a')", "error: invalid UTF-8 in bytes, cannot convert to string"),
        ("bytes('é')", "b\"é\""),
        ("bool('True')", "true"),
        ("type(1)", "int"),
        ("type(1) == int", "true"),
        ("type(type(1)) == type", "true"),
        ("type(x.m) == map", "true"),
        ("string(duration('1h30m'))", "\"5400s\""),
        ("int(timestamp('1970-01-01T00:01:00Z'))", "60"),
        ("string(timestamp(60))", "\"1970-01-01T00:01:00Z\""),
    ]);
}

#[test]
fn an_invalid_conversion_of_a_constant_is_a_compile_error() {
    check_all(&[(
        "int('x')",
        "program instantiation failed: type conversion error from 'string' to 'int'",
    )]);
}

#[test]
fn timestamps_and_durations_have_accessors_and_arithmetic() {
    check_all(&[
        ("timestamp('2024-02-29T12:30:45.5Z').getFullYear()", "2024"),
        ("timestamp('2024-02-29T12:30:45Z').getMonth()", "1"),
        ("timestamp('2024-02-29T12:30:45Z').getDayOfMonth()", "28"),
        ("timestamp('2024-02-29T12:30:45Z').getDate()", "29"),
        ("timestamp('2024-02-29T12:30:45Z').getDayOfYear()", "59"),
        ("timestamp('2024-02-29T12:30:45Z').getDayOfWeek()", "4"),
        ("timestamp('2024-02-29T23:30:45Z').getHours('+02:00')", "1"),
        ("timestamp('2024-02-29T23:30:45Z').getHours('-05:30')", "18"),
        ("timestamp('2024-02-29T12:30:45.5Z').getMilliseconds()", "500"),
        ("timestamp('2024-01-01T00:00:00Z') + duration('36h')", "\"2024-01-02T12:00:00Z\""),
        ("timestamp('2024-01-02T00:00:00Z') - timestamp('2024-01-01T00:00:00Z')", "\"86400s\""),
        ("timestamp('2024-01-02T00:00:00Z') > timestamp('2024-01-01T00:00:00Z')", "true"),
        ("timestamp('9999-12-31T23:59:59Z') + duration('1s')", "error: timestamp overflow"),
        ("duration('90m').getHours()", "1"),
        ("duration('1.5s').getMilliseconds()", "1500"),
        ("duration('1h') + duration('30m') == duration('90m')", "true"),
    ]);
}

#[test]
fn missing_fields_and_unsupported_types_are_reported() {
    check_all(&[
        ("x.missing", "error: no such key: missing"),
        ("x['missing']", "error: no such key: missing"),
        ("x.l[5]", "error: index out of bounds: 5"),
        ("[1, 2][2]", "error: index '2' out of range in list size '2'"),
        ("x.l['a']", "error: unsupported index type 'string' in list"),
        ("has(x.missing)", "false"),
        ("has(x.s)", "true"),
        ("has(x.m.a)", "true"),
        ("x.l[1]", "2"),
        ("x.m['b']", "2"),
        (
            "{1: 'a', 2u: 'b'}[2]",
            "compilation failed: ERROR: <input>:1:10: expected type 'int' but \
          found 'uint'\n | {1: 'a', 2u: 'b'}[2]\n | .........^",
        ),
        ("{1: 'a'}[dyn(1.0)]", "\"a\""),
        ("x.s.field", "error: no such key: field"),
        ("has(x.s.field)", "false"),
        ("x.?s.?field.hasValue()", "false"),
        ("dyn(null).field", "error: no such key: field"),
        ("x.m[dyn(1)]", "error: unsupported map key type: types.Int"),
        ("x.s * 2", "error: no such overload"),
        ("x.m == dyn(1)", "error: no such overload"),
        ("x.m != dyn(1)", "true"),
        ("x.m == null", "false"),
        ("{'a': 1} == dyn(1)", "false"),
        ("quantity('1') == dyn(1)", "error: no such overload"),
        ("dyn(null) + 1", "error: no such overload: _+_"),
        ("dyn(null) < 1", "error: no such overload: _<_"),
        ("dyn(1).size()", "error: no such overload: size"),
        ("int(dyn(null))", "error: no such overload: int(null_type)"),
    ]);
}

#[test]
fn optional_values_are_chained_and_unwrapped() {
    check_all(&[
        ("x.?m.?a.orValue(0)", "1"),
        ("x.?missing.?a.orValue(7)", "7"),
        ("x.?m.a.hasValue()", "true"),
        ("x.?missing.hasValue()", "false"),
        ("x.?missing", "optional.none()"),
        ("x.?i", "optional(1)"),
        ("x.l[?0].value()", "1"),
        ("x.l[?9].hasValue()", "false"),
        ("x.m[?'a'].or(optional.of(5)).value()", "1"),
        ("optional.none().or(optional.of(5)).value()", "5"),
        ("optional.none().value()", "error: optional.none() dereference"),
        ("optional.ofNonZeroValue('').hasValue()", "false"),
        ("optional.ofNonZeroValue(3).value()", "3"),
        ("x.?i.optMap(v, v + 1)", "optional(2)"),
        ("x.?nope.optMap(v, v + 1)", "optional.none()"),
        ("x.?m.optFlatMap(m, m.?a)", "optional(1)"),
        ("[?x.?i, ?x.?nope]", "[1]"),
        ("{?'a': x.?i, ?'b': x.?nope}", "{\"a\":1}"),
        ("[1, 2].first().value() + [1, 2].last().value()", "3"),
        ("[optional.of(1), optional.none()].unwrapOpt()", "[1]"),
    ]);
}
