//! Tests of [`Quantity`]. The canonical forms follow upstream's rules.

use proptest::prelude::*;

use super::*;

/// Parses `text` and prints it, or the error.
fn check(text: &str, expected: &str) {
    let printed = canonical(text).unwrap_or_else(|error| error.to_string());
    assert_eq!(printed, expected, "{text}");
}

fn quantity(text: &str) -> Quantity {
    Quantity::parse(text).unwrap()
}

#[test]
fn decimal_suffixes_are_powers_of_1000() {
    check("0", "0");
    check("1000m", "1");
    check("500m", "500m");
    check("0.5", "500m");
    check("1.5", "1500m");
    check("100000", "100k");
    check("1073741824", "1073741824");
    check("12000k", "12M");
    check("1E", "1E");
    check("0.1n", "1n");
    check("1.0000000001", "1000000001n");
    check("-0.5", "-500m");
    check(".5", "500m");
    check("2000000u", "2");
}

#[test]
fn binary_suffixes_are_powers_of_1024() {
    check("1Gi", "1Gi");
    check("1024Mi", "1Gi");
    check("1048576Ki", "1Gi");
    check("1000Ki", "1000Ki");
    check("0.5Gi", "512Mi");
    check("0.5Ki", "512");
    check("1.5Ki", "1536");
    check("1.1Ki", "1126400m");
    check("0.1Ki", "102400m");
    check("1Pi", "1Pi");
    check("7Ei", "7Ei");
    check("8Ei", "9223372036854775807");
    check("-8Ei", "-9223372036854775807");
    check("0Ki", "0");
    check("-1Gi", "-1Gi");
}

#[test]
fn quantities_with_an_exponent_are_printed_with_an_exponent() {
    check("1e3", "1e3");
    check("1000e3", "1e6");
    check("1e1", "10");
    check("1.5e3", "1500");
    check("12E-3", "12E-3");
    check("1e-10", "1e-9");
    check("0e5", "0");
    check("1e100", "10e99");
    check("1e99", "1e99");
}

#[test]
fn quantities_that_upstream_considers_canonical_are_printed_as_written() {
    check("1.500", "1.500");
    check("1.", "1.");
    check("1.234k", "1.234k");
    check("+5", "+5");
    check("0100m", "0100m");
    check("01Gi", "01Gi");
    check("1.000", "1");
}

#[test]
fn unusual_spellings_of_zero_are_zero() {
    check(".", "0");
    check("+", "0");
    check("-0", "0");
    check("m", "0");
}

#[test]
fn huge_numbers_neither_overflow_nor_lose_their_size() {
    check("1000E", "1e21");
    check(&"9".repeat(40), "10e39");
    check("1e9999999999999", "10e999999999");
    assert!(quantity("1e99999") > quantity(&"9".repeat(38)));
    assert!(quantity("-1e99999") < quantity("1n"));
    assert_eq!(quantity("1e30").value(), i64::MAX);
    assert_eq!(quantity("-1e30").value(), i64::MIN);
    assert_eq!(quantity("1e27").add(&quantity("1n")).sub(&quantity("1e27")), quantity("1n"));
}

#[test]
fn invalid_quantities_are_refused_in_the_words_of_upstream() {
    let format = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    let suffix = "unable to parse quantity's suffix";
    check("", format);
    check("lots", format);
    check("1 Gi", format);
    check("1..2", format);
    check("1-a", format);
    check("1e", suffix);
    check("1kk", suffix);
    check("--1", suffix);
    check("1mi", suffix);
    check("1ee3", suffix);
}

#[test]
fn huge_exponents_are_clamped() {
    check("1e999999999", "1e999999999");
    check("1e1000000001", "10e999999999");
    let long = format!("{}e77777777777", "37".repeat(30));
    let printed = canonical(&long).unwrap();
    check(&printed, &printed);
}

#[test]
fn quantities_are_compared_by_amount() {
    assert_eq!(quantity("1Gi"), quantity("1024Mi"));
    assert_eq!(quantity("1"), quantity("1000m"));
    assert!(quantity("1G") < quantity("1Gi"));
    assert!(quantity("-2") < quantity("-1500m"));
    assert!(quantity("0") < quantity("1n"));
    assert!(quantity("123456789") > quantity("123456788.9"));
}

#[test]
fn sums_keep_the_suffixes_of_the_first() {
    assert_eq!(quantity("1Gi").add(&quantity("1M")).to_string(), "1074741824");
    assert_eq!(quantity("512Mi").add(&quantity("512Mi")).to_string(), "1Gi");
    assert_eq!(Quantity::zero().add(&quantity("2Ki")).to_string(), "2Ki");
    assert_eq!(quantity("1").sub(&quantity("1500m")).to_string(), "-500m");
    assert!(quantity("1").sub(&quantity("1000m")).is_zero());
}

#[test]
fn integers_round_away_from_zero() {
    assert_eq!(quantity("1500m").value(), 2);
    assert_eq!(quantity("-1500m").value(), -2);
    assert_eq!(quantity("1n").milli_value(), 1);
    assert_eq!(quantity("2").milli_value(), 2000);
}

proptest! {
    #![proptest_config(crate::seeded::config())]

    #[test]
    fn nothing_panics(text in ".*", other in "[-+]?[0-9.]{0,60}[eEinumkKMGTP]{0,2}[-+]?[0-9]{0,25}") {
        for text in [text, other] {
            if let Ok(quantity) = Quantity::parse(&text) {
                let _ = (quantity.to_string(), quantity.value(), quantity.add(&quantity));
            }
        }
    }

    #[test]
    fn a_printed_quantity_parses_to_an_equal_one(text in "-?[0-9]{1,12}(\\.[0-9]{1,9})?([numkMGTPE]|[KMGTPE]i|e-?[0-9]{1,2})?") {
        let quantity = Quantity::parse(&text).unwrap();
        let printed = quantity.to_string();
        prop_assert_eq!(&Quantity::parse(&printed).unwrap(), &quantity);
        prop_assert_eq!(canonical(&printed).unwrap(), printed);
    }

    #[test]
    fn sums_and_order_agree_with_integers(a in -1_000_000_000_000i64..1_000_000_000_000, b in -1_000_000_000_000i64..1_000_000_000_000) {
        let of = |nanos: i64| Quantity::parse(&format!("{nanos}n")).unwrap();
        prop_assert_eq!(of(a).add(&of(b)), of(a + b));
        prop_assert_eq!(of(a).sub(&of(b)), of(a - b));
        prop_assert_eq!(of(a).cmp(&of(b)), a.cmp(&b));
    }
}
