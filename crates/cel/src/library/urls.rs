//! `url(x)` and the parts of a URL, read as Go reads the target of a request.

use std::any::Any;

use super::{Library, Outcome, Plain, no_such_overload};
use crate::{
    error::EvalError,
    value::{Map, Opaque, Value},
};

const NAME: &str = "kubernetes.URL";

/// A URL in its parts.
#[derive(Debug, PartialEq, Eq)]
struct Url {
    scheme: String,
    host: String,
    path: String,
    query: String,
    text: String,
}

impl Opaque for Url {
    fn type_name(&self) -> &'static str {
        NAME
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        other.as_any().downcast_ref::<Self>().is_some_and(|other| self == other)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

pub(super) fn declare(library: &mut Library) {
    library.add_type(NAME);
    library.add("url", "string_to_url", "(string) -> kubernetes.URL", |args| {
        let text = args[0].as_str().ok_or_else(EvalError::no_such_overload)?;
        match parse(text) {
            Ok(url) => Ok(Value::opaque(url)),
            Err(error) => {
                Err(format!("URL parse error during conversion from string: {error}").into())
            }
        }
    });
    library.add("isURL", "is_url_string", "(string) -> bool", |args| match args {
        [Value::String(text)] => Ok(Value::Bool(parse(text).is_ok())),
        _ => no_such_overload(),
    });
    let parts: [(&'static str, &str, Plain); 5] = [
        ("getScheme", "url_get_scheme", |args| part(args, |url| url.scheme.clone())),
        ("getHost", "url_get_host", |args| part(args, |url| url.host.clone())),
        ("getHostname", "url_get_hostname", |args| {
            part(args, |url| split_port(&url.host).0.to_owned())
        }),
        ("getPort", "url_get_port", |args| part(args, |url| split_port(&url.host).1.to_owned())),
        ("getEscapedPath", "url_get_escaped_path", |args| part(args, |url| escaped(&url.path))),
    ];
    for (function, id, run) in parts {
        library.add(function, id, "kubernetes.URL.() -> string", run);
    }
    let declared = "kubernetes.URL.() -> map(string, list(string))";
    library.add("getQuery", "url_get_query", declared, |args| match args[0].downcast::<Url>() {
        Some(url) => Ok(Value::Map(query(&url.query))),
        None => no_such_overload(),
    });
}

fn part<'a>(args: &mut [Value<'a>], pick: fn(&Url) -> String) -> Outcome<'a> {
    match args[0].downcast::<Url>() {
        Some(url) => Ok(Value::string(pick(url))),
        None => no_such_overload(),
    }
}

/// Why `text` is no URI for a request, in Go's words; shared with the format `uri`.
pub(super) fn fault(text: &str) -> Option<String> {
    parse(text).err()
}

fn parse(text: &str) -> Result<Url, String> {
    parts(text).map_err(|reason| format!("parse {text:?}: {reason}"))
}

fn parts(text: &str) -> Result<Url, String> {
    if text.is_empty() {
        return Err("empty url".to_owned());
    }
    if text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    let (scheme, rest) = scheme(text)?;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    // A request has no fragment, and so the text is judged as a whole; its parts have none either.
    let parted = |part: &'_ str| part.split('#').next().unwrap_or_default().to_owned();
    let query = if rest.contains('#') { String::new() } else { parted(query) };
    let whole = |host: &str, path: &str| Url {
        scheme: scheme.to_ascii_lowercase(),
        host: host.to_owned(),
        path: parted(path),
        query: query.clone(),
        text: text.to_owned(),
    };
    if !rest.starts_with('/') {
        return match scheme {
            "" if rest == "*" => Ok(whole("", "*")),
            "" => Err("invalid URI for request".to_owned()),
            // Everything behind the scheme is opaque: it has neither host nor path.
            _ => Ok(whole("", "")),
        };
    }
    let (authority, path) = match rest.strip_prefix("//") {
        Some(behind) if !scheme.is_empty() => {
            let slash = behind.find('/').unwrap_or(behind.len());
            behind.split_at(slash)
        }
        _ => ("", rest),
    };
    check_escapes(path)?;
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    check_host(host)?;
    Ok(whole(host, path))
}

fn scheme(text: &str) -> Result<(&str, &str), String> {
    for (index, character) in text.char_indices() {
        match character {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if index > 0 => {}
            ':' if index == 0 => return Err("missing protocol scheme".to_owned()),
            ':' => return Ok((&text[..index], &text[index + 1..])),
            _ => break,
        }
    }
    match text.find(':') {
        Some(colon)
            if !text[..colon].contains('/') && text.starts_with(|it: char| it.is_ascii_digit()) =>
        {
            Err("first path segment in URL cannot contain colon".to_owned())
        }
        _ => Ok(("", text)),
    }
}

fn check_host(host: &str) -> Result<(), String> {
    if host.starts_with('[') {
        let Some(end) = host.rfind(']') else {
            return Err("missing ']' in host".to_owned());
        };
        return check_port(&host[end + 1..]);
    }
    if let Some(wrong) = host
        .chars()
        .find(|it| matches!(it, ' ' | '"' | '<' | '>' | '^' | '`' | '{' | '|' | '}' | '\\'))
    {
        return Err(format!("invalid character {:?} in host name", wrong.to_string()));
    }
    check_escapes(host)?;
    host.rfind(':').map_or(Ok(()), |colon| check_port(&host[colon..]))
}

fn check_port(port: &str) -> Result<(), String> {
    let digits = port.strip_prefix(':').unwrap_or(port);
    if port.is_empty() || port.starts_with(':') && digits.bytes().all(|byte| byte.is_ascii_digit())
    {
        return Ok(());
    }
    Err(format!("invalid port {port:?} after host"))
}

fn check_escapes(text: &str) -> Result<(), String> {
    let bytes = text.as_bytes();
    for (index, _) in text.match_indices('%') {
        let valid = bytes.len() > index + 2
            && bytes[index + 1].is_ascii_hexdigit()
            && bytes[index + 2].is_ascii_hexdigit();
        if !valid {
            let end = (index + 3).min(text.len());
            let shown = text.get(index..end).unwrap_or("%");
            return Err(format!("invalid URL escape {shown:?}"));
        }
    }
    Ok(())
}

fn split_port(host: &str) -> (&str, &str) {
    let bare = |host: &'_ str| host.len() >= 2 && host.starts_with('[') && host.ends_with(']');
    let (name, port) = match host.rfind(':') {
        Some(colon) if !host[colon..].contains(']') => (&host[..colon], &host[colon + 1..]),
        _ => (host, ""),
    };
    if bare(name) { (&name[1..name.len() - 1], port) } else { (name, port) }
}

/// The path with everything escaped that must be.
fn escaped(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        let plain = byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@%!'()*[]".contains(&byte);
        if plain {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

fn query<'a>(text: &str) -> Map<'a> {
    let mut lists: Vec<(String, Vec<Value<'a>>)> = Vec::new();
    for pair in text.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (Some(key), Some(value)) = (unescaped(key), unescaped(value)) else {
            continue;
        };
        match lists.iter_mut().find(|(own, _)| *own == key) {
            Some((_, values)) => values.push(Value::string(value)),
            None => lists.push((key, vec![Value::string(value)])),
        }
    }
    Map::of_strings(lists.into_iter().map(|(key, values)| (key, Value::list(values))))
}

fn unescaped(text: &str) -> Option<String> {
    check_escapes(text).ok()?;
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'%' => {
                out.push(u8::from_str_radix(text.get(at + 1..at + 3)?, 16).ok()?);
                at += 2;
            }
            b'+' => out.push(b' '),
            byte => out.push(byte),
        }
        at += 1;
    }
    Some(String::from_utf8_lossy(&out).into_owned())
}
