//! Tests of the formats with valid and invalid values.

use super::*;

/// Checks that all of `valid` and none of `invalid` have the format.
fn check(name: &str, valid: &[&str], invalid: &[&str]) {
    let format = Format::of(name, Type::String).unwrap();
    for text in valid {
        assert!(format.accepts(text), "{text:?} is a {name}");
    }
    for text in invalid {
        assert!(!format.accepts(text), "{text:?} is not a {name}");
    }
}

#[test]
fn dates_times_and_durations_are_validated() {
    check("date", &["2024-02-29"], &["2023-02-29", "2024-2-9", "x", "2024-02-29Z"]);
    check(
        "date-time",
        &["2014-12-15T19:30:20Z", "2014-12-15t19:30:20.000+01:00"],
        &["2014-12-15", "2014-12-15T19:30:20", "2014-12-15T24:00:00Z", "x"],
    );
    check(
        "duration",
        &["1h30m", "0", "-1.5s", "3 weeks", "22 ns", "1 day"],
        &["", "x", "1", "1 parsec"],
    );
}

#[test]
fn addresses_are_validated_as_by_go() {
    check("ipv4", &["1.2.3.4", "010.0.0.1", "::ffff:1.2.3.4"], &["1.2.3", "256.1.1.1", "::1", "x"]);
    check("ipv6", &["::1", "fe80::1"], &["1.2.3.4", "x"]);
    check("cidr", &["10.0.0.0/8", "::/0"], &["10.0.0.0", "10.0.0.0/33", "x"]);
    check("mac", &["01:23:45:67:89:ab", "0123.4567.89ab"], &["01:23:45", "x"]);
    check("email", &["a@b", "Bob <bob@example.com>"], &["x", "a@", "a b@c", "a..b@c"]);
    check("hostname", &["a", "a-b", "my-host.example.com"], &["my-host", "a.b1", "-a", ""]);
    check(
        "uri",
        &["https://a.b/c?d", "/path", "urn:x", "http://[::1]:80/", "http://h\"x/"],
        &["x", "", ":x", "http://a:b/", "/%zz", "http://a b/", "http://h#f", "http://[zz]/"],
    );
}

#[test]
fn identifiers_and_their_check_digits_are_validated() {
    check("uuid", &["123e4567-E89B-12d3-a456-426614174000"], &["x", "123e4567"]);
    check(
        "uuid4",
        &["123e4567-e89b-42d3-a456-426614174000"],
        &["123e4567-e89b-12d3-a456-426614174000"],
    );
    check("isbn", &["0321751043", "978-0321751041"], &["0321751044"]);
    check("creditcard", &["4012 8888 8888 1881"], &["4012888888881882", ""]);
    check("ssn", &["123-45-6789"], &["123456789", "x"]);
    check("bsonobjectid", &["507f1f77bcf86cd799439011"], &["507f1f77"]);
}

#[test]
fn base64_colors_names_and_passwords_are_validated() {
    check("byte", &["YQ==", "YWI=", "YWJj"], &["*", "", "YQ", "Y==="]);
    check("hexcolor", &["#fff", "FFFFFF"], &["#ffff", "x"]);
    check("rgbcolor", &["rgb(255, 0,12)"], &["rgb(256,0,0)", "x"]);
    check("k8s-short-name", &["a-b"], &["a.b", "A"]);
    check("password", &["", "x"], &[]);
}

#[test]
fn a_format_that_is_unknown_for_a_type_is_ignored() {
    assert_eq!(Format::of("nonsense", Type::String), None);
    assert_eq!(Format::of("int32", Type::String), None);
    assert_eq!(Format::of("int32", Type::Integer), Some(Format::Int32));
    assert_eq!(Format::of("datetime", Type::Any).map(Format::name), Some("date-time"));
}

#[test]
fn an_absolute_uri_has_a_scheme_and_a_host() {
    assert!(is_absolute_uri("https://github.com/kubernetes/kubernetes/pull/1"));
    assert!(!is_absolute_uri("/kubernetes") && !is_absolute_uri("https:///x"));
}
