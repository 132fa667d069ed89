//! Method, path and query of a request: no name contains a slash.

#![no_main]

use http::Method;
use libfuzzer_sys::fuzz_target;
use fuzz::amplify;

use apiserver::request::{Query, RequestInfo};

fuzz_target!(|bytes: &[u8]| fuzz::bounded(bytes, |bytes| run(&amplify::text(bytes))));

fn run(text: &str) {
    let (method, url) = (text.len(), text);
    let methods = [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
    let method = &methods[method % methods.len()];
    let (path, query) = url.split_once('?').unwrap_or((url, ""));
    let query = Query::parse(Some(query));
    let _ = (query.flag("watch"), query.text("limit"), query.all("dryRun").count());
    let Some(info) = RequestInfo::parse(method, path, &query) else { return };
    let Some(target) = info.target else { return };
    for name in [target.group, target.version, target.namespace, target.resource, target.name] {
        assert!(!name.contains('/'), "{name}");
    }
}
