//! [`OwnWords`]: what is known of an object without its JSON. In its JSON, marks stand for them, so that
//! they take no room there, and so that what differs only in them is the same for many objects.
//!
//! ```text
//! {"metadata":{"name":"web-17","uid":"0c1…"},"spec":{"host":"web-17.example.com"}}
//! {"metadata":{"name":"①","uid":"②"},"spec":{"host":"①.example.com"}}
//! ```
//!
//! The marks are control characters, which JSON has nowhere. A word that could be taken for more than a
//! part of one string or number, because it has quotes or brackets, has no mark.

use std::hash::{DefaultHasher, Hash, Hasher};

use memchr::memchr2_iter;

const NAME: u8 = 2;
const UID: u8 = 3;

/// A shorter word is found everywhere, and is not worth it.
const SHORTEST: usize = 6;
/// Rare in JSON, and in nearly all names and uids.
const RARE: u8 = b'-';

/// See the [module documentation](self).
#[derive(Clone, Copy)]
pub(crate) struct OwnWords<'a> {
    pub(crate) name: &'a str,
    pub(crate) uid: &'a str,
}

impl OwnWords<'_> {
    /// Appends `json` to `text`, with marks.
    pub(crate) fn mark(&self, json: &[u8], text: &mut Vec<u8>) {
        let words = [Word::new(NAME, self.name), Word::new(UID, self.uid)];
        let words = words.each_ref().map(Option::as_ref);
        let [name, uid] = words.map(|word| word.map_or(RARE, |word| word.text[word.anchor]));
        let mut copied = 0;
        for at in memchr2_iter(name, uid, json) {
            for word in words.into_iter().flatten() {
                // Before what is copied it would overlap with another one.
                let start = at.checked_sub(word.anchor).filter(|start| *start >= copied);
                if let Some(start) = start
                    && json[start..].starts_with(word.text)
                {
                    text.extend_from_slice(&json[copied..start]);
                    text.push(word.mark);
                    copied = start + word.text.len();
                }
            }
        }
        text.extend_from_slice(&json[copied..]);
    }

    /// Appends `text` to `json`, with the words in place of the marks.
    pub(crate) fn unmark(&self, text: &[u8], json: &mut Vec<u8>) {
        let mut copied = 0;
        for at in memchr2_iter(NAME, UID, text) {
            let word = if text[at] == NAME { self.name } else { self.uid };
            json.extend_from_slice(&text[copied..at]);
            json.extend_from_slice(word.as_bytes());
            copied = at + 1;
        }
        json.extend_from_slice(&text[copied..]);
    }

    /// Tells one object from another, more or less.
    pub(crate) fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.name, self.uid).hash(&mut hasher);
        hasher.finish()
    }
}

/// What is looked for.
struct Word<'a> {
    mark: u8,
    text: &'a [u8],
    /// The place of the byte by which it is found.
    anchor: usize,
}

impl<'a> Word<'a> {
    /// None if it is not worth it, or not plain.
    fn new(mark: u8, text: &'a str) -> Option<Self> {
        let text = text.as_bytes();
        let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._".contains(byte);
        if text.len() < SHORTEST || !text.iter().all(is_plain) {
            return None;
        }
        let anchor = text.iter().position(|byte| *byte == RARE).unwrap_or(0);
        Some(Self { mark, text, anchor })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(name: &str, uid: &str, json: &str) -> String {
        let own = OwnWords { name, uid };
        let (mut text, mut back) = (Vec::new(), Vec::new());
        own.mark(json.as_bytes(), &mut text);
        own.unmark(&text, &mut back);
        assert_eq!(String::from_utf8(back).unwrap(), json);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn marks_stand_for_words_wherever_they_are() {
        let json = r#"{"name":"widget-17","uid":"0c1f-22","at":"xwidget-17.0c1f-22:widget-1"}"#;
        let text = "{\"name\":\"\u{2}\",\"uid\":\"\u{3}\",\"at\":\"x\u{2}.\u{3}:widget-1\"}";
        assert_eq!(round_trip("widget-17", "0c1f-22", json), text);
        let json = r#"{"name":"frontend","host":"frontend.example"}"#;
        let text = "{\"name\":\"\u{2}\",\"host\":\"\u{2}.example\"}";
        assert_eq!(round_trip("frontend", "", json), text);
    }

    #[test]
    fn words_that_look_like_json_have_no_marks() {
        let json = r#"{"name":"","uid":"a","x":"1","y":"1"}"#;
        assert_eq!(round_trip(r#"","uid":""#, r#":"a","x"#, json), json);
    }

    #[test]
    fn words_may_overlap_repeat_and_be_short() {
        let text = round_trip("ababab", "bababa", r#"["abababababab","babababab",""]"#);
        assert_eq!(text, "[\"\u{2}\u{2}\",\"\u{3}bab\",\"\"]");
        let text = round_trip("a-a-a-", "-a-a-a", r#"["a-a-a-a-a-a-","-a-a-a-a-"]"#);
        assert_eq!(text, "[\"\u{2}\u{2}\",\"\u{3}-a-\"]");
        assert_eq!(round_trip("a", "", r#"{"a":"a"}"#), r#"{"a":"a"}"#);
    }
}
