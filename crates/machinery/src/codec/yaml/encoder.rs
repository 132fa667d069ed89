//! A YAML encoder with the output of kubectl: block style, sorted keys, lines of about 80 columns.

use std::cmp::Ordering;

use super::scalar::reads_as_string;
use crate::{Map, Value};

/// A line is broken at the first space beyond this column.
const WIDTH: usize = 80;
const INDENT: usize = 2;

/// A key with more bytes than this is written as a complex key (`? key`), as in Go's library:
/// parsers look for the colon after a simple key only within 1024 characters.
const MAX_SIMPLE_KEY: usize = 128;

/// The whole document, with a final newline.
pub fn encode(value: &Value) -> String {
    let mut encoder = Encoder { out: String::new() };
    match value {
        Value::Object(map) if !map.is_empty() => encoder.mapping(map, 0),
        Value::Array(list) if !list.is_empty() => encoder.sequence(list, 0),
        scalar => encoder.scalar(scalar, 0),
    }
    encoder.out
}

struct Encoder {
    out: String,
}

impl Encoder {
    /// The first line continues the current line; the others begin at `indent`.
    fn mapping(&mut self, map: &Map<String, Value>, indent: usize) {
        let mut entries: Vec<(&String, &Value)> = map.iter().collect();
        entries.sort_by_cached_key(|(key, _)| natural_order(key));
        for (index, (key, value)) in entries.into_iter().enumerate() {
            if index > 0 {
                self.spaces(indent);
            }
            if key.len() > MAX_SIMPLE_KEY {
                self.complex_entry(key, value, indent);
                continue;
            }
            self.text(key, None);
            self.out.push(':');
            match value {
                Value::Object(map) if !map.is_empty() => {
                    self.out.push('\n');
                    self.spaces(indent + INDENT);
                    self.mapping(map, indent + INDENT);
                }
                // A list has the indentation of its key.
                Value::Array(list) if !list.is_empty() => {
                    self.out.push('\n');
                    self.spaces(indent);
                    self.sequence(list, indent);
                }
                scalar => {
                    self.out.push(' ');
                    self.scalar(scalar, indent);
                }
            }
        }
    }

    /// An entry with a complex key, see [`MAX_SIMPLE_KEY`].
    fn complex_entry(&mut self, key: &str, value: &Value, indent: usize) {
        self.out += "? ";
        self.scalar(&Value::String(key.to_owned()), indent);
        self.spaces(indent);
        self.out += ": ";
        match value {
            Value::Object(map) if !map.is_empty() => self.mapping(map, indent + INDENT),
            Value::Array(list) if !list.is_empty() => self.sequence(list, indent + INDENT),
            scalar => self.scalar(scalar, indent),
        }
    }

    /// The first line continues the current line; the others begin at `indent`.
    fn sequence(&mut self, list: &[Value], indent: usize) {
        for (index, value) in list.iter().enumerate() {
            if index > 0 {
                self.spaces(indent);
            }
            self.out += "- ";
            match value {
                Value::Object(map) if !map.is_empty() => self.mapping(map, indent + INDENT),
                Value::Array(list) if !list.is_empty() => self.sequence(list, indent + INDENT),
                scalar => self.scalar(scalar, indent),
            }
        }
    }

    fn scalar(&mut self, value: &Value, indent: usize) {
        match value {
            Value::String(text) => self.text(text, Some(indent + INDENT)),
            Value::Array(_) => self.out += "[]",
            Value::Object(_) => self.out += "{}",
            other => self.out += &other.to_string(),
        }
        if !matches!(value, Value::String(text) if text.contains('\n')) || !self.out.ends_with('\n')
        {
            self.out.push('\n');
        }
    }

    /// `next_line` is the indentation of further lines; None for a key, which must be on one line.
    fn text(&mut self, text: &str, next_line: Option<usize>) {
        let styles = ScalarStyles::of(text);
        match next_line {
            Some(indent) if text.contains('\n') && styles.may_be_block => {
                self.literal(text, indent);
            }
            _ if text.contains('\n') || !reads_as_string(text) => {
                self.double_quoted(text, next_line);
            }
            _ if styles.may_be_plain => self.folded(text, next_line),
            _ if styles.may_be_single_quoted => {
                self.out.push('\'');
                self.folded(&text.replace('\'', "''"), next_line);
                self.out.push('\'');
            }
            _ => self.double_quoted(text, next_line),
        }
    }

    /// Breaks long text where there is a single space.
    fn folded(&mut self, text: &str, next_line: Option<usize>) {
        let mut column = self.column();
        let mut rest = text;
        let mut after_space = true;
        while let Some(c) = rest.chars().next() {
            rest = &rest[c.len_utf8()..];
            let may_break = c == ' ' && !after_space && !rest.is_empty() && !rest.starts_with(' ');
            match next_line {
                Some(indent) if may_break && column > WIDTH => {
                    self.out.push('\n');
                    self.spaces(indent);
                    column = indent;
                }
                _ => {
                    self.out.push(c);
                    column += 1;
                }
            }
            after_space = c == ' ';
        }
    }

    fn double_quoted(&mut self, text: &str, next_line: Option<usize>) {
        let mut column = self.column() + 1;
        self.out.push('"');
        let mut chars = text.char_indices().peekable();
        let mut after_space = true;
        while let Some((index, c)) = chars.next() {
            let may_break = c == ' ' && !after_space && index > 0 && chars.peek().is_some();
            after_space = c == ' ';
            if let Some(indent) = next_line.filter(|_| may_break && column > WIDTH) {
                self.out.push('\n');
                self.spaces(indent);
                column = indent;
                if chars.peek().is_some_and(|(_, next)| *next == ' ') {
                    self.out.push('\\');
                    column += 1;
                }
                continue;
            }
            let before = self.out.len();
            push_escaped(&mut self.out, c);
            column += self.out.len() - before;
        }
        self.out.push('"');
    }

    fn literal(&mut self, text: &str, indent: usize) {
        self.out.push('|');
        if text.starts_with([' ', '\n']) {
            self.out += &INDENT.to_string();
        }
        if !text.ends_with('\n') {
            self.out.push('-');
        } else if text == "\n" || text.ends_with("\n\n") {
            self.out.push('+');
        }
        self.out.push('\n');
        for line in text.split_inclusive('\n') {
            if line != "\n" {
                self.spaces(indent);
            }
            self.out += line;
        }
        if !text.ends_with('\n') {
            self.out.push('\n');
        }
    }

    fn spaces(&mut self, count: usize) {
        self.out.extend(std::iter::repeat_n(' ', count));
    }

    fn column(&self) -> usize {
        let line = self.out.rfind('\n').map_or(0, |newline| newline + 1);
        self.out[line..].chars().count()
    }
}

/// The styles in which a text can be written without loss.
struct ScalarStyles {
    may_be_plain: bool,
    may_be_single_quoted: bool,
    may_be_block: bool,
}

impl ScalarStyles {
    fn of(text: &str) -> Self {
        let is_special = text.chars().any(|c| !is_printable(c));
        let is_padded = text.starts_with([' ', '\n']) || text.ends_with([' ', '\n']);
        let may_be_single_quoted = !is_special && !text.contains(" \n");
        Self {
            may_be_plain: may_be_single_quoted && !is_padded && !has_indicators(text),
            may_be_single_quoted,
            may_be_block: may_be_single_quoted && !text.ends_with(' '),
        }
    }
}

/// Whether the text as a plain scalar would contain YAML syntax.
fn has_indicators(text: &str) -> bool {
    if text.starts_with("---") || text.starts_with("...") {
        return true;
    }
    let mut previous = None;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let before_space = chars.peek().is_none_or(|next| matches!(next, ' ' | '\t' | '\n' | '\r'));
        let is_indicator = match (previous, c) {
            (None, c) if "#,[]{}&*!|>'\"%@`".contains(c) => true,
            (None, '?' | '-') | (_, ':') => before_space,
            (Some(before), '#') => matches!(before, ' ' | '\t' | '\n'),
            _ => false,
        };
        if is_indicator {
            return true;
        }
        previous = Some(c);
    }
    text.is_empty()
}

fn is_printable(c: char) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}')
        && !matches!(c, '\u{2028}' | '\u{2029}')
}

fn push_escaped(out: &mut String, c: char) {
    match c {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\n' => out.push_str("\\n"),
        '\t' => out.push_str("\\t"),
        '\r' => out.push_str("\\r"),
        '\0' => out.push_str("\\0"),
        '\u{7}' => out.push_str("\\a"),
        '\u{8}' => out.push_str("\\b"),
        '\u{b}' => out.push_str("\\v"),
        '\u{c}' => out.push_str("\\f"),
        '\u{1b}' => out.push_str("\\e"),
        '\u{85}' => out.push_str("\\N"),
        '\u{2028}' => out.push_str("\\L"),
        '\u{2029}' => out.push_str("\\P"),
        c if is_printable(c) => out.push(c),
        c if (c as u32) < 0x100 => *out += &format!("\\x{:02X}", c as u32),
        c if (c as u32) < 0x10000 => *out += &format!("\\u{:04X}", c as u32),
        c => *out += &format!("\\U{:08X}", c as u32),
    }
}

/// The sort key of a mapping's key: `a2` before `a10`, signs before digits before letters.
fn natural_order(key: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut rest = key;
    while let Some(c) = rest.chars().next() {
        let length = match c {
            c if c.is_ascii_digit() => rest.bytes().take_while(u8::is_ascii_digit).count(),
            c => c.len_utf8(),
        };
        let (piece, after) = rest.split_at(length);
        rest = after;
        pieces.push(match c {
            c if c.is_ascii_digit() => Piece::Digits(Digits(piece.to_owned())),
            c if c.is_alphabetic() => Piece::Letter(c),
            c => Piece::Sign(c),
        });
    }
    pieces
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Piece {
    Sign(char),
    Digits(Digits),
    Letter(char),
}

#[derive(PartialEq, Eq)]
struct Digits(String);

impl Ord for Digits {
    fn cmp(&self, other: &Self) -> Ordering {
        let number = |digits: &Self| digits.0.trim_start_matches('0').to_owned();
        let (a, b) = (number(self), number(other));
        (a.len(), a, self.0.len()).cmp(&(b.len(), b, other.0.len()))
    }
}

impl PartialOrd for Digits {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
