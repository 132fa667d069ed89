//! [`Url`]: parses URLs as Go's `net/url` does, with Go's errors.
//!
//! As in Go, there are two functions. [`Url::parse_request_uri`] parses the target of a request,
//! which is absolute and has no fragment. [`Url::parse`] also accepts relative references and
//! fragments.
//!
//! ```
//! use cel::go_url::Url;
//! let url = Url::parse("https://user@[fe80::1%25eth0]:8443/a%20b?x=1#top").unwrap();
//! assert_eq!((url.hostname(), url.port()), ("fe80::1%eth0".into(), "8443".into()));
//! assert!(Url::parse_request_uri("example.com/a").is_err());
//! ```

mod escape;

use std::borrow::Cow;
use std::net::IpAddr;

use crate::go_netip::parse_addr;
use escape::{Mode, escape, is_encoded, unescape};
use strconv::quote;

/// A query with more parameters than this counts as empty.
const MAX_PARAMETERS: usize = 10_000;

/// See the [module documentation](self).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Url {
    /// In lower case; empty if there is none.
    pub scheme: String,
    /// The text between scheme and query if no slash follows the scheme.
    opaque: String,
    user: Option<User>,
    /// Unescaped, with the port; not necessarily UTF-8.
    host: Vec<u8>,
    /// Escaped, as in the text.
    path: String,
    /// Escaped, as in the text.
    query: String,
    /// Whether the query is a question mark without text.
    has_empty_query: bool,
    /// Whether there is no `//` between the scheme and the path.
    omits_host: bool,
    /// Escaped, as in the text.
    fragment: String,
}

/// A name and a password, unescaped.
#[derive(Debug, Clone, PartialEq, Eq)]
struct User {
    name: Vec<u8>,
    password: Option<Vec<u8>>,
}

/// The kind of URL that is parsed.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Reading {
    Request,
    Reference,
}

impl Url {
    /// Parses the target of a request, as `url.ParseRequestURI` does. The error is Go's.
    pub fn parse_request_uri(text: &str) -> Result<Self, String> {
        read(text, Reading::Request).map_err(|why| failure(text, &why))
    }

    /// Parses a reference, as `url.Parse` does. The error is Go's.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (before, fragment) = text.split_once('#').unwrap_or((text, ""));
        let mut url = read(before, Reading::Reference).map_err(|why| failure(before, &why))?;
        unescape(fragment.as_bytes(), Mode::Fragment).map_err(|why| failure(text, &why))?;
        fragment.clone_into(&mut url.fragment);
        Ok(url)
    }

    /// The host name and the port.
    pub fn host(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.host)
    }

    /// The host without port, and without the brackets around an address.
    pub fn hostname(&self) -> Cow<'_, str> {
        let (name, _) = self.split_host();
        let inner = name.strip_prefix(b"[").and_then(|it| it.strip_suffix(b"]"));
        String::from_utf8_lossy(inner.unwrap_or(name))
    }

    /// Whether the URL has a user name or a password.
    pub fn has_user(&self) -> bool {
        self.user.is_some()
    }

    /// Whether the URL has a query that is not empty.
    pub fn has_query(&self) -> bool {
        !self.query.is_empty()
    }

    /// Whether the URL has a fragment that is not empty.
    pub fn has_fragment(&self) -> bool {
        !self.fragment.is_empty()
    }

    /// The port; empty if there is none.
    pub fn port(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.split_host().1)
    }

    /// The path in its original form if that is a valid encoding, else escaped again.
    pub fn escaped_path(&self) -> String {
        encoded(&self.path, Mode::Path)
    }

    /// The parameters of the query in order. Those that cannot be decoded are omitted.
    pub fn query(&self) -> impl Iterator<Item = (String, String)> {
        let is_read = self.query.matches('&').count() < MAX_PARAMETERS;
        let pairs = if is_read { self.query.as_str() } else { "" };
        pairs.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')).filter_map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let read = |text: &str| {
                let bytes = unescape(text.as_bytes(), Mode::QueryComponent).ok()?;
                Some(String::from_utf8_lossy(&bytes).into_owned())
            };
            Some((read(key)?, read(value)?))
        })
    }

    /// The URL as Go's `String` formats it. Two URLs are equal in CEL if their texts are.
    pub fn text(&self) -> String {
        let mut text = String::new();
        if !self.scheme.is_empty() {
            text += &self.scheme;
            text.push(':');
        }
        if self.opaque.is_empty() {
            self.write_authority(&mut text);
            text += &self.escaped_path();
        } else {
            text += &self.opaque;
        }
        if self.has_empty_query || !self.query.is_empty() {
            text.push('?');
            text += &self.query;
        }
        if !self.fragment.is_empty() {
            text.push('#');
            text += &encoded(&self.fragment, Mode::Fragment);
        }
        text
    }

    fn write_authority(&self, text: &mut String) {
        let has_authority = !self.host.is_empty() || self.user.is_some();
        if !has_authority && (self.scheme.is_empty() || self.omits_host || self.path.is_empty()) {
            return;
        }
        text.push_str("//");
        if let Some(user) = &self.user {
            text.push_str(&escape(&user.name, Mode::UserPassword));
            if let Some(password) = &user.password {
                text.push(':');
                text.push_str(&escape(password, Mode::UserPassword));
            }
            text.push('@');
        }
        text.push_str(&escape(&self.host, Mode::Host));
    }

    fn split_host(&self) -> (&[u8], &[u8]) {
        match self.host.iter().rposition(|byte| *byte == b':') {
            Some(at) if is_port(&self.host[at..]) => (&self.host[..at], &self.host[at + 1..]),
            _ => (&self.host, b""),
        }
    }
}

fn failure(text: &str, why: &str) -> String {
    format!("parse {}: {why}", quote(text))
}

/// The original text of a path or fragment if it is a valid encoding, else escaped again.
fn encoded(written: &str, mode: Mode) -> String {
    if is_encoded(written.as_bytes(), mode) {
        return written.to_owned();
    }
    escape(&unescape(written.as_bytes(), mode).unwrap_or_default(), mode)
}

fn read(text: &str, reading: Reading) -> Result<Url, String> {
    if text.bytes().any(|byte| byte.is_ascii_control()) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    let mut url = Url::default();
    match text {
        "" if reading == Reading::Request => return Err("empty url".to_owned()),
        "*" => {
            text.clone_into(&mut url.path);
            return Ok(url);
        }
        _ => {}
    }
    let (scheme, rest) = split_scheme(text)?;
    url.scheme = scheme.to_ascii_lowercase();
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    url.has_empty_query = query.is_empty() && text.ends_with('?');
    query.clone_into(&mut url.query);
    if !rest.starts_with('/') {
        if !scheme.is_empty() {
            rest.clone_into(&mut url.opaque);
            return Ok(url);
        }
        if reading == Reading::Request {
            return Err("invalid URI for request".to_owned());
        }
        if rest.split('/').next().is_some_and(|segment| segment.contains(':')) {
            return Err("first path segment in URL cannot contain colon".to_owned());
        }
    }
    let may_have_host =
        !scheme.is_empty() || reading == Reading::Reference && !rest.starts_with("///");
    let mut path = rest;
    if let Some(behind) = rest.strip_prefix("//").filter(|_| may_have_host) {
        let (authority, after) = behind.split_at(behind.find('/').unwrap_or(behind.len()));
        (url.user, url.host) = read_authority(&url.scheme, authority)?;
        path = after;
    } else {
        url.omits_host = !scheme.is_empty();
    }
    unescape(path.as_bytes(), Mode::Path)?;
    path.clone_into(&mut url.path);
    Ok(url)
}

fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if index > 0 => {}
            b':' if index == 0 => return Err("missing protocol scheme".to_owned()),
            b':' => return Ok((&text[..index], &text[index + 1..])),
            _ => break,
        }
    }
    Ok(("", text))
}

fn read_authority(scheme: &str, authority: &str) -> Result<(Option<User>, Vec<u8>), String> {
    let Some((user, host)) = authority.rsplit_once('@') else {
        return Ok((None, read_host(scheme, authority)?));
    };
    // As in Go, errors of the host take precedence.
    let host = read_host(scheme, host)?;
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
    if !user.chars().all(allowed) {
        return Err("net/url: invalid userinfo".to_owned());
    }
    let (name, password) = match user.split_once(':') {
        Some((name, password)) => (name, Some(password)),
        None => (user, None),
    };
    let name = unescape(name.as_bytes(), Mode::UserPassword)?;
    let password = password.map(|it| unescape(it.as_bytes(), Mode::UserPassword)).transpose()?;
    Ok((Some(User { name, password }), host))
}

fn read_host(scheme: &str, host: &str) -> Result<Vec<u8>, String> {
    match host.rfind('[') {
        Some(0) => return read_literal(host),
        Some(_) => return Err("invalid IP-literal".to_owned()),
        None => {}
    }
    // As in Go, other schemes may have a list of hosts with ports, which databases use.
    let is_web = scheme == "http" || scheme == "https";
    let colon = if is_web { host.find(':') } else { host.rfind(':') };
    if let Some(colon) = colon {
        check_port(&host[colon..])?;
    }
    unescape(host.as_bytes(), Mode::Host)
}

/// An IPv6 address in brackets, which may have a zone and a port.
fn read_literal(host: &str) -> Result<Vec<u8>, String> {
    let Some(end) = host.rfind(']') else { return Err("missing ']' in host".to_owned()) };
    let (name, port) = (&host[1..end], &host[end + 1..]);
    check_port(port)?;
    let zone = name.find("%25").unwrap_or(name.len());
    let mut address = unescape(&name.as_bytes()[..zone], Mode::Host)?;
    address.extend(unescape(&name.as_bytes()[zone..], Mode::Zone)?);
    match parse_addr(&address).map_err(|why| format!("invalid host: {why}"))?.ip {
        IpAddr::V4(_) => Err("invalid IP-literal".to_owned()),
        IpAddr::V6(_) => Ok([b"[", address.as_slice(), b"]", port.as_bytes()].concat()),
    }
}

fn check_port(port: &str) -> Result<(), String> {
    if is_port(port.as_bytes()) {
        return Ok(());
    }
    Err(format!("invalid port {} after host", quote(port)))
}

/// Whether the text is empty, or a colon followed only by digits.
fn is_port(text: &[u8]) -> bool {
    match text {
        [] => true,
        [b':', digits @ ..] => digits.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
