//! The metric labels of a request, with the values of kube-apiserver.

use http::header::CONTENT_TYPE;
use http::{HeaderMap, Method, Request};

use crate::chain::mux;
use crate::http::headers;
use crate::metrics::RequestLabels;
use crate::plane::Plane;
use crate::request::{Query, RequestInfo, ResourcePath, Verb};
use crate::routes::discovery;
use crate::storage::catalog::Catalog;

const APISERVER: &str = "apiserver";

/// The subresources that are counted as CONNECT. Upstream: `validConnectRequests`.
const CONNECT: [&str; 5] = ["log", "exec", "portforward", "attach", "proxy"];

/// The labels of a request. If the catalog does not serve its resource, most labels are empty.
pub(super) fn of<B>(
    plane: &Plane,
    request: &Request<B>,
    info: &RequestInfo,
    query: &Query,
) -> RequestLabels {
    let (method, headers) = (request.method(), request.headers());
    let catalog = plane.storage.catalog.load();
    let labels = RequestLabels { dry_run: dry_run(query), ..RequestLabels::default() };
    let Some(path) = info.resource.as_ref().filter(|it| is_served(&catalog, it)) else {
        let (component, subresource) = of_path(&info.path, headers);
        return RequestLabels {
            component,
            subresource: subresource.to_owned(),
            verb: verb(method, headers, info.verb, "", ""),
            ..labels
        };
    };
    let scope = scope(info.verb, path);
    RequestLabels {
        component: APISERVER,
        group: path.group.clone(),
        resource: path.resource.clone(),
        scope,
        subresource: path.subresource.clone(),
        verb: verb(method, headers, info.verb, scope, &path.subresource),
        version: path.version.clone(),
        ..labels
    }
}

/// Component and subresource of a path that does not belong to a resource. Upstream counts only the
/// paths listed here; all others have no subresource.
fn of_path(path: &str, headers: &HeaderMap) -> (&'static str, &'static str) {
    match path {
        "/healthz" => ("", "/healthz"),
        "/livez" => ("", "/livez"),
        "/readyz" => ("", "/readyz"),
        "/openapi/v3" => ("", "openapi/v3"),
        "/api" if discovery::is_aggregated(headers) => (APISERVER, "api"),
        "/apis" if discovery::is_aggregated(headers) => (APISERVER, "apis"),
        _ if path.starts_with("/openapi/v3/") => ("", "openapi/v3/"),
        _ => (APISERVER, ""),
    }
}

fn is_served(catalog: &Catalog, path: &ResourcePath) -> bool {
    let found = catalog.find(&path.group, &path.version, &path.resource);
    found.is_some_and(|(served, version)| {
        path.subresource.is_empty() || mux::has_subresource(served, version, &path.subresource)
    })
}

/// The scope label. Upstream: endpoints/metrics `CleanScope`.
fn scope(verb: Verb, path: &ResourcePath) -> &'static str {
    if !path.name.is_empty() || verb == Verb::Create {
        "resource"
    } else if !path.namespace.is_empty() {
        "namespace"
    } else {
        "cluster"
    }
}

/// The verb label. Upstream: endpoints/metrics `CanonicalVerb` and `cleanVerb`.
fn verb(
    method: &Method,
    headers: &HeaderMap,
    verb: Verb,
    scope: &str,
    subresource: &str,
) -> &'static str {
    if CONNECT.contains(&subresource) {
        return "CONNECT";
    }
    match *method {
        Method::GET | Method::HEAD if verb == Verb::Watch => "WATCH",
        Method::GET | Method::HEAD if matches!(scope, "namespace" | "cluster") => "LIST",
        Method::GET | Method::HEAD => "GET",
        Method::PATCH
            if headers::first(headers, CONTENT_TYPE) == "application/apply-patch+yaml" =>
        {
            "APPLY"
        }
        Method::PATCH => "PATCH",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::CONNECT => "CONNECT",
        _ => "other",
    }
}

fn dry_run(query: &Query) -> &'static str {
    let mut values = query.all("dryRun").peekable();
    if values.peek().is_none() {
        return "";
    }
    if values.all(|it| it == "All") { "All" } else { "invalid" }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `expect` is "verb scope dry-run" of a request for a served resource.
    fn check(method: &Method, url: &str, media: &str, expect: &str) {
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        let query = Query::parse(Some(query));
        let info = RequestInfo::parse(method, path, &query).unwrap();
        let path = info.resource.as_ref().unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, media.parse().unwrap());
        let scope = scope(info.verb, path);
        let verb = verb(method, &headers, info.verb, scope, &path.subresource);
        assert_eq!(format!("{verb} {scope} {}", dry_run(&query)), expect, "{method} {url}");
    }

    #[test]
    fn paths_without_a_resource_have_a_component_and_a_subresource() {
        let plain = HeaderMap::new();
        let mut aggregated = HeaderMap::new();
        let media = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        aggregated.insert(http::header::ACCEPT, media.parse().unwrap());
        for (path, headers, expect) in [
            ("/livez", &plain, ("", "/livez")),
            ("/openapi/v3", &plain, ("", "openapi/v3")),
            ("/openapi/v3/apis/apps/v1", &plain, ("", "openapi/v3/")),
            ("/apis", &aggregated, ("apiserver", "apis")),
            ("/api", &aggregated, ("apiserver", "api")),
            ("/apis", &plain, ("apiserver", "")),
            ("/made-up", &plain, ("apiserver", "")),
        ] {
            assert_eq!(of_path(path, headers), expect, "{path}");
        }
    }

    #[test]
    fn verbs_and_scopes_are_those_of_kubernetes() {
        const APPLY: &str = "application/apply-patch+yaml";
        const PODS: &str = "/api/v1/namespaces/a/pods";
        let pod = format!("{PODS}/b");
        check(&Method::GET, PODS, "", "LIST namespace ");
        check(&Method::HEAD, PODS, "", "LIST namespace ");
        check(&Method::GET, "/api/v1/pods", "", "LIST cluster ");
        check(&Method::GET, "/api/v1/pods?watch=1", "", "WATCH cluster ");
        check(&Method::GET, "/api/v1/watch/namespaces/a/pods/b", "", "WATCH resource ");
        check(&Method::GET, &pod, "", "GET resource ");
        check(&Method::GET, &format!("{pod}/log"), "", "CONNECT resource ");
        check(&Method::GET, &format!("{pod}/status"), "", "GET resource ");
        check(&Method::POST, PODS, "", "POST resource ");
        check(&Method::PUT, &format!("{pod}?dryRun=All&dryRun=All"), "", "PUT resource All");
        check(&Method::PUT, &format!("{pod}?dryRun=x"), "", "PUT resource invalid");
        check(&Method::PATCH, &pod, "application/merge-patch+json", "PATCH resource ");
        check(&Method::PATCH, &pod, APPLY, "APPLY resource ");
        check(&Method::DELETE, PODS, "", "DELETE namespace ");
        check(&Method::TRACE, PODS, "", "other namespace ");
    }
}
