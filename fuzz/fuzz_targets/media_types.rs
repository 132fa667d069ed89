//! The headers `Accept` and `Content-Type`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use fuzz::amplify;

use machinery::codec::media::{parse_accept, parse_content_type};

fuzz_target!(|bytes: &[u8]| fuzz::bounded(bytes, |bytes| run(&amplify::text(bytes))));

fn run(header: &str) {
    for media in parse_accept(header).into_iter().chain(parse_content_type(header)) {
        let _ = (media.is("application/json"), media.accepts("application/yaml"));
        let _ = (media.param("as"), media.param("q"));
    }
}
