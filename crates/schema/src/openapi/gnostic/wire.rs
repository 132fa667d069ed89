//! [`Message`]: a protobuf message while it is written.

/// See the [module documentation](self).
#[derive(Debug, Default)]
pub(super) struct Message(Vec<u8>);

/// The wire type of a field, the lower three bits of its key.
const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const LENGTH: u32 = 2;

impl Message {
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    pub(super) fn text(&mut self, tag: u32, text: &str) {
        self.bytes(tag, text.as_bytes());
    }

    pub(super) fn message(&mut self, tag: u32, message: &Self) {
        self.bytes(tag, &message.0);
    }

    /// False is omitted, since it is the reader's default; so are zeros.
    pub(super) fn bool(&mut self, tag: u32, value: bool) {
        self.int(tag, value.into());
    }

    pub(super) fn int(&mut self, tag: u32, value: i64) {
        if value != 0 {
            self.key(tag, VARINT);
            self.varint(value.cast_unsigned());
        }
    }

    pub(super) fn double(&mut self, tag: u32, value: f64) {
        if value != 0.0 {
            self.key(tag, FIXED64);
            self.0.extend(value.to_le_bytes());
        }
    }

    fn bytes(&mut self, tag: u32, bytes: &[u8]) {
        self.key(tag, LENGTH);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
    }

    fn key(&mut self, tag: u32, layout: u32) {
        self.varint(u64::from(tag << 3 | layout));
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
