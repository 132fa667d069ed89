//! Kubernetes' URL library: `url(x)`, `isURL(x)` and accessors.

use std::any::Any;

use super::{EvalResult, Library, Plain, no_such_overload};
use crate::error::EvalError;
use crate::go_url::Url;
use crate::value::{Map, Opaque, Value};

const NAME: &str = "kubernetes.URL";

impl Opaque for Url {
    fn type_name(&self) -> &'static str {
        NAME
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        other.as_any().downcast_ref::<Self>().is_some_and(|it| self.text() == it.text())
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
        [Value::String(text)] => Ok(Value::Bool(request_uri_error(text).is_none())),
        _ => no_such_overload(),
    });
    let parts: [(&'static str, &str, Plain); 5] = [
        ("getScheme", "url_get_scheme", |args| url_part(args, |url| url.scheme.clone())),
        ("getHost", "url_get_host", |args| url_part(args, |url| url.host().into_owned())),
        ("getHostname", "url_get_hostname", |args| {
            url_part(args, |url| url.hostname().into_owned())
        }),
        ("getPort", "url_get_port", |args| url_part(args, |url| url.port().into_owned())),
        ("getEscapedPath", "url_get_escaped_path", |args| url_part(args, Url::escaped_path)),
    ];
    for (function, id, run) in parts {
        library.add(function, id, "kubernetes.URL.() -> string", run);
    }
    let declared = "kubernetes.URL.() -> map(string, list(string))";
    library.add("getQuery", "url_get_query", declared, |args| match args[0].downcast::<Url>() {
        Some(url) => Ok(Value::Map(query(url))),
        None => no_such_overload(),
    });
}

fn url_part<'a>(args: &mut [Value<'a>], pick: fn(&Url) -> String) -> EvalResult<'a> {
    match args[0].downcast::<Url>() {
        Some(url) => Ok(Value::string(pick(url))),
        None => no_such_overload(),
    }
}

/// Go's error if `text` is not a valid request URI; also used by the format `uri`.
pub(super) fn request_uri_error(text: &str) -> Option<String> {
    Url::parse_request_uri(text).err()
}

/// A URL must be a valid request URI, but is then parsed as a reference, which may have a fragment
/// and in which `//host/path` is a host and a path.
// Upstream: apiserver/pkg/cel/library/urls.go stringToUrl
fn parse(text: &str) -> Result<Url, String> {
    Url::parse_request_uri(text)?;
    Url::parse(text)
}

fn query<'a>(url: &Url) -> Map<'a> {
    let mut lists: Vec<(String, Vec<Value<'a>>)> = Vec::new();
    for (key, value) in url.query() {
        match lists.iter_mut().find(|(own, _)| *own == key) {
            Some((_, values)) => values.push(Value::string(value)),
            None => lists.push((key, vec![Value::string(value)])),
        }
    }
    Map::of_strings(lists.into_iter().map(|(key, values)| (key, Value::list(values))))
}
