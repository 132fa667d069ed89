//! Tests of the encoding: the output is decoded and accessed by field numbers.

use super::*;
use machinery::json;

/// The fields of a message: number and content. The content of a varint is its decimal text.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = bytes[0];
            *bytes = &bytes[1..];
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                return value;
            }
        }
    }
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let content = match key & 7 {
            0 => varint(&mut bytes).to_string().into_bytes(),
            1 => bytes.split_off(..8).unwrap().to_vec(),
            _ => {
                let length = usize::try_from(varint(&mut bytes)).unwrap();
                bytes.split_off(..length).unwrap().to_vec()
            }
        };
        found.push((key >> 3, content));
    }
    found
}

/// The values at a path of field numbers, as text.
fn at(document: &Value, path: &[u64]) -> Vec<String> {
    let mut found = vec![encode(document)];
    for field_number in path {
        let inner =
            found.iter().flat_map(|it| fields(it)).filter(|(number, _)| number == field_number);
        found = inner.map(|(_, content)| content).collect();
    }
    found.into_iter().map(|it| String::from_utf8(it).unwrap()).collect()
}

fn document() -> Value {
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": "v1.35.0"},
        "paths": {"/api/v1/pods/{name}": {
            "parameters": [{"name": "name", "in": "path", "required": true, "type": "string"}],
            "patch": {
                "operationId": "patchPod",
                "parameters": [
                    {"name": "body", "in": "body", "schema": {"$ref": "#/definitions/Patch"}},
                    {"name": "dryRun", "in": "query", "type": "string", "uniqueItems": true}],
                "responses": {"200": {"description": "OK", "schema": {"$ref": "#/definitions/Pod"}}},
                "x-kubernetes-action": "patch"}}},
        "definitions": {"Pod": {
            "type": "object",
            "required": ["spec"],
            "properties": {
                "args": {"type": "array", "items": {"type": "string"}, "maxItems": 300},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "weight": {"type": "number", "minimum": 1.5},
                "any": {"additionalProperties": true}},
            "x-kubernetes-group-version-kind": [{"group": "", "kind": "Pod", "version": "v1"}]}},
    })
}

fn check(path: &[u64], expect: &[&str]) {
    assert_eq!(at(&document(), path), expect, "{path:?}");
}

#[test]
fn a_small_document_has_the_expected_bytes() {
    let document = json!({"swagger": "2.0", "definitions": {"A": {"type": "object"}}});
    assert_eq!(
        encode(&document),
        b"\x0a\x032.0J\x12\x0a\x10\x0a\x01A\x12\x0b\xb2\x01\x08\x0a\x06object"
    );
}

#[test]
fn a_document_has_a_title_and_paths() {
    check(&[1], &["2.0"]);
    check(&[2, 1], &["Kubernetes"]);
    check(&[8, 2, 1], &["/api/v1/pods/{name}"]);
    check(&[8, 2, 2, 8, 5], &["patchPod"]);
}

#[test]
fn parameters_are_encoded_by_their_location() {
    check(&[8, 2, 2, 9, 1, 2, 4, 4], &["name"]);
    check(&[8, 2, 2, 9, 1, 2, 4, 1], &["1"]);
    check(&[8, 2, 2, 8, 8, 1, 2, 3, 4], &["dryRun"]);
    check(&[8, 2, 2, 8, 8, 1, 2, 3, 20], &["1"]);
    check(&[8, 2, 2, 8, 8, 1, 1, 5, 1], &["#/definitions/Patch"]);
}

#[test]
fn responses_are_named_by_their_code() {
    check(&[8, 2, 2, 8, 9, 1, 1], &["200"]);
    check(&[8, 2, 2, 8, 9, 1, 2, 1, 1], &["OK"]);
    check(&[8, 2, 2, 8, 9, 1, 2, 1, 2, 1, 1], &["#/definitions/Pod"]);
}

#[test]
fn definitions_are_named_schemas() {
    const POD: [u64; 3] = [9, 1, 2];
    let below = |rest: &[u64]| [&POD, rest].concat();
    check(&[9, 1, 1], &["Pod"]);
    check(&below(&[22, 1]), &["object"]);
    check(&below(&[19]), &["spec"]);
    check(&below(&[25, 1, 1]), &["any", "args", "labels", "weight"]);
    check(&below(&[25, 1, 2, 23, 1, 22, 1]), &["string"]);
    check(&below(&[25, 1, 2, 14]), &["300"]);
    check(&below(&[25, 1, 2, 21, 1, 22, 1]), &["string"]);
    check(&below(&[25, 1, 2, 21, 2]), &["1"]);
}

#[test]
fn floating_point_numbers_are_eight_bytes() {
    let document = json!({"definitions": {"A": {"minimum": 1.5}}});
    let schema = fields(&fields(&fields(&fields(&encode(&document))[0].1)[0].1)[1].1);
    assert_eq!(schema, [(9, 1.5f64.to_le_bytes().to_vec())]);
}

#[test]
fn extensions_are_encoded_as_yaml() {
    check(&[8, 2, 2, 8, 13, 1], &["x-kubernetes-action"]);
    check(&[8, 2, 2, 8, 13, 2, 2], &["patch\n"]);
    check(&[9, 1, 2, 31, 2, 2], &["- group: \"\"\n  kind: Pod\n  version: v1\n"]);
}
