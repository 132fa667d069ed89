//! The hash of a pod template, which names the ReplicaSets of a Deployment and the revisions of
//! other workloads.

use serde_json::Value;

/// Letters and digits that form no words. Upstream: util/rand `SafeEncodeString`
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// A short text that identifies `template`. After a collision, another count gives another text.
///
/// ```text
/// {"spec":{"containers":[…]}}  ─▶ FNV-1a, 32 bits ─▶ 1763925480 ─▶ "6f9c8d5b7f"
/// ```
pub(crate) fn of(template: &Value, collision_count: Option<i32>) -> String {
    let mut hash: u32 = 0x811c_9dc5;
    let mut add = |bytes: &[u8]| {
        for byte in bytes {
            hash = (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
        }
    };
    add(template.to_string().as_bytes());
    if let Some(count) = collision_count {
        add(&count.to_le_bytes());
    }
    safe_encode(&hash.to_string())
}

/// A text whose characters cannot form words.
pub(crate) fn safe_encode(text: &str) -> String {
    let character = |byte: u8| char::from(ALPHABET[usize::from(byte) % ALPHABET.len()]);
    text.bytes().map(character).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn equal_templates_have_equal_hashes_and_collisions_can_be_resolved() {
        let template = json!({"spec": {"containers": [{"name": "a"}]}});
        assert_eq!(of(&template, None), of(&template.clone(), None));
        assert_ne!(of(&template, None), of(&template, Some(1)));
        assert_ne!(of(&template, None), of(&json!({}), None));
        assert!(of(&template, None).bytes().all(|byte| ALPHABET.contains(&byte)));
    }
}
