//! The envelope around the message of an object, which has its type, and the event around that in a
//! watch.

use super::wire::{Error, Nested, Reader, WireType, push_bytes, push_key, push_varint};

/// The prefix of every object.
const MAGIC: &[u8; 4] = b"k8s\0";

/// The field numbers of an envelope, Go's `runtime.Unknown`, and of the `TypeMeta` in it.
const TYPE_META: u16 = 1;
const RAW: u16 = 2;
const API_VERSION: u16 = 1;
const KIND: u16 = 2;

/// The field numbers of an event, and of the `RawExtension` around its object.
const EVENT_TYPE: u16 = 1;
const EVENT_OBJECT: u16 = 2;
const EXTENSION_RAW: u16 = 1;

/// An object as it was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// Its `apiVersion`, or "".
    pub api_version: String,
    /// Its `kind`, or "".
    pub kind: String,
    /// Its message.
    pub raw: &'a [u8],
}

impl<'a> Envelope<'a> {
    /// Reads an envelope.
    pub fn read(bytes: &'a [u8]) -> Result<Self, Error> {
        if bytes.is_empty() {
            return Err(Error::new("empty data"));
        }
        let Some(body) = bytes.strip_prefix(MAGIC) else {
            return Err(Error::new(format!(
                "provided data does not appear to be a protobuf message, expected prefix [{}]",
                MAGIC.map(|byte| byte.to_string()).join(" ")
            )));
        };
        if body.is_empty() {
            return Err(Error::new("empty body"));
        }
        let mut envelope = Self { api_version: String::new(), kind: String::new(), raw: &[] };
        let mut reader = Reader::new(body);
        while let Some((field_number, wire_type)) = reader.key("Unknown")? {
            match (u16::try_from(field_number), wire_type) {
                (Ok(TYPE_META), WireType::Length) => envelope.read_type(reader.bytes()?)?,
                (Ok(RAW), WireType::Length) => envelope.raw = reader.bytes()?,
                _ => reader.skip(wire_type)?,
            }
        }
        Ok(envelope)
    }

    fn read_type(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let mut reader = Reader::new(bytes);
        while let Some((field_number, wire_type)) = reader.key("TypeMeta")? {
            let field = match u16::try_from(field_number) {
                Ok(API_VERSION) => &mut self.api_version,
                Ok(KIND) => &mut self.kind,
                _ => {
                    reader.skip(wire_type)?;
                    continue;
                }
            };
            if wire_type != WireType::Length {
                reader.skip(wire_type)?;
                continue;
            }
            *field = String::from_utf8_lossy(reader.bytes()?).into_owned();
        }
        Ok(())
    }
}

/// Appends an envelope up to the message, of `length` bytes, which the caller appends then.
pub fn write_envelope(api_version: &str, kind: &str, length: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(MAGIC);
    let meta = Nested::begin(out, TYPE_META);
    push_bytes(out, API_VERSION, api_version.as_bytes());
    push_bytes(out, KIND, kind.as_bytes());
    meta.end(out);
    push_key(out, RAW, WireType::Length);
    push_varint(out, length as u64);
}

/// Appends an event of a watch with its length in front; `object` is in its envelope.
pub fn write_event(event_type: &str, object: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    push_bytes(out, EVENT_TYPE, event_type.as_bytes());
    let extension = Nested::begin(out, EVENT_OBJECT);
    push_bytes(out, EXTENSION_RAW, object);
    extension.end(out);
    let length = u32::try_from(out.len() - start - 4).expect("an object is smaller than 4 GiB");
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}
