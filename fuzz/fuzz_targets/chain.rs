//! Requests of any kind, sent to a whole server by users with and without rights.

#![no_main]

use http::{Method, Request};
use libfuzzer_sys::{Corpus, fuzz_target};
use fuzz::amplify;
use fuzz::server::{SERVER, Sender};

const METHODS: [Method; 5] =
    [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];

const MEDIA: [&str; 6] = [
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/merge-patch+json",
    "application/json-patch+json",
    "application/apply-patch+yaml",
];

const PATHS: [&str; 6] = [
    "/api/v1/namespaces/default/configmaps",
    "/api/v1/namespaces/default",
    "/apis/apps/v1/namespaces/default/deployments",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    "/openapi/v3",
];

fuzz_target!(|bytes: &[u8]| -> Corpus {
    SERVER.with(|server| {
        fuzz::bounded(bytes, |bytes| {
            let Some((&[choice, rest], bytes)) = bytes.split_first_chunk() else {
                return Corpus::Reject;
            };
            let (choice, rest) = (usize::from(choice), usize::from(rest));
            let text = amplify::text(bytes);
            let (query, body) = text.split_once('\n').unwrap_or(("", &text));
            // Request targets have at most 64 KiB.
            let query: String = query.chars().filter(char::is_ascii_graphic).take(60_000).collect();
            let request = Request::builder()
                .method(METHODS[choice % METHODS.len()].clone())
                .uri(format!("{}?dryRun=All&{query}", PATHS[choice / 8 % PATHS.len()]))
                .header("content-type", MEDIA[rest % MEDIA.len()])
                .header("accept", query.as_str())
                .body(body.as_bytes().to_vec());
            let Ok(request) = request else { return Corpus::Reject };
            let sender = if rest < 128 { Sender::Administrator } else { Sender::UserWithoutRights };
            server.send(request, sender);
            Corpus::Keep
        })
    })
});
