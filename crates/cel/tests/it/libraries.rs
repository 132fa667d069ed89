//! Tests of Kubernetes' libraries: addresses, URLs, quantities, versions, formats, authorization.

use std::sync::Arc;

use crate::{check_all, show};
use cel::library::authorizer::{Authorizer, Check, Decision, authorizer, authorizer_type};
use cel::{Bindings, Budget, DeclType, Env, Library};

#[test]
fn addresses_are_parsed_and_classified() {
    check_all(&[
        ("isIP('192.168.0.1')", "true"),
        ("isIP('192.168.0.256')", "false"),
        ("isIP('::ffff:1.2.3.4')", "false"),
        ("isIP('fe80::1%eth0')", "false"),
        ("ip('127.0.0.1').isLoopback()", "true"),
        ("ip('::1').family()", "6"),
        ("ip('224.0.0.1').isLinkLocalMulticast()", "true"),
        ("ip('169.254.1.1').isLinkLocalUnicast()", "true"),
        ("ip('8.8.8.8').isGlobalUnicast()", "true"),
        ("ip('0.0.0.0').isUnspecified()", "true"),
        ("ip('::1') == ip('0:0:0:0:0:0:0:1')", "true"),
        ("string(ip('2001:DB8::1'))", "\"2001:db8::1\""),
        ("ip.isCanonical('2001:db8::1')", "true"),
        ("ip.isCanonical('2001:DB8::1')", "false"),
        ("type(ip('::1')) == net.IP", "true"),
        (
            "ip('nonsense')",
            "error: IP Address \"nonsense\" parse error during conversion from string: \
             ParseAddr(\"nonsense\"): unable to parse IP",
        ),
    ]);
}

#[test]
fn networks_contain_addresses_and_networks() {
    check_all(&[
        ("cidr('192.168.0.0/24').containsIP('192.168.0.7')", "true"),
        ("cidr('192.168.0.0/24').containsIP(ip('192.168.1.7'))", "false"),
        ("cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')", "true"),
        ("cidr('10.0.0.0/8').containsCIDR(cidr('0.0.0.0/0'))", "false"),
        ("cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8')", "true"),
        ("cidr('10.1.2.3/8').ip() == ip('10.1.2.3')", "true"),
        ("cidr('::/0').prefixLength()", "0"),
        ("string(cidr('10.0.0.0/8'))", "\"10.0.0.0/8\""),
        ("isCIDR('10.0.0.0/33')", "false"),
        (
            "cidr('nonsense')",
            "error: network address parse error during conversion from string: network address \
             parse error during conversion from string: netip.ParsePrefix(\"nonsense\"): no '/'",
        ),
    ]);
}

#[test]
fn accessors_return_the_parts_of_a_url() {
    check_all(&[
        ("url('https://user@example.com:8080/a%20b?x=1&x=2&y=').getHost()", "\"example.com:8080\""),
        ("url('https://example.com:8080/').getHostname()", "\"example.com\""),
        ("url('https://[::1]:80/').getHostname()", "\"::1\""),
        ("url('https://example.com:8080/').getPort()", "\"8080\""),
        ("url('HTTPS://example.com/').getScheme()", "\"https\""),
        ("url('https://example.com/a b').getEscapedPath()", "\"/a%20b\""),
        ("url('https://example.com/a?x=1#part').getQuery() == {'x': ['1']}", "true"),
        ("url('https://example.com/a#b?c').getEscapedPath()", "\"/a\""),
        (
            "url('https://example.com/?x=1&x=a+b&y').getQuery()",
            "{\"x\":[\"1\",\"a b\"],\"y\":[\"\"]}",
        ),
        ("url('/path').getEscapedPath()", "\"/path\""),
        ("isURL('https://example.com')", "true"),
        ("isURL('example.com')", "false"),
        (
            "url('not a url')",
            "error: URL parse error during conversion from string: parse \"not a url\": invalid URI \
             for request",
        ),
    ]);
}

#[test]
fn urls_that_go_refuses_are_refused() {
    for refused in [
        "http://h#f",
        "http://[zz]/",
        "http://::1/",
        "http://a:80:90/",
        "http://h%20x/",
        "#%blah$#@",
    ] {
        check_all(&[(&format!("isURL('{refused}')"), "false")]);
    }
    check_all(&[
        ("isURL('http://h\"x/')", "true"),
        (
            "url('http://[zz]/')",
            "error: URL parse error during conversion from string: parse \"http://[zz]/\": invalid \
             host: ParseAddr(\"zz\"): unable to parse IP",
        ),
    ]);
}

#[test]
fn urls_without_scheme_and_with_zones_are_parsed_as_in_go() {
    check_all(&[
        ("url('//h/p').getHost()", "\"h\""),
        ("url('//h/p').getEscapedPath()", "\"/p\""),
        ("url('http://[fe80::1%25eth0]:80/').getHost()", "\"[fe80::1%eth0]:80\""),
        ("url('http://[fe80::1%25eth0]:80/').getHostname()", "\"fe80::1%eth0\""),
        ("url('http://[fe80::1%25eth0]:80/').getPort()", "\"80\""),
        ("url('http://h/%2f?').getEscapedPath()", "\"/%2f\""),
        ("url('HTTP://h/') == url('http://h/')", "true"),
    ]);
}

#[test]
fn quantities_are_compared_and_added() {
    check_all(&[
        ("quantity('1Gi').isGreaterThan(quantity('500Mi'))", "true"),
        ("quantity('1.5').compareTo(quantity('1500m'))", "0"),
        ("quantity('1').isLessThan(quantity('2'))", "true"),
        ("quantity('100k') == quantity('100000')", "true"),
        ("quantity('1').add(quantity('500m')).asApproximateFloat()", "double 1.5"),
        ("quantity('10').sub(3).asInteger()", "7"),
        ("quantity('1.5').isInteger()", "false"),
        ("quantity('1.5').asInteger()", "error: cannot convert value to integer"),
        ("sign(quantity('-5'))", "-1"),
        ("isQuantity('lots')", "false"),
        ("isQuantity('1Ki')", "true"),
        (
            "quantity('x')",
            "error: quantities must match the regular expression \
             '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
    ]);
}

#[test]
fn versions_are_parsed_and_compared() {
    check_all(&[
        ("semver('1.2.3').isGreaterThan(semver('1.2.3-rc.1'))", "true"),
        ("semver('1.2.3-alpha.2').isLessThan(semver('1.2.3-alpha.10'))", "true"),
        ("semver('1.2.3').compareTo(semver('1.3.0'))", "-1"),
        ("semver('1.2.3').minor()", "2"),
        ("isSemver('v1.2.3')", "false"),
        ("isSemver('v1.2', true)", "true"),
        ("semver('v01.2', true) == semver('1.2.0')", "true"),
        ("semver('1.2')", "error: No Major.Minor.Patch elements found"),
    ]);
}

#[test]
fn formats_return_their_errors() {
    check_all(&[
        ("format.dns1123Label().validate('ok').hasValue()", "false"),
        ("format.dns1123Label().validate('Not Ok').value().size()", "1"),
        (
            "format.named('uuid').value().validate('x').value()[0]",
            "\"does not match the UUID format\"",
        ),
        ("format.named('nothing').hasValue()", "false"),
        ("!format.qualifiedName().validate('example.com/name').hasValue()", "true"),
        ("!format.dns1123LabelPrefix().validate('my-').hasValue()", "true"),
        ("!format.dns1123LabelPrefix().validate('A-').hasValue()", "true"),
        ("format.date().validate('2024-02-30').hasValue()", "true"),
        ("format.labelValue() == format.labelValue()", "true"),
    ]);
}

#[test]
fn the_math_extension_computes() {
    check_all(&[
        ("math.greatest(1, 3, 2)", "3"),
        ("math.greatest(1, 2.5)", "double 2.5"),
        ("math.least([3, 1, 2])", "1"),
        ("math.least(5)", "5"),
        ("math.abs(-3)", "3"),
        ("math.ceil(1.2)", "double 2"),
        ("math.round(-1.5)", "double -2"),
        ("math.sign(-5.5)", "double -1"),
        ("math.isNaN(0.0 / 0.0)", "true"),
        ("math.bitAnd(6, 3)", "2"),
        ("math.bitNot(0)", "-1"),
        ("math.bitShiftLeft(1, 4)", "16"),
        ("math.bitShiftLeft(1, 64)", "0"),
        ("math.bitShiftRight(1, -1)", "error: math.bitShiftRight() negative offset: -1"),
    ]);
}

#[derive(Debug)]
struct OnlyReaders;

impl Authorizer for OnlyReaders {
    fn authorize(&self, check: &Check) -> Decision {
        let account = check.service_account.as_ref().map_or("", |(_, name)| name);
        let reason = format!("{}/{} {account}", check.group, check.resource);
        Decision { allowed: check.verb == "get", reason, error: None }
    }
}

#[test]
fn the_authorizer_gets_all_attributes() {
    let decl = DeclType::value(authorizer_type());
    let env = Env::new(Library::kubernetes()).variable("authorizer", decl);
    let check = |source: &str, expected: &str| {
        let program = env.compile(source).unwrap();
        let authorizer = authorizer(Arc::new(OnlyReaders));
        let bound = Bindings::new().value("authorizer", authorizer);
        let value = program.evaluate(&bound, &mut Budget::new(1_000_000)).unwrap();
        assert_eq!(show(&value), expected, "{source}");
    };
    check("authorizer.path('/healthz').check('get').allowed()", "true");
    check(
        "authorizer.group('apps').resource('pods').namespace('x').check('update').allowed()",
        "false",
    );
    check(
        "authorizer.serviceAccount('n', 'robot').group('apps').resource('pods').check('get').reason()",
        "\"apps/pods robot\"",
    );
}

#[test]
fn escape_key_is_only_available_for_patches() {
    let source = "jsonpatch.escapeKey('a/b~c')";
    let env = Env::new(Library::kubernetes_patches());
    let program = env.compile(source).unwrap();
    let value = program.evaluate(&Bindings::new(), &mut Budget::new(100)).unwrap();
    assert_eq!(show(&value), "\"a~1b~0c\"");
    assert!(Env::new(Library::kubernetes()).compile(source).is_err());
}
