//! The tokens of JSON: punctuation, strings, numbers and words, with Go's errors.

use super::super::DecodeError;
use crate::Value;
use crate::field_path::quote;

type Result<T> = std::result::Result<T, DecodeError>;

/// The input and the position in it.
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The position of the last number.
    number_start: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, number_start: 0 }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// Skips white space and takes the next byte.
    fn token(&mut self) -> Result<u8> {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.peek() {
            self.at += 1;
        }
        self.take()
    }

    fn take(&mut self) -> Result<u8> {
        let byte = self.peek().ok_or_else(|| DecodeError::new("unexpected end of JSON input"))?;
        self.at += 1;
        Ok(byte)
    }

    /// Takes the first byte of a value.
    pub(super) fn start_of_value(&mut self) -> Result<u8> {
        match self.token()? {
            byte @ (b'{' | b'[' | b'"' | b'-' | b'0'..=b'9' | b't' | b'f' | b'n') => Ok(byte),
            other => Err(invalid(other, "looking for beginning of value")),
        }
    }

    /// After `{`: the first key, or None if the object is empty.
    pub(super) fn first_key(&mut self) -> Result<Option<String>> {
        match self.token()? {
            b'}' => Ok(None),
            b'"' => self.key().map(Some),
            other => Err(invalid(other, "looking for beginning of object key string")),
        }
    }

    /// After a value of an object: the next key, or None at the end of the object.
    pub(super) fn after_pair(&mut self) -> Result<Option<String>> {
        match self.token()? {
            b'}' => Ok(None),
            b',' => match self.token()? {
                b'"' => self.key().map(Some),
                other => Err(invalid(other, "looking for beginning of object key string")),
            },
            other => Err(invalid(other, "after object key:value pair")),
        }
    }

    fn key(&mut self) -> Result<String> {
        let key = self.string()?;
        match self.token()? {
            b':' => Ok(key),
            other => Err(invalid(other, "after object key")),
        }
    }

    /// After `[`: whether the array is empty. If so, takes the closing bracket.
    pub(super) fn is_empty_array(&mut self) -> Result<bool> {
        let closed = self.token()? == b']';
        if !closed {
            self.at -= 1;
        }
        Ok(closed)
    }

    /// After an element: whether there is another one.
    pub(super) fn after_element(&mut self) -> Result<bool> {
        match self.token()? {
            b',' => Ok(true),
            b']' => Ok(false),
            other => Err(invalid(other, "after array element")),
        }
    }

    /// After the value: only white space may follow.
    pub(super) fn end(&mut self) -> Result<()> {
        match self.token() {
            Ok(other) => Err(invalid(other, "after top-level value")),
            Err(_) => Ok(()),
        }
    }

    /// The scalar that begins with `first`.
    pub(super) fn scalar(&mut self, first: u8) -> Result<Value> {
        match first {
            b'"' => Ok(Value::String(self.string()?)),
            b't' => self.word("true", Value::Bool(true)),
            b'f' => self.word("false", Value::Bool(false)),
            b'n' => self.word("null", Value::Null),
            _ => self.number(first),
        }
    }

    fn word(&mut self, word: &str, value: Value) -> Result<Value> {
        for expected in word.bytes().skip(1) {
            let found = self.take()?;
            if found != expected {
                let expected = char::from(expected);
                return Err(invalid(found, &format!("in literal {word} (expecting '{expected}')")));
            }
        }
        Ok(value)
    }

    fn number(&mut self, first: u8) -> Result<Value> {
        self.number_start = self.at - 1;
        let first = if first == b'-' { self.take()? } else { first };
        match first {
            b'0' => {}
            b'1'..=b'9' => self.skip_digits(),
            other => return Err(invalid(other, "in numeric literal")),
        }
        let mut is_integer = true;
        if self.peek() == Some(b'.') {
            is_integer = false;
            self.at += 1;
            self.digits("after decimal point in numeric literal")?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            is_integer = false;
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits("in exponent of numeric literal")?;
        }
        Ok(number_value(self.number_text(), is_integer))
    }

    /// The text of the number that was just read.
    pub(super) fn number_text(&self) -> &'a str {
        std::str::from_utf8(&self.bytes[self.number_start..self.at]).unwrap_or_default()
    }

    fn skip_digits(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
    }

    fn digits(&mut self, place: &str) -> Result<()> {
        match self.take()? {
            byte if byte.is_ascii_digit() => {
                self.skip_digits();
                Ok(())
            }
            other => Err(invalid(other, place)),
        }
    }

    /// After the opening quote.
    fn string(&mut self) -> Result<String> {
        let mut text = String::new();
        loop {
            let rest = &self.bytes[self.at..];
            let plain =
                rest.iter().take_while(|byte| !matches!(byte, b'"' | b'\\' | 0..=0x1f)).count();
            push_lossy(&mut text, &rest[..plain]);
            self.at += plain;
            match self.take()? {
                b'"' => return Ok(text),
                b'\\' => text.push(self.escape()?),
                other => return Err(invalid(other, "in string literal")),
            }
        }
    }

    /// After the backslash.
    fn escape(&mut self) -> Result<char> {
        Ok(match self.take()? {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => self.unicode_escape()?,
            other => return Err(invalid(other, "in string escape code")),
        })
    }

    /// After `\u`. A second `\u` escape is taken only if it completes a surrogate pair.
    fn unicode_escape(&mut self) -> Result<char> {
        let unit = self.four_hex_digits()?;
        if (0xd800..0xdc00).contains(&unit) && self.bytes[self.at..].starts_with(b"\\u") {
            let before = self.at;
            self.at += 2;
            let low = self.four_hex_digits()?;
            if (0xdc00..0xe000).contains(&low) {
                let code = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
                return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            self.at = before;
        }
        Ok(char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    fn four_hex_digits(&mut self) -> Result<u32> {
        let mut unit = 0;
        for _ in 0..4 {
            let byte = self.take()?;
            let digit = char::from(byte)
                .to_digit(16)
                .ok_or_else(|| invalid(byte, "in \\u hexadecimal character escape"))?;
            unit = unit * 16 + digit;
        }
        Ok(unit)
    }
}

/// A number beyond the range of a float becomes the largest float.
fn number_value(text: &str, is_integer: bool) -> Value {
    if is_integer && let Ok(number) = text.parse::<i64>() {
        return number.into();
    }
    let float = text.parse::<f64>().unwrap_or_default();
    float.clamp(f64::MIN, f64::MAX).into()
}

/// An integer if `float` has no fraction and is exact, else a float; None if it is not finite.
pub(in crate::codec) fn whole_or_float(float: f64) -> Option<Value> {
    // 2^53: below it, integers and whole floats correspond one to one.
    if float.fract() == 0.0 && float.abs() < 9_007_199_254_740_992.0 {
        #[allow(clippy::cast_possible_truncation, reason = "it is whole and within 2^53")]
        return Some((float as i64).into());
    }
    serde_json::Number::from_f64(float).map(Value::Number)
}

/// Each byte that is not UTF-8 becomes one U+FFFD, as in Go.
fn push_lossy(text: &mut String, bytes: &[u8]) {
    if let Ok(valid) = std::str::from_utf8(bytes) {
        *text += valid;
        return;
    }
    for chunk in bytes.utf8_chunks() {
        *text += chunk.valid();
        text.extend(std::iter::repeat_n(char::REPLACEMENT_CHARACTER, chunk.invalid().len()));
    }
}

fn invalid(byte: u8, place: &str) -> DecodeError {
    let shown = match byte {
        b'\'' => r"'\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        byte => {
            let quoted = quote(&char::from(byte).to_string());
            format!("'{}'", &quoted[1..quoted.len() - 1])
        }
    };
    DecodeError::new(format!("invalid character {shown} {place}"))
}
