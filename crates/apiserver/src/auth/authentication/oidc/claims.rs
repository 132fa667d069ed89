//! [`Claims`]: the claims of a token, read as Go's JSON decoder reads them.

use machinery::codec::json::kind_name;
use machinery::{Object, Value};

/// See the [module documentation](self).
#[derive(Debug, Clone, Copy)]
pub(super) struct Claims<'a>(pub &'a Object);

impl<'a> Claims<'a> {
    /// A claim; None if the token does not have it.
    pub(super) fn get(self, name: &str) -> Option<&'a Value> {
        self.0.map().get(name)
    }

    /// A claim that is a string. Null is empty.
    pub(super) fn text(self, name: &str) -> Result<&'a str, String> {
        match self.present(name)? {
            Value::String(text) => Ok(text),
            Value::Null => Ok(""),
            other => Err(mismatch(other, "string")),
        }
    }

    /// A claim that is a boolean. Null is false.
    pub(super) fn boolean(self, name: &str) -> Result<bool, String> {
        match self.present(name)? {
            Value::Bool(value) => Ok(*value),
            Value::Null => Ok(false),
            other => Err(mismatch(other, "bool")),
        }
    }

    /// A claim that is a string or a list of strings.
    pub(super) fn texts(self, name: &str) -> Result<Vec<String>, String> {
        texts(self.present(name)?)
    }

    /// The audiences of the token.
    pub(super) fn audiences(self) -> Result<Vec<String>, String> {
        self.get("aud").map_or_else(|| Ok(Vec::new()), texts)
    }

    /// A claim that is a time, in whole seconds; None if the token does not have it.
    pub(super) fn time(self, name: &str) -> Result<Option<i64>, String> {
        match self.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Number(number)) => {
                #[allow(clippy::cast_possible_truncation, reason = "fractions do not count")]
                let whole = number.as_i64().or_else(|| number.as_f64().map(|it| it as i64));
                Ok(whole)
            }
            Some(other) => Err(mismatch(other, "json.Number")),
        }
    }

    fn present(self, name: &str) -> Result<&'a Value, String> {
        self.get(name).ok_or_else(|| "claim not present".to_owned())
    }
}

fn texts(value: &Value) -> Result<Vec<String>, String> {
    let text = |item: &Value| match item {
        Value::String(text) => Ok(text.clone()),
        Value::Null => Ok(String::new()),
        other => Err(mismatch(other, "string")),
    };
    match value {
        Value::Null => Ok(Vec::new()),
        // Upstream reports the list, which is not a string either.
        Value::Array(items) => {
            items.iter().map(text).collect::<Result<_, _>>().map_err(|_| mismatch(value, "string"))
        }
        item => Ok(vec![text(item)?]),
    }
}

fn mismatch(found: &Value, expected: &str) -> String {
    let found = kind_name(found);
    format!("json: cannot unmarshal {found} into Go value of type {expected}")
}
