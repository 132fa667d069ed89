//! [`JsonSpans`]: the positions of the strings, objects and lists of a JSON text, with a hash of
//! each, found in one pass.
//!
//! ```text
//! {"a":[1,"b"]}     spans: {"a":[1,"b"]}   "a":   [1,"b"]   "b"
//! ```
//!
//! The hash of an object or list is computed from the hashes of its content, so that the text is
//! read once at any depth. Equal spans have equal hashes; spans with equal hashes are equal most of
//! the time.
//!
//! [`find_member`] finds one member, and reads no more of the text than it needs.

use std::ops::Range;

/// See the [module documentation](self). One value is used for many texts, to reuse its memory.
#[derive(Default)]
pub(crate) struct JsonSpans {
    /// In the order of their starts.
    pub(crate) spans: Vec<Span>,
    /// The objects and lists that are not closed yet, as indices of `spans`.
    open: Vec<usize>,
}

/// A string (with the colon after it, if it is a key), or a whole object or list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// The index of the first span that starts after the end of this one.
    pub(crate) following: usize,
    /// The hash of its text.
    pub(crate) hash: u64,
}

impl JsonSpans {
    /// Finds the spans of `json`, which must be well formed. Returns false if there is white space
    /// between its tokens.
    #[must_use]
    pub(crate) fn find(&mut self, json: &[u8]) -> bool {
        let Self { spans, open } = self;
        spans.clear();
        open.clear();
        let mut at = 0;
        while at < json.len() {
            let hash = match json[at] {
                b'"' => {
                    let end = string_end(json, at);
                    let end = if json.get(end) == Some(&b':') { end + 1 } else { end };
                    let (start, following) = (at, spans.len() + 1);
                    let hash = hash_of(&json[start..end]);
                    spans.push(Span { start, end, following, hash });
                    at = end;
                    hash
                }
                bracket @ (b'{' | b'[') => {
                    open.push(spans.len());
                    let hash = mix(0, bracket.into());
                    spans.push(Span { start: at, end: at, following: 0, hash });
                    at += 1;
                    continue;
                }
                b'}' | b']' => {
                    let opened = open.pop().expect("well-formed JSON closes what it opened");
                    at += 1;
                    let following = spans.len();
                    let span = &mut spans[opened];
                    (span.end, span.following) = (at, following);
                    span.hash
                }
                b' ' | b'\n' | b'\r' | b'\t' => return false,
                plain => {
                    at += 1;
                    plain.into()
                }
            };
            if let Some(parent) = open.last() {
                let parent = &mut spans[*parent];
                parent.hash = mix(parent.hash, hash);
            }
        }
        true
    }
}

/// The end of the string that starts at `start`, after its closing quote.
pub(crate) fn string_end(json: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    loop {
        if let Some(word) = json[at..].first_chunk() {
            let word = u64::from_le_bytes(*word);
            let hits = zero_bytes(word ^ (EACH * u64::from(b'"')))
                | zero_bytes(word ^ (EACH * u64::from(b'\\')));
            if hits == 0 {
                at += 8;
                continue;
            }
            at += hits.trailing_zeros() as usize / 8;
        }
        match json[at] {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// The number 1 in each byte.
const EACH: u64 = 0x0101_0101_0101_0101;

/// Not zero if a byte of `word` is zero; the lowest set bit is in the first such byte.
fn zero_bytes(word: u64) -> u64 {
    word.wrapping_sub(EACH) & !word & (EACH << 7)
}

/// The position of the member at `path`, if there is one: its key, its value, and the white space
/// after it. The text must be well formed.
pub(crate) fn find_member(json: &[u8], path: &[&str]) -> Option<Range<usize>> {
    let start = path.iter().try_fold(0, |at, key| find_key(json, at, key))?;
    let value = string_end(json, start);
    Some(start..value_end(json, value)?)
}

/// The value at `path`, with white space around it. The text must be well formed.
pub(crate) fn find_value<'a>(json: &'a [u8], path: &[&str]) -> Option<&'a [u8]> {
    let member = &json[find_member(json, path)?];
    member[string_end(member, 0)..].trim_ascii_start().strip_prefix(b":")
}

/// Calls `each` with the positions of the key, with its quotes, and of the value of every member of
/// the object that begins at `at`. Returns the end of the object; `None` if it is no object, or has
/// white space. The text must be well formed.
pub(crate) fn each_member(
    json: &[u8],
    at: usize,
    mut each: impl FnMut(Range<usize>, Range<usize>),
) -> Option<usize> {
    if json.get(at) != Some(&b'{') {
        return None;
    }
    let mut start = at + 1;
    if json.get(start) == Some(&b'}') {
        return Some(start + 1);
    }
    loop {
        if json.get(start) != Some(&b'"') {
            return None;
        }
        let key_end = string_end(json, start);
        if json.get(key_end) != Some(&b':') {
            return None;
        }
        let end = value_end(json, key_end + 1)?;
        each(start..key_end, key_end + 1..end);
        match json.get(end) {
            Some(b',') => start = end + 1,
            Some(b'}') => return Some(end + 1),
            _ => return None,
        }
    }
}

/// The end of the value that begins at `at`; `None` if the text ends first.
fn value_end(json: &[u8], at: usize) -> Option<usize> {
    let (mut depth, mut at) = (0, at);
    loop {
        match json.get(at)? {
            b'"' => at = string_end(json, at),
            b'{' | b'[' => (depth, at) = (depth + 1, at + 1),
            b'}' | b']' => (depth, at) = (depth - 1, at + 1),
            _ => at += 1,
        }
        if depth == 0 && matches!(json.get(at)?, b',' | b'}' | b']') {
            return Some(at);
        }
    }
}

/// The range to remove so that an object is left without `member`: the member and one comma.
pub(crate) fn removal_of(json: &[u8], member: Range<usize>) -> Range<usize> {
    let blanks = json[member.end..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    let end = member.end + blanks;
    if json.get(end) == Some(&b',') {
        return member.start..end + 1;
    }
    let before = json[..member.start].trim_ascii_end().strip_suffix(b",");
    before.map_or(member.start, <[u8]>::len)..end
}

/// The position of the key `key` in the first object after `at`.
fn find_key(json: &[u8], mut at: usize, key: &str) -> Option<usize> {
    let mut depth = 0;
    loop {
        match json.get(at)? {
            b'"' => {
                let end = string_end(json, at);
                let is_key = || json[end..].trim_ascii_start().starts_with(b":");
                if depth == 1 && json[at + 1..end - 1] == *key.as_bytes() && is_key() {
                    return Some(at);
                }
                at = end;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth <= 1 => return None,
            b'}' | b']' => depth -= 1,
            // The value is neither an object nor a list.
            b',' if depth == 0 => return None,
            _ => {}
        }
        at += 1;
    }
}

/// Eight bytes at a time. Most spans are too short for a hash with a longer initialization.
fn hash_of(text: &[u8]) -> u64 {
    let (words, rest) = text.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let hash =
        words.iter().fold(text.len() as u64, |hash, word| mix(hash, u64::from_le_bytes(*word)));
    mix(hash, u64::from_le_bytes(last))
}

fn mix(hash: u64, word: u64) -> u64 {
    // 2^64 divided by the golden ratio: an odd number with well distributed bits.
    let product = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    // A multiplication carries upwards only; the rotation moves the high bits down.
    product ^ product.rotate_left(29)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(json: &str) -> Option<JsonSpans> {
        let mut spans = JsonSpans::default();
        // The memory of another text is reused.
        let _ = spans.find(br#"{"before":["#);
        spans.find(json.as_bytes()).then_some(spans)
    }

    fn texts(json: &str) -> Vec<(&str, usize)> {
        let spans = spans(json).unwrap();
        spans.spans.iter().map(|it| (&json[it.start..it.end], it.following)).collect()
    }

    #[test]
    fn strings_objects_and_lists_are_found() {
        let json = r#"{"a":[1,"b\"}"],"c":{}}"#;
        let expected = [
            (json, 6),
            ("\"a\":", 2),
            (r#"[1,"b\"}"]"#, 4),
            (r#""b\"}""#, 4),
            ("\"c\":", 5),
            ("{}", 6),
        ];
        assert_eq!(texts(json), expected);
    }

    #[test]
    fn white_space_is_allowed_in_strings_only() {
        assert!(spans(r#"{"a b":"c d"}"#).is_some());
        assert!(spans(r#"{"a": 1}"#).is_none());
    }

    #[test]
    fn equal_spans_have_equal_hashes_at_any_position() {
        let hash = |json: &str, place: usize| spans(json).unwrap().spans[place].hash;
        let whole = r#"{"port":8080,"name":"http"}"#;
        assert_eq!(hash(whole, 0), hash(&format!("[[1],{whole}]"), 2));
        for other in [
            r#"{"port":8081,"name":"http"}"#,
            r#"{"port":8080,"name":"httq"}"#,
            r#"{"name":"http","port":8080}"#,
            r#"["port",8080,"name","http"]"#,
            r#"{"port":{"a":8080},"name":"http"}"#,
        ] {
            assert_ne!(hash(whole, 0), hash(other, 0), "{other}");
        }
    }

    #[test]
    fn a_member_is_removed_with_one_comma() {
        let check = |json: &str, expected: Option<&str>| {
            let member = find_member(json.as_bytes(), &["metadata", "m"]);
            let cut = member.map(|member| removal_of(json.as_bytes(), member));
            let left = cut.map(|cut| [&json[..cut.start], &json[cut.end..]].concat());
            assert_eq!(left.as_deref(), expected, "{json}");
        };
        check(
            r#"{"metadata":{"a":1,"m":[{"x":"},"}],"z":2}}"#,
            Some(r#"{"metadata":{"a":1,"z":2}}"#),
        );
        check(r#"{"metadata":{"m":{},"z":2},"m":3}"#, Some(r#"{"metadata":{"z":2},"m":3}"#));
        check(r#"{"metadata":{"a":1,"m":"x"}}"#, Some(r#"{"metadata":{"a":1}}"#));
        check(r#"{"metadata":{"m":null}}"#, Some(r#"{"metadata":{}}"#));
        check(
            "{ \"metadata\" : { \"a\":1 , \"m\" : [ ] } }",
            Some("{ \"metadata\" : { \"a\":1 } }"),
        );
    }

    #[test]
    fn a_member_at_another_path_is_not_found() {
        for json in [
            r#"{"m":1}"#,
            r#"{"kind":"metadata","spec":{"m":1}}"#,
            r#"{"metadata":{"labels":{"m":"x"},"name":"m"},"spec":{"metadata":{"m":1}}}"#,
            r#"{"spec":{"metadata":{"m":1}},"metadata":{"name":"a"}}"#,
            r#"{"metadata":[{"m":1}]}"#,
            r#"{"metadata":"m"}"#,
        ] {
            assert!(find_member(json.as_bytes(), &["metadata", "m"]).is_none(), "{json}");
        }
    }

    #[test]
    fn a_string_ends_at_the_first_quote_that_is_not_escaped() {
        for length in 0..40 {
            let plain = "é".repeat(length);
            for tail in ["", "\\\\", "\\\"", "\\\\\\\"x"] {
                let json = format!("[\"{plain}{tail}\",\"next\"]");
                assert_eq!(string_end(json.as_bytes(), 1), json.find(",\"next").unwrap(), "{json}");
            }
        }
    }
}
