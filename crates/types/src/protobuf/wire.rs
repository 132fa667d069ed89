//! Protobuf's wire format: keys, numbers, lengths; written to a vector, and read from untrusted
//! bytes.
//!
//! Errors are worded as Go's generated readers word them.

use std::borrow::Cow;
use std::fmt::Display;

/// The form of a value: the lower three bits of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WireType {
    Varint,
    Fixed64,
    Length,
    StartGroup,
    EndGroup,
    Fixed32,
}

impl WireType {
    fn of(key: u64) -> Result<Self, Error> {
        Ok(match key & 7 {
            0 => Self::Varint,
            1 => Self::Fixed64,
            2 => Self::Length,
            3 => Self::StartGroup,
            4 => Self::EndGroup,
            5 => Self::Fixed32,
            other => return Err(Error::new(format!("proto: illegal wireType {other}"))),
        })
    }
}

/// The bytes are not a valid message. The text is that of Go's reader.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    message: Cow<'static, str>,
}

impl Error {
    pub(super) fn new(message: impl Into<Cow<'static, str>>) -> Self {
        Self { message: message.into() }
    }

    fn truncated() -> Self {
        Self::new("unexpected EOF")
    }

    fn overflow() -> Self {
        Self::new("proto: integer overflow")
    }
}

/// Appends the key of a field.
pub(super) fn push_key(out: &mut Vec<u8>, field_number: u16, wire_type: WireType) {
    push_varint(out, u64::from(field_number) << 3 | wire_type as u64);
}

/// Appends a number, seven bits a byte, the lowest first.
pub(super) fn push_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

/// Appends a field that is a number; a negative one always as 64 bits.
pub(super) fn push_int(out: &mut Vec<u8>, field_number: u16, value: i64) {
    push_key(out, field_number, WireType::Varint);
    push_varint(out, value.cast_unsigned());
}

/// Appends a field that is a floating point number.
pub(super) fn push_double(out: &mut Vec<u8>, field_number: u16, value: f64) {
    push_key(out, field_number, WireType::Fixed64);
    out.extend(value.to_le_bytes());
}

/// Appends a field that is bytes, text, or a message that is written already.
pub(super) fn push_bytes(out: &mut Vec<u8>, field_number: u16, bytes: &[u8]) {
    push_key(out, field_number, WireType::Length);
    push_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// A message within a message while it is written; [`Nested::end`] puts its length in front of it.
#[must_use]
pub(super) struct Nested {
    start: usize,
}

impl Nested {
    pub(super) fn begin(out: &mut Vec<u8>, field_number: u16) -> Self {
        push_key(out, field_number, WireType::Length);
        // Most messages are short enough for a length of one byte.
        out.push(0);
        Self { start: out.len() }
    }

    pub(super) fn end(self, out: &mut Vec<u8>) {
        let end = out.len();
        let length = end - self.start;
        if length < 0x80 {
            out[self.start - 1] = length.to_le_bytes()[0];
            return;
        }
        push_varint(out, length as u64);
        let (mut prefix, size) = ([0; 10], out.len() - end);
        prefix[..size].copy_from_slice(&out[end..]);
        out.pop();
        out.copy_within(self.start..end, self.start + size - 1);
        out[self.start - 1..][..size].copy_from_slice(&prefix[..size]);
    }
}

/// Reads a message field by field.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The field number and the wire type of the next field; None at the end. Errors name the
    /// `message`.
    pub(super) fn key(&mut self, message: impl Display) -> Result<Option<(u32, WireType)>, Error> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let wire_type = WireType::of(key)?;
        if wire_type == WireType::EndGroup {
            let why = format!("proto: {message}: wiretype end group for non-group");
            return Err(Error::new(why));
        }
        let field_number = u32::try_from(key >> 3).ok().filter(|it| (1..1 << 29).contains(it));
        // As in Go: the wire type in the message is the whole key.
        let illegal = || {
            let number = key >> 3;
            Error::new(format!("proto: {message}: illegal tag {number} (wire type {key})"))
        };
        Ok(Some((field_number.ok_or_else(illegal)?, wire_type)))
    }

    pub(super) fn varint(&mut self) -> Result<u64, Error> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let [byte, rest @ ..] = self.rest else { return Err(Error::truncated()) };
            self.rest = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if *byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Error::overflow())
    }

    pub(super) fn double(&mut self) -> Result<f64, Error> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or_else(Error::truncated)?;
        self.rest = rest;
        Ok(f64::from_le_bytes(*bytes))
    }

    /// Bytes with their length in front.
    pub(super) fn bytes(&mut self) -> Result<&'a [u8], Error> {
        let length = self.varint()?.cast_signed();
        let negative = || Error::new("proto: negative length found during unmarshaling");
        let length = usize::try_from(length).map_err(|_| negative())?;
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or_else(Error::truncated)?;
        self.rest = rest;
        Ok(bytes)
    }

    /// Skips the value of an unknown field.
    pub(super) fn skip(&mut self, wire_type: WireType) -> Result<(), Error> {
        let mut groups = 0_usize;
        let mut wire_type = wire_type;
        loop {
            match wire_type {
                WireType::Varint => {
                    self.varint()?;
                }
                WireType::Fixed64 => self.advance(8)?,
                WireType::Fixed32 => self.advance(4)?,
                WireType::Length => {
                    self.bytes()?;
                }
                WireType::StartGroup => groups += 1,
                WireType::EndGroup => {
                    groups = groups
                        .checked_sub(1)
                        .ok_or_else(|| Error::new("proto: unexpected end of group"))?;
                }
            }
            if groups == 0 {
                return Ok(());
            }
            wire_type = WireType::of(self.varint()?)?;
        }
    }

    fn advance(&mut self, count: usize) -> Result<(), Error> {
        self.rest = self.rest.get(count..).ok_or_else(Error::truncated)?;
        Ok(())
    }
}
