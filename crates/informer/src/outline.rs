//! [`Outline`]: where the strings, objects and lists of a JSON text begin and end, and a hash of
//! each, found in one pass.
//!
//! ```text
//! {"a":[1,"b"]}     pieces: {"a":[1,"b"]}   "a":   [1,"b"]   "b"
//! ```
//!
//! The hash of an object or list is made of the hashes of what is in it, so that the text is read
//! once, however deep it is. Equal pieces have equal hashes; the reverse is likely, not certain.
//!
//! Beside it stands [`find_path`], which reads a text no further than it must.

use std::ops::Range;

/// See the [module documentation](self). It can be used for one text after the other.
#[derive(Default)]
pub(crate) struct Outline {
    /// In the order of their beginnings.
    pub(crate) pieces: Vec<Piece>,
    /// The objects and lists that are open, by their places in `pieces`.
    open: Vec<usize>,
}

/// A string (with the colon behind it, where it is a key), or a whole object or list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    /// Where it begins.
    pub(crate) start: usize,
    /// Where it ends.
    pub(crate) end: usize,
    /// The place in the outline of the first piece that begins behind its end.
    pub(crate) following: usize,
    /// Of its text.
    pub(crate) hash: u64,
}

impl Outline {
    /// Outlines `json`, which must be well formed. False if there are blanks between its tokens,
    /// and so no outline.
    #[must_use]
    pub(crate) fn draw(&mut self, json: &[u8]) -> bool {
        let Self { pieces, open } = self;
        pieces.clear();
        open.clear();
        let mut at = 0;
        while at < json.len() {
            let hash = match json[at] {
                b'"' => {
                    let end = string_end(json, at);
                    let end = if json.get(end) == Some(&b':') { end + 1 } else { end };
                    let (start, following) = (at, pieces.len() + 1);
                    let hash = hash_of(&json[start..end]);
                    pieces.push(Piece { start, end, following, hash });
                    at = end;
                    hash
                }
                bracket @ (b'{' | b'[') => {
                    open.push(pieces.len());
                    let hash = mix(0, bracket.into());
                    pieces.push(Piece { start: at, end: at, following: 0, hash });
                    at += 1;
                    continue;
                }
                b'}' | b']' => {
                    let opened = open.pop().expect("well-formed JSON closes what it opened");
                    at += 1;
                    let following = pieces.len();
                    let piece = &mut pieces[opened];
                    (piece.end, piece.following) = (at, following);
                    piece.hash
                }
                b' ' | b'\n' | b'\r' | b'\t' => return false,
                plain => {
                    at += 1;
                    plain.into()
                }
            };
            if let Some(parent) = open.last() {
                let parent = &mut pieces[*parent];
                parent.hash = mix(parent.hash, hash);
            }
        }
        true
    }
}

/// Where the string that begins at `start` ends, behind its closing quote.
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

/// A one in each byte.
const EACH: u64 = 0x0101_0101_0101_0101;

/// Not zero if a byte of `word` is; its lowest bit that is set is in the first such byte.
fn zero_bytes(word: u64) -> u64 {
    word.wrapping_sub(EACH) & !word & (EACH << 7)
}

/// Where the member at `path` is, if there is one. The text must be well formed.
pub(crate) fn find_path(json: &[u8], path: &[&str]) -> Option<Range<usize>> {
    let whole = 0..json.len();
    path.iter().try_fold(whole, |within, key| find_member(json, within, key))
}

/// What has to be cut out so that an object is left without `member`: one comma goes with it.
pub(crate) fn cut_of(json: &[u8], member: Range<usize>) -> Range<usize> {
    let blanks = json[member.end..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    let end = member.end + blanks;
    if json.get(end) == Some(&b',') {
        return member.start..end + 1;
    }
    let before = json[..member.start].trim_ascii_end().strip_suffix(b",");
    before.map_or(member.start, <[u8]>::len)..end
}

/// Where the member `key` of the first object in `within` is: its key, its value, and what blanks
/// follow.
fn find_member(json: &[u8], within: Range<usize>, key: &str) -> Option<Range<usize>> {
    let (mut depth, mut at, mut found) = (0, within.start, None);
    while at < within.end {
        match json[at] {
            b'"' => {
                let end = string_end(json, at);
                let is_key = || json[end..].trim_ascii_start().starts_with(b":");
                if depth == 1 && json[at + 1..end - 1] == *key.as_bytes() && is_key() {
                    found = Some(at);
                }
                at = end;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        let is_over = depth == 0 && matches!(json[at], b'}' | b']');
        match found {
            Some(start) if is_over || depth == 1 && json[at] == b',' => return Some(start..at),
            None if is_over => return None,
            _ => at += 1,
        }
    }
    None
}

/// Eight bytes at a time: most pieces are shorter than what a better hash needs to get going.
fn hash_of(text: &[u8]) -> u64 {
    let (words, rest) = text.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let hash =
        words.iter().fold(text.len() as u64, |hash, word| mix(hash, u64::from_le_bytes(*word)));
    mix(hash, u64::from_le_bytes(last))
}

fn mix(hash: u64, word: u64) -> u64 {
    // Any odd number with its bits well spread does; this one is 2^64 divided by the golden ratio.
    let product = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    // Multiplying carries upwards only, so what came up is brought down.
    product ^ product.rotate_left(29)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outline(json: &str) -> Option<Outline> {
        let mut outline = Outline::default();
        // Of whatever text it was used for before.
        let _ = outline.draw(br#"{"before":["#);
        outline.draw(json.as_bytes()).then_some(outline)
    }

    fn pieces(json: &str) -> Vec<(&str, usize)> {
        let outline = outline(json).unwrap();
        outline.pieces.iter().map(|it| (&json[it.start..it.end], it.following)).collect()
    }

    #[test]
    fn strings_objects_and_lists_are_found_with_what_follows_them() {
        let json = r#"{"a":[1,"b\"}"],"c":{}}"#;
        let expected = [
            (json, 6),
            ("\"a\":", 2),
            (r#"[1,"b\"}"]"#, 4),
            (r#""b\"}""#, 4),
            ("\"c\":", 5),
            ("{}", 6),
        ];
        assert_eq!(pieces(json), expected);
    }

    #[test]
    fn blanks_count_only_within_strings() {
        assert!(outline(r#"{"a b":"c d"}"#).is_some());
        assert!(outline(r#"{"a": 1}"#).is_none());
    }

    #[test]
    fn equal_pieces_have_equal_hashes_wherever_they_stand() {
        let hash = |json: &str, place: usize| outline(json).unwrap().pieces[place].hash;
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
    fn a_member_is_taken_out_with_one_comma() {
        let check = |json: &str, expected: Option<&str>| {
            let member = find_path(json.as_bytes(), &["metadata", "m"]);
            let cut = member.map(|member| cut_of(json.as_bytes(), member));
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
    fn only_the_member_at_that_place_is_meant() {
        for json in [
            r#"{"m":1}"#,
            r#"{"kind":"metadata","spec":{"m":1}}"#,
            r#"{"metadata":{"labels":{"m":"x"},"name":"m"},"spec":{"metadata":{"m":1}}}"#,
            r#"{"spec":{"metadata":{"m":1}},"metadata":{"name":"a"}}"#,
            r#"{"metadata":[{"m":1}]}"#,
            r#"{"metadata":"m"}"#,
        ] {
            assert!(find_path(json.as_bytes(), &["metadata", "m"]).is_none(), "{json}");
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
