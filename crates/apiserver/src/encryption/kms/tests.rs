//! The formats of stored values. The plugin is tested with a server in `tests/it`.

use super::*;

const LOCATION: &str = "/registry/secrets/default/a";

fn hex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect()
}

#[test]
fn a_value_that_go_has_encrypted_with_a_derived_key_is_read() {
    // Go's crypto/hkdf and AES-GCM, with the seed 0, 1, 2, ….
    let stored = hex(
        "0708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f2021222324252632333435363738393a3b3c3d8473136507d2efa05ee2079148d2b555a01f8dbdb6aa412fb65dca1b54159f4e46658ae9ad9d55656b946c59b2bbde885ef688",
    );
    let seed: Vec<u8> = (0..32).collect();
    let Ok(DataKeys::Derived(seed)) = DataKeys::new(&seed, HKDF_SEED) else { panic!("a seed") };
    let (info, data) = stored.split_first_chunk::<SIZE>().unwrap();
    let opened = derived(&seed, info).open(data, LOCATION).unwrap();
    assert_eq!(opened, br#"{"kind":"Secret","apiVersion":"v1"}"#);
}

#[test]
fn an_encrypted_object_has_the_fields_of_kube_apiserver() {
    let object = EncryptedObject {
        encrypted_data: vec![1],
        key_id: "k".to_owned(),
        encrypted_dek_source: vec![2, 3],
        annotations: [("a.b".to_owned(), vec![4])].into(),
        encrypted_dek_source_type: HKDF_SEED,
    };
    assert_eq!(object.encode_to_vec(), hex("0a010112016b1a02020322080a03612e621201042801"));
    assert_eq!(object.validate(), Ok(()));
}

#[test]
fn what_exceeds_the_limits_is_refused() {
    let valid = EncryptedObject {
        key_id: "k".to_owned(),
        encrypted_dek_source: vec![0],
        ..EncryptedObject::default()
    };
    assert_eq!(valid.validate(), Ok(()));
    let cases = [
        EncryptedObject { key_id: String::new(), ..valid.clone() },
        EncryptedObject { key_id: "k".repeat(1025), ..valid.clone() },
        EncryptedObject { encrypted_dek_source: Vec::new(), ..valid.clone() },
        EncryptedObject { encrypted_dek_source: vec![0; 1025], ..valid.clone() },
        EncryptedObject { encrypted_dek_source_type: 2, ..valid.clone() },
        EncryptedObject { annotations: [("a".to_owned(), vec![])].into(), ..valid.clone() },
        EncryptedObject { annotations: [("a.b".to_owned(), vec![0; 40_000])].into(), ..valid },
    ];
    for case in cases {
        assert!(case.validate().is_err(), "{case:?}");
    }
}
