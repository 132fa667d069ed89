//! [`RequestInfo`]: the verb and the resource of a request, parsed from its method, path and query.
//!
//! ```text
//! GET /apis/apps/v1/namespaces/default/deployments/web/status
//!     verb get · group apps · version v1 · namespace default · resource deployments · name web
//!     · subresource status
//! ```

pub(crate) mod options;
mod selectors;
pub(crate) mod warnings;

use std::borrow::Cow;

use http::Method;
use percent_encoding::percent_decode_str;

pub use selectors::Selectors;

/// The API verb of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are Kubernetes' own")]
pub enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
    /// An HTTP method without an API verb.
    Other,
}

impl Verb {
    /// The spelling of the verb in RBAC rules and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
            Self::Other => "",
        }
    }

    /// Parses the spelling of [`Verb::as_str`]; [`Verb::Other`] for an unknown verb.
    pub fn parse(text: &str) -> Self {
        let all = [
            Self::Get,
            Self::List,
            Self::Watch,
            Self::Create,
            Self::Update,
            Self::Patch,
            Self::Delete,
            Self::DeleteCollection,
        ];
        all.into_iter().find(|it| it.as_str() == text).unwrap_or(Self::Other)
    }

    /// Whether the verb changes nothing.
    pub fn is_read_only(self) -> bool {
        matches!(self, Self::Get | Self::List | Self::Watch)
    }
}

/// See the [module documentation](self).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestInfo {
    /// The verb, derived from the method, the path and the `watch` parameter.
    pub verb: Verb,
    /// The HTTP method in lower case, which is the verb of a request that is not for a resource.
    pub method: Cow<'static, str>,
    /// The percent-decoded path.
    pub path: String,
    /// Set for paths of the API: `/api/v1/…`, `/apis/<group>/<version>/…`.
    pub resource: Option<ResourcePath>,
    /// The selectors of a list, a watch or the deletion of a collection. Upstream: a watch by the
    /// deprecated `/watch/` prefix has none.
    pub selectors: Option<Box<Selectors>>,
}

/// The parts of an API path.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResourcePath {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version of the group, such as `v1`.
    pub version: String,
    /// The namespace; empty for cluster-scoped resources and for lists across all namespaces.
    pub namespace: String,
    /// The plural name of the resource; empty if the path ends at the version.
    pub resource: String,
    /// The name of the object; empty for collections.
    pub name: String,
    /// The subresource, such as `status`, or "".
    pub subresource: String,
    /// The part of the path after the subresource, such as the path after `…/proxy/`.
    pub subpath: String,
}

impl ResourcePath {
    /// Whether the path names a Namespace. Such a path has a namespace, although the resource is
    /// cluster-scoped.
    pub fn is_namespace(&self) -> bool {
        self.group.is_empty() && self.resource == "namespaces"
    }
}

impl RequestInfo {
    /// Parses `method`, `path` and `query`; `None` if the percent-encoding of the path is invalid.
    pub fn parse(method: &Method, path: &str, query: &Query) -> Option<Self> {
        // The path is decoded before it is split, as in Go: an encoded slash separates segments,
        // and no name contains a slash.
        if !is_well_escaped(path) {
            return None;
        }
        let path = percent_decode_str(path).decode_utf8_lossy();
        let mut segments: Vec<&str> = path.split('/').skip(1).collect();
        while segments.pop_if(|it| it.is_empty()).is_some() {}
        // A path with an empty segment is not the path of a resource.
        if segments.contains(&"") {
            segments.clear();
        }
        let (group, version, mut rest) = match segments.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => {
                let is_collection = false;
                let verb = verb_of(method, is_collection);
                let method = lower_case(method);
                let path = path.into_owned();
                return Some(Self { verb, method, path, resource: None, selectors: None });
            }
        };
        // Upstream: the deprecated `/watch/` prefix is a verb, whatever the method.
        let mut is_watch_path = false;
        if let ["watch", after @ ..] = rest
            && !after.is_empty()
        {
            is_watch_path = true;
            rest = after;
        }
        let mut resource_path = ResourcePath {
            group: group.to_owned(),
            version: version.to_owned(),
            ..ResourcePath::default()
        };
        rest = match rest {
            ["namespaces", namespace, "status" | "finalize", ..] | ["namespaces", namespace] => {
                (*namespace).clone_into(&mut resource_path.namespace);
                rest
            }
            ["namespaces", namespace, after @ ..] => {
                (*namespace).clone_into(&mut resource_path.namespace);
                after
            }
            rest => rest,
        };
        if let [resource, after @ ..] = rest {
            (*resource).clone_into(&mut resource_path.resource);
            if let [name, after @ ..] = after {
                (*name).clone_into(&mut resource_path.name);
                if let [subresource, after @ ..] = after {
                    (*subresource).clone_into(&mut resource_path.subresource);
                    resource_path.subpath = after.join("/");
                }
            }
        }
        // A watch of one object by its name is a watch of a list with one element, and needs the
        // `/watch/` prefix: the `watch` parameter has no effect on a request for one object.
        let is_collection = resource_path.name.is_empty();
        let verb = match verb_of(method, is_collection) {
            _ if is_watch_path => Verb::Watch,
            Verb::List if query.flag("watch") => Verb::Watch,
            verb => verb,
        };
        let method = lower_case(method);
        let is_selecting = matches!(verb, Verb::List | Verb::Watch | Verb::DeleteCollection);
        let selectors = if is_selecting && !is_watch_path { Selectors::of(query) } else { None };
        let (path, resource) = (path.into_owned(), Some(resource_path));
        Some(Self { verb, method, path, resource, selectors })
    }

    /// The name of the only object that the request is for: that in its path or, for a list or a
    /// watch, that which its field selector requires.
    pub fn object_name(&self) -> &str {
        let name = self.resource.as_ref().map_or("", |it| &it.name);
        match &self.selectors {
            Some(selectors) if name.is_empty() && self.verb.is_read_only() => {
                selectors.name().unwrap_or_default()
            }
            _ => name,
        }
    }

    /// Whether the request has no deadline: a watch, or a connection to a container.
    pub fn is_long_running(&self) -> bool {
        const SUBRESOURCES: [&str; 5] = ["attach", "exec", "proxy", "log", "portforward"];
        let subresource = self.resource.as_ref().map_or("", |it| it.subresource.as_str());
        self.verb == Verb::Watch || SUBRESOURCES.contains(&subresource)
    }
}

/// Whether each percent sign is followed by two hexadecimal digits.
pub(crate) fn is_well_escaped(text: &str) -> bool {
    text.split('%').skip(1).all(|it| {
        it.get(..2).is_some_and(|byte| byte.bytes().all(|digit| digit.is_ascii_hexdigit()))
    })
}

fn lower_case(method: &Method) -> Cow<'static, str> {
    Cow::Borrowed(match *method {
        Method::GET => "get",
        Method::HEAD => "head",
        Method::POST => "post",
        Method::PUT => "put",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        Method::OPTIONS => "options",
        _ => return Cow::Owned(method.as_str().to_ascii_lowercase()),
    })
}

fn verb_of(method: &Method, is_collection: bool) -> Verb {
    match *method {
        Method::GET | Method::HEAD if is_collection => Verb::List,
        Method::GET | Method::HEAD => Verb::Get,
        Method::POST => Verb::Create,
        Method::PUT => Verb::Update,
        Method::PATCH => Verb::Patch,
        Method::DELETE if is_collection => Verb::DeleteCollection,
        Method::DELETE => Verb::Delete,
        _ => Verb::Other,
    }
}

/// The decoded query parameters of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Parses the part of a URL after the question mark.
    pub fn parse(text: Option<&str>) -> Self {
        // Go omits a pair whose percent-encoding is invalid, and a pair that contains a semicolon,
        // which was a separator in older versions.
        let pairs = text.unwrap_or_default().split('&');
        let pairs = pairs.filter(|it| !it.contains(';') && is_well_escaped(it));
        Self(pairs.flat_map(|it| form_urlencoded::parse(it.as_bytes()).into_owned()).collect())
    }

    /// The size of the parameters on the heap, in bytes.
    pub(crate) fn heap_size(&self) -> usize {
        let texts: usize =
            self.0.iter().map(|(key, value)| key.capacity() + value.capacity()).sum();
        texts + self.0.capacity() * size_of::<(String, String)>()
    }

    /// The first value of a parameter.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(it, _)| it == key).map(|(_, value)| value.as_str())
    }

    /// The first value of a parameter, or "".
    pub fn text(&self, key: &str) -> &str {
        self.get(key).unwrap_or_default()
    }

    /// All values of a parameter.
    pub fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(it, _)| it == key).map(|(_, value)| value.as_str())
    }

    /// The value of a Boolean parameter. A parameter that is present is true, except for the values
    /// `false` and `0`. Upstream: `Convert_Slice_string_To_bool`.
    pub fn flag(&self, key: &str) -> bool {
        self.get(key).is_some_and(|it| !it.eq_ignore_ascii_case("false") && it != "0")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `expect` is "verb group/version namespace|resource|name|subresource|subpath".
    fn check(method: &Method, url: &str, expect: &str) {
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        let info = RequestInfo::parse(method, path, &Query::parse(Some(query))).unwrap();
        let resource_path = info.resource.unwrap();
        let found = format!(
            "{} {}/{} {}|{}|{}|{}|{}",
            info.verb.as_str(),
            resource_path.group,
            resource_path.version,
            resource_path.namespace,
            resource_path.resource,
            resource_path.name,
            resource_path.subresource,
            resource_path.subpath,
        );
        assert_eq!(found, expect, "{url}");
    }

    #[test]
    fn an_api_path_is_split_into_its_parts() {
        check(&Method::GET, "/api/v1/pods", "list /v1 |pods|||");
        check(&Method::GET, "/api/v1/namespaces/a/pods/b", "get /v1 a|pods|b||");
        check(
            &Method::PATCH,
            "/apis/apps/v1/namespaces/a/deployments/b/scale",
            "patch apps/v1 a|deployments|b|scale|",
        );
        check(&Method::DELETE, "/api/v1/nodes", "deletecollection /v1 |nodes|||");
        check(&Method::GET, "/api/v1/pods?watch=1", "watch /v1 |pods|||");
        check(&Method::GET, "/api/v1/pods?watch=false", "list /v1 |pods|||");
        check(&Method::GET, "/api/v1/watch/namespaces/a/pods/b", "watch /v1 a|pods|b||");
        check(&Method::GET, "/api/v1/nodes/n/proxy/a/b", "get /v1 |nodes|n|proxy|a/b");
        check(&Method::GET, "/api/v1/namespaces/a%2Fpods/b%2flog", "get /v1 a|pods|b|log|");
    }

    #[test]
    fn the_path_of_a_namespace_sets_both_namespace_and_name() {
        check(&Method::GET, "/api/v1/namespaces", "list /v1 |namespaces|||");
        check(&Method::GET, "/api/v1/namespaces/a", "get /v1 a|namespaces|a||");
        check(&Method::PUT, "/api/v1/namespaces/a/finalize", "update /v1 a|namespaces|a|finalize|");
    }

    #[test]
    fn other_paths_have_no_resource() {
        let info = RequestInfo::parse(&Method::GET, "/healthz", &Query::default()).unwrap();
        assert_eq!(info.resource, None);
        let found = RequestInfo::parse(&Method::GET, "/api/v1//pods", &Query::default()).unwrap();
        assert_eq!(found.resource, None, "an empty segment");
        assert!(RequestInfo::parse(&Method::GET, "/api/v1/%zz", &Query::default()).is_none());
    }

    #[test]
    fn a_request_for_one_object_ignores_the_watch_parameter() {
        check(&Method::GET, "/api/v1/namespaces/a/pods/b?watch=1", "get /v1 a|pods|b||");
        check(&Method::GET, "/api/v1/watch/namespaces/a/pods/b", "watch /v1 a|pods|b||");
        check(&Method::GET, "/api/v1/namespaces/a/pods//?watch=1", "watch /v1 a|pods|||");
    }

    #[test]
    fn a_list_with_a_selector_of_a_name_is_for_that_object() {
        let name = |method: &Method, url: &str| {
            let (path, query) = url.split_once('?').unwrap_or((url, ""));
            let info = RequestInfo::parse(method, path, &Query::parse(Some(query))).unwrap();
            info.object_name().to_owned()
        };
        assert_eq!(name(&Method::GET, "/api/v1/nodes?fieldSelector=metadata.name%3Da"), "a");
        assert_eq!(name(&Method::GET, "/api/v1/nodes?watch=1&fieldSelector=metadata.name=a"), "a");
        assert_eq!(name(&Method::GET, "/api/v1/nodes/b?fieldSelector=metadata.name=a"), "b");
        for without in [
            "/api/v1/nodes?fieldSelector=metadata.name!%3Da",
            "/api/v1/nodes?fieldSelector=metadata.name%3Da/b",
            "/api/v1/nodes?fieldSelector=metadata.name%3D..",
            "/api/v1/watch/nodes?fieldSelector=metadata.name%3Da",
        ] {
            assert_eq!(name(&Method::GET, without), "", "{without}");
        }
        let url = "/api/v1/nodes?fieldSelector=metadata.name%3Da";
        assert_eq!(name(&Method::DELETE, url), "", "the deletion of a collection");
    }

    #[test]
    fn the_watch_prefix_is_the_verb_of_every_method() {
        for method in [Method::GET, Method::POST, Method::DELETE, Method::OPTIONS] {
            check(&method, "/api/v1/watch/pods", "watch /v1 |pods|||");
        }
    }

    #[test]
    fn malformed_parameters_are_ignored() {
        let query = Query::parse(Some("a=1;b=2&c=%zz&d=%31&&e"));
        assert_eq!(query.0, [("d".to_owned(), "1".to_owned()), ("e".to_owned(), String::new())]);
    }
}
