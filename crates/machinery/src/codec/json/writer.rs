//! Writes JSON with numbers as Go writes them: `1`, not `1.0`; `1e+21`, not `1e21`.

use crate::Value;
use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter, Serializer};
use std::io;

/// Appends a value to `out`.
pub fn write(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    serialize(out, value, GoNumbers(CompactFormatter));
}

/// Appends a value to `out`, on many lines.
pub fn write_pretty(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    serialize(out, value, GoNumbers(PrettyFormatter::new()));
}

/// A value as text.
pub fn to_text(value: &Value) -> String {
    let mut out = Vec::new();
    write(&mut out, value);
    String::from_utf8(out).unwrap_or_default()
}

fn serialize(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized), formatter: impl Formatter) {
    value
        .serialize(&mut Serializer::with_formatter(out, formatter))
        .expect("a JSON value can always be written to memory");
}

/// Another formatter, but for floats.
struct GoNumbers<F>(F);

impl<F: Formatter> Formatter for GoNumbers<F> {
    fn write_f64<W: io::Write + ?Sized>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        writer.write_all(float_text(value).as_bytes())
    }

    fn begin_array<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_array(writer)
    }

    fn end_array<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array(writer)
    }

    fn begin_array_value<W: io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.0.begin_array_value(writer, first)
    }

    fn end_array_value<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array_value(writer)
    }

    fn begin_object<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object(writer)
    }

    fn end_object<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object(writer)
    }

    fn begin_object_key<W: io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.0.begin_object_key(writer, first)
    }

    fn begin_object_value<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object_value(writer)
    }

    fn end_object_value<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object_value(writer)
    }
}

/// Upstream: encoding/json/encode.go floatEncoder; an exponent from 1e21 on and below 1e-6.
fn float_text(float: f64) -> String {
    if float == 0.0 {
        // Go writes -0 and reads it as 0, so that it is 0 as soon as it was stored.
        return "0".to_owned();
    }
    if (1e-6..1e21).contains(&float.abs()) {
        return float.to_string();
    }
    let text = format!("{float:e}");
    match text.split_once('e') {
        Some((mantissa, exponent)) if !exponent.starts_with('-') => {
            format!("{mantissa}e+{exponent}")
        }
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn floats_are_written_as_go_writes_them() {
        let floats = json!([1.0, -0.0, 1.5, 1e20, 1e21, 1.5e300, 1e-6, 1e-7, {"a": 100.0}]);
        let expected = r#"[1,0,1.5,100000000000000000000,1e+21,1.5e+300,0.000001,1e-7,{"a":100}]"#;
        assert_eq!(to_text(&floats), expected);
    }
}
