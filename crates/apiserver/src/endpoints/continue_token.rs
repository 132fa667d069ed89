//! [`ContinueToken`]: the position and the revision of the next page of a list.
//!
//! A token is not bound to the request that returned it, and a client can forge one: its key is
//! relative to the prefix of the request that sends it, and cannot leave that prefix.

use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use base64::{DecodeError, Engine, alphabet};

use machinery::codec::json::kind_name;
use machinery::{Object, Status, Value, json};

/// A decoded `continue` token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ContinueToken {
    /// The revision of the whole list; None to continue with the current objects.
    pub revision: Option<u64>,
    /// The first key of the next page, without the prefix of the list.
    pub start: String,
    /// The number of objects from `start` on, if it is known. To count them again for each page
    /// would make the cost of a paged list quadratic. It is valid only for a list with the same
    /// prefix.
    pub remaining: Option<usize>,
}

impl ContinueToken {
    /// Encodes the token of a list with this prefix.
    pub(super) fn encode(&self, prefix: &str) -> String {
        let revision = self.revision.map_or(json!(-1), Value::from);
        let start = if self.start.is_empty() { "/" } else { &self.start };
        let mut token = json!({"v": "meta.k8s.io/v1", "rv": revision, "start": start});
        if let Some(remaining) = self.remaining {
            token["remaining"] = remaining.into();
            token["prefix"] = prefix.into();
        }
        BASE64_URL_SAFE_NO_PAD.encode(token.to_string())
    }

    /// Decodes the token of a request for a list with this prefix. Upstream: storage/continue.go
    pub(super) fn decode(text: &str, prefix: &str) -> Result<Self, Status> {
        let invalid = |why: &str| {
            Status::bad_request(format!("invalid continue token: continue key is not valid: {why}"))
        };
        let bytes = GO_BASE64.decode(text).map_err(|error| invalid(&base64_error(text, &error)))?;
        let decoded =
            machinery::codec::json::decode(&bytes).map_err(|error| invalid(&error.to_string()))?;
        let token = parse(decoded.value).map_err(|why| invalid(&why))?;
        let version = token.str_at(&["v"]);
        if version != "meta.k8s.io/v1" {
            return Err(invalid(&format!(
                "server does not recognize this encoded version {version}"
            )));
        }
        let revision = token.get(&["rv"]).and_then(Value::as_i64).unwrap_or(0);
        if revision == 0 {
            return Err(invalid(
                "incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
            ));
        }
        let start = token.str_at(&["start"]);
        if start.is_empty() {
            return Err(invalid("encoded start key empty (version meta.k8s.io/v1)"));
        }
        // A key that contains `..` would belong to another list. `/` alone is the whole list.
        let key = start.strip_prefix('/').unwrap_or(start);
        if !key.is_empty() && key.split('/').any(|it| matches!(it, "" | "." | "..")) {
            return Err(invalid(start));
        }
        let remaining = token.get(&["remaining"]).and_then(Value::as_u64);
        let remaining = remaining.filter(|_| token.str_at(&["prefix"]) == prefix);
        Ok(Self {
            revision: u64::try_from(revision).ok(),
            start: key.to_owned(),
            remaining: remaining.and_then(|it| usize::try_from(it).ok()),
        })
    }
}

/// Go's base64 decoder ignores trailing bits.
const GO_BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone),
);

/// Go's error message for invalid base64.
fn base64_error(text: &str, error: &DecodeError) -> String {
    let at = match error {
        DecodeError::InvalidByte(at, _) => *at,
        // A single trailing character encodes less than a byte; or the text has padding.
        _ => text.find('=').unwrap_or(text.len() - 1),
    };
    format!("illegal base64 data at input byte {at}")
}

/// Checks the types of the members of a token.
fn parse(value: Value) -> Result<Object, String> {
    let unmarshal_error = |value: &Value, place: &str| {
        let mut found = kind_name(value).to_owned();
        if value.is_f64() {
            found = format!("{found} {value}");
        }
        format!("json: cannot unmarshal {found} into Go {place}")
    };
    if !matches!(value, Value::Object(_) | Value::Null) {
        return Err(unmarshal_error(&value, "value of type storage.continueToken"));
    }
    let token = Object::from_value(value).unwrap_or_default();
    for (member, ty) in [("v", "string"), ("rv", "int64"), ("start", "string")] {
        let fits = match token.map().get(member) {
            None | Some(Value::Null) => true,
            Some(value) if ty == "string" => value.is_string(),
            Some(value) => value.is_i64(),
        };
        if !fits {
            let place = format!("struct field continueToken.{member} of type {ty}");
            return Err(unmarshal_error(&token.map()[member], &place));
        }
    }
    Ok(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_survives_encoding_and_decoding() {
        let token =
            ContinueToken { revision: Some(42), start: "ns/name".to_owned(), remaining: Some(3) };
        assert_eq!(ContinueToken::decode(&token.encode("/a/"), "/a/").unwrap(), token);
        let uncounted = ContinueToken { remaining: None, ..token.clone() };
        assert_eq!(ContinueToken::decode(&token.encode("/a/"), "/a/b/").unwrap(), uncounted);
        let token = ContinueToken { revision: None, ..uncounted };
        assert_eq!(ContinueToken::decode(&token.encode("/a/"), "/a/").unwrap(), token);
    }

    #[test]
    fn an_invalid_token_is_rejected() {
        for text in ["abc", "", "!!", "e30", &BASE64_URL_SAFE_NO_PAD.encode("[]")] {
            assert_eq!(ContinueToken::decode(text, "/a/").unwrap_err().code, 400, "{text}");
        }
    }

    #[test]
    fn a_start_outside_of_the_list_is_rejected() {
        let decoded = |start: &str| {
            let token =
                ContinueToken { revision: Some(1), start: start.to_owned(), remaining: None };
            ContinueToken::decode(&token.encode("/a/"), "/a/")
                .map(|it| it.start)
                .map_err(|it| it.code)
        };
        for start in ["..", "../b/x", "/../b", "x/../../b", "./x", "x//y", "//b", "x/", "x/.."] {
            assert_eq!(decoded(start), Err(400), "{start}");
        }
        assert_eq!(decoded("/x/y").as_deref(), Ok("x/y"));
        assert_eq!(decoded("...").as_deref(), Ok("..."));
        assert_eq!(decoded("/").as_deref(), Ok(""));
    }

    #[test]
    fn each_invalid_token_has_its_own_error() {
        let check = |text: &str, why: &str| {
            let message = ContinueToken::decode(text, "/a/").unwrap_err().message;
            let why = format!("invalid continue token: continue key is not valid: {why}");
            assert_eq!(message, why, "{text}");
        };
        let json = |text: &str| BASE64_URL_SAFE_NO_PAD.encode(text);
        check("x", "illegal base64 data at input byte 0");
        check("ab!d", "illegal base64 data at input byte 2");
        check("abcde", "illegal base64 data at input byte 4");
        check("zzz", "invalid character 'Ï' looking for beginning of value");
        check(&json("{}"), "server does not recognize this encoded version ");
        check(
            &json(r#"{"v":1}"#),
            "json: cannot unmarshal number into Go struct field continueToken.v of type string",
        );
        check(
            &json(r#"{"v":"meta.k8s.io/v1"}"#),
            "incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
        );
        check(
            &json(r#"{"v":"meta.k8s.io/v1","rv":1}"#),
            "encoded start key empty (version meta.k8s.io/v1)",
        );
        check(&json(r#"{"v":"meta.k8s.io/v1","rv":1,"start":"a//b"}"#), "a//b");
    }
}
