//! Percent-encoding, which depends on the part of a URL.

use strconv::quote_bytes;

/// A part of a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Path,
    Host,
    /// The zone of an address.
    Zone,
    UserPassword,
    QueryComponent,
    Fragment,
}

/// Whether the byte needs no escape in this part.
fn is_plain(byte: u8, mode: Mode) -> bool {
    if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
        return true;
    }
    let others: &[u8] = match mode {
        Mode::Path => b"$&+,/:;=@",
        Mode::Host | Mode::Zone => b"!$&'()*+,;=:[]<>\"",
        Mode::UserPassword => b"$&+,;=",
        Mode::QueryComponent => b"",
        Mode::Fragment => b"$&+,/:;=?@!()*",
    };
    others.contains(&byte)
}

/// Whether the text needs no escapes.
pub(super) fn is_encoded(text: &[u8], mode: Mode) -> bool {
    text.iter().all(|byte| b"!$&'()*+,;=:@[]%".contains(byte) || is_plain(*byte, mode))
}

pub(super) fn escape(bytes: &[u8], mode: Mode) -> String {
    let mut escaped = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b' ' if mode == Mode::QueryComponent => escaped.push('+'),
            _ if is_plain(*byte, mode) => escaped.push(char::from(*byte)),
            _ => escaped += &format!("%{byte:02X}"),
        }
    }
    escaped
}

/// The decoded bytes of the text; the error is Go's.
pub(super) fn unescape(text: &[u8], mode: Mode) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, behind @ ..] = rest {
        rest = behind;
        match first {
            b'%' => {
                let escape = [b"%", &behind[..behind.len().min(2)]].concat();
                let (byte, after) = read_escape(behind, mode)
                    .ok_or_else(|| format!("invalid URL escape {}", quote_bytes(&escape)))?;
                bytes.push(byte);
                rest = after;
            }
            b'+' if mode == Mode::QueryComponent => bytes.push(b' '),
            _ => {
                let in_host = matches!(mode, Mode::Host | Mode::Zone);
                if in_host && first.is_ascii() && !is_plain(*first, mode) {
                    return Err(format!(
                        "invalid character {} in host name",
                        quote_bytes(&[*first])
                    ));
                }
                bytes.push(*first);
            }
        }
    }
    Ok(bytes)
}

/// The byte with these two digits, and the rest of the text; None if it may not be escaped here.
fn read_escape(digits: &[u8], mode: Mode) -> Option<(u8, &[u8])> {
    let [high, low, after @ ..] = digits else { return None };
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|it| u8::try_from(it).ok());
    let byte = digit(*high)? << 4 | digit(*low)?;
    let allowed = match mode {
        // A percent sign introduces a zone.
        Mode::Host => !byte.is_ascii() || byte == b'%',
        Mode::Zone => byte == b'%' || byte == b' ' || is_plain(byte, Mode::Host),
        _ => true,
    };
    allowed.then_some((byte, after))
}
