//! A JSON encoder with the output of Go's `encoding/json`: `<`, `>`, `&` and Unicode's two line
//! separators are escaped, and floats between 1e-6 and 1e21 have no exponent.

use std::io;

use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter};

use crate::Value;

/// Appends a value, without spaces.
pub fn write(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    let mut serializer = Serializer::with_formatter(out, Go(CompactFormatter));
    value.serialize(&mut serializer).expect("a JSON value can always be written to memory");
}

/// Appends a value on separate lines, indented by two spaces.
pub fn write_pretty(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    let mut serializer = Serializer::with_formatter(out, Go(PrettyFormatter::new()));
    value.serialize(&mut serializer).expect("a JSON value can always be written to memory");
}

/// Appends a text in quotes. It is several times as fast as [`write()`] if nothing is escaped.
pub fn write_text(out: &mut Vec<u8>, text: &str) {
    if find(text.as_bytes(), is_escaped).is_some() {
        return write(out, text);
    }
    out.reserve(text.len() + 2);
    out.push(b'"');
    out.extend_from_slice(text.as_bytes());
    out.push(b'"');
}

/// A value as text.
pub fn to_text(value: &Value) -> String {
    let mut out = Vec::new();
    write(&mut out, value);
    String::from_utf8(out).unwrap_or_default()
}

/// Go's spelling of strings and floats, in the layout of another formatter.
struct Go<F>(F);

impl<F: Formatter> Formatter for Go<F> {
    fn write_string_fragment<W>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()>
    where
        W: ?Sized + io::Write,
    {
        let mut rest = fragment;
        while let Some((at, escape)) = next_escape(rest) {
            writer.write_all(&rest.as_bytes()[..at])?;
            writer.write_all(escape.as_bytes())?;
            let width = if rest.as_bytes()[at] < 0x80 { 1 } else { 3 };
            rest = &rest[at + width..];
        }
        writer.write_all(rest.as_bytes())
    }

    fn write_f64<W>(&mut self, writer: &mut W, value: f64) -> io::Result<()>
    where
        W: ?Sized + io::Write,
    {
        let size = value.abs();
        if size == 0.0 {
            // Go encodes -0 as -0 but decodes it as 0; a stored value is always 0.
            return writer.write_all(b"0");
        }
        if (1e-6..1e21).contains(&size) {
            return write!(writer, "{value}");
        }
        let text = format!("{value:e}");
        match text.split_once('e') {
            Some((digits, power)) if !power.starts_with('-') => {
                write!(writer, "{digits}e+{power}")
            }
            _ => writer.write_all(text.as_bytes()),
        }
    }

    fn begin_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_array(writer)
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array(writer)
    }

    fn begin_array_value<W: ?Sized + io::Write>(
        &mut self,
        w: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.0.begin_array_value(w, first)
    }

    fn end_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array_value(writer)
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object(writer)
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object(writer)
    }

    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        w: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.0.begin_object_key(w, first)
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object_value(writer)
    }

    fn end_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object_value(writer)
    }
}

/// Whether a byte is escaped, or begins a character that may be.
const fn is_escaped(byte: u8) -> bool {
    byte < 0x20 || matches!(byte, b'"' | b'\\') || is_escaped_by_go(byte)
}

/// Whether Go escapes the character that begins with this byte and `serde_json` does not; true for
/// some other characters, too.
const fn is_escaped_by_go(byte: u8) -> bool {
    matches!(byte, b'<' | b'>' | b'&' | 0xE2)
}

/// The number of bytes that are searched at once.
const CHUNK: usize = 64;

/// The position of the first byte that meets the condition.
///
/// All bytes of a chunk are read, so that its loop has no branches and is compiled to vector
/// instructions. The bytes after the last chunk are read one by one.
fn find(bytes: &[u8], condition: impl Fn(u8) -> bool) -> Option<usize> {
    let (chunks, _) = bytes.as_chunks::<CHUNK>();
    let has = |chunk: &[u8; CHUNK]| chunk.iter().fold(false, |has, byte| has | condition(*byte));
    let from = chunks.iter().take_while(|chunk| !has(chunk)).count() * CHUNK;
    let found = bytes[from..].iter().position(|byte| condition(*byte))?;
    Some(from + found)
}

/// The position and the escape of the first character that Go escapes and `serde_json` does not.
fn next_escape(text: &str) -> Option<(usize, &'static str)> {
    let bytes = text.as_bytes();
    let mut from = 0;
    loop {
        let at = from + find(&bytes[from..], is_escaped_by_go)?;
        let escape = match &bytes[at..] {
            [b'<', ..] => "\\u003c",
            [b'>', ..] => "\\u003e",
            [b'&', ..] => "\\u0026",
            [0xE2, 0x80, 0xA8, ..] => "\\u2028",
            [0xE2, 0x80, 0xA9, ..] => "\\u2029",
            _ => {
                from = at + 1;
                continue;
            }
        };
        return Some((at, escape));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    fn check(value: &Value, expect: &str) {
        assert_eq!(to_text(value), expect);
    }

    #[test]
    fn markup_and_line_separators_are_escaped() {
        check(
            &json!({"<a>": "x && y\u{2028}\u{2029}\u{2027}\"\u{8}€"}),
            "{\"\\u003ca\\u003e\":\"x \\u0026\\u0026 y\\u2028\\u2029\u{2027}\\\"\\b€\"}",
        );
    }

    #[test]
    fn an_escape_is_found_at_every_position() {
        for length in [0, 1, 7, 63, 64, 65, 600] {
            let plain = "a".repeat(length);
            for (character, escape) in [
                ("<", "\\u003c"),
                ("\u{2028}", "\\u2028"),
                ("\"", "\\\""),
                ("€", "€"),
                ("\t", "\\t"),
            ] {
                let text = format!("{plain}{character}{plain}");
                let expected = format!("\"{plain}{escape}{plain}\"");
                check(&json!(text), &expected);
                let mut out = Vec::new();
                write_text(&mut out, &text);
                assert_eq!(String::from_utf8(out).unwrap(), expected);
            }
        }
    }

    #[test]
    fn floats_have_an_exponent_only_if_they_are_very_large_or_small() {
        check(
            &json!([1.5, 1e20, 1e21, 1.5e300, 0.000_001, 0.000_000_15, -2.5e-9, 0.0, -0.0, 1.0]),
            "[1.5,100000000000000000000,1e+21,1.5e+300,0.000001,1.5e-7,-2.5e-9,0,0,1]",
        );
    }

    #[test]
    fn pretty_text_is_indented_and_escaped() {
        let mut out = Vec::new();
        write_pretty(&mut out, &json!({"a": [1, "<"], "b": {}, "c": []}));
        let expect = "{\n  \"a\": [\n    1,\n    \"\\u003c\"\n  ],\n  \"b\": {},\n  \"c\": []\n}";
        assert_eq!(String::from_utf8(out).unwrap(), expect);
    }
}
