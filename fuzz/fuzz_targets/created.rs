//! Create requests for built-in kinds to a whole server: decoding, defaulting, admission, validation.

#![no_main]

use std::sync::LazyLock;

use http::Request;
use libfuzzer_sys::arbitrary::Unstructured;
use libfuzzer_sys::{Corpus, fuzz_target};
use fuzz::objects;
use fuzz::server::{SERVER, Sender};

use types::Resource;

static KINDS: LazyLock<Vec<Resource>> = LazyLock::new(kinds::table::builtin);

fuzz_target!(|bytes: &[u8]| -> Corpus {
    SERVER.with(|server| {
        fuzz::bounded(bytes, |bytes| {
            let Ok((path, object)) = objects::created(&mut Unstructured::new(bytes), &KINDS) else {
                return Corpus::Reject;
            };
            let uri = format!("{path}?dryRun=All");
            let request = Request::post(uri).header("content-type", "application/json");
            let Ok(request) = request.body(object.to_string().into_bytes()) else {
                return Corpus::Reject;
            };
            assert_ne!(server.send(request, Sender::Administrator), 500, "{path}");
            Corpus::Keep
        })
    })
});
