//! Kubernetes' protobuf: normalization knows every field of a decoded object.

#![no_main]

use libfuzzer_sys::arbitrary::Unstructured;
use libfuzzer_sys::{Corpus, fuzz_target};

use machinery::Value;
use types::protobuf::{self, Envelope};

fuzz_target!(|bytes: &[u8]| -> Corpus { fuzz::bounded(bytes, run) });

fn run(bytes: &[u8]) -> Corpus {
    let _ = Envelope::read(bytes);
    let mut bytes = Unstructured::new(bytes);
    let Ok(ty) = bytes.choose(types::all()) else { return Corpus::Reject };
    let Ok(object) = protobuf::decode(ty, bytes.take_rest()) else { return Corpus::Keep };
    let mut value = Value::Object(object);
    if types::normalize(ty, &mut value, &mut |path| panic!("{path} is unknown")).is_ok() {
        let _ = protobuf::encode(&value);
    }
    Corpus::Keep
}
