//! [`Message`]: an encoder for a protobuf message.

/// See the [module documentation](self).
#[derive(Debug, Default)]
pub(super) struct Message(Vec<u8>);

/// The wire types: the lower three bits of a field's key.
const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const LENGTH: u32 = 2;

impl Message {
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    pub(super) fn text(&mut self, field_number: u32, text: &str) {
        self.bytes(field_number, text.as_bytes());
    }

    pub(super) fn message(&mut self, field_number: u32, message: &Self) {
        self.bytes(field_number, &message.0);
    }

    /// False and zeros are omitted: they are the defaults of proto3.
    pub(super) fn bool(&mut self, field_number: u32, value: bool) {
        self.int(field_number, value.into());
    }

    pub(super) fn int(&mut self, field_number: u32, value: i64) {
        if value != 0 {
            self.key(field_number, VARINT);
            self.varint(value.cast_unsigned());
        }
    }

    pub(super) fn double(&mut self, field_number: u32, value: f64) {
        if value != 0.0 {
            self.key(field_number, FIXED64);
            self.0.extend(value.to_le_bytes());
        }
    }

    fn bytes(&mut self, field_number: u32, bytes: &[u8]) {
        self.key(field_number, LENGTH);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
    }

    fn key(&mut self, field_number: u32, wire_type: u32) {
        self.varint(u64::from(field_number << 3 | wire_type));
    }

    fn varint(&mut self, mut value: u64) {
        loop {
            let [low, ..] = value.to_le_bytes();
            value >>= 7;
            if value == 0 {
                return self.0.push(low);
            }
            self.0.push(low | 0x80);
        }
    }
}
