//! The `continue` token: where the next page begins, and at which revision.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use machinery::{Object, Status, Value, json};

/// What a token says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    /// Of the list as a whole; None: go on with whatever is there now.
    pub revision: Option<u64>,
    /// The first key of the next page, without the list's prefix.
    pub start: String,
    /// How many objects there are from there on, if somebody has counted: to count them again for
    /// each page would make a walk through a large list a square of its length.
    pub remaining: Option<usize>,
}

impl Token {
    /// For the client to send back.
    pub(super) fn encode(&self) -> String {
        let revision = self.revision.map_or(json!(-1), Value::from);
        let mut token = json!({"v": "meta.k8s.io/v1", "rv": revision, "start": self.start});
        if let Some(remaining) = self.remaining {
            token["remaining"] = remaining.into();
        }
        BASE64_URL_SAFE_NO_PAD.encode(token.to_string())
    }

    /// What the client sent back.
    pub(super) fn decode(text: &str) -> Result<Self, Status> {
        let invalid = |why: &str| {
            Status::bad_request(format!("invalid continue token: continue key is not valid: {why}"))
        };
        let bytes = BASE64_URL_SAFE_NO_PAD
            .decode(text.trim_end_matches('='))
            .map_err(|error| invalid(&error.to_string()))?;
        let decoded =
            machinery::codec::json::decode(&bytes).map_err(|error| invalid(&error.to_string()))?;
        let token = Object::from_value(decoded.value).unwrap_or_default();
        if token.str_at(&["v"]) != "meta.k8s.io/v1" {
            return Err(invalid("server does not recognize this encoded version"));
        }
        let start = token.str_at(&["start"]);
        // A start that climbs out of its list would be a way into another.
        if start.is_empty() || start.split('/').any(|it| it == "..") {
            return Err(invalid("the start is not one that this server made"));
        }
        let revision = token.get(&["rv"]).and_then(Value::as_i64).unwrap_or(0);
        let remaining = token.get(&["remaining"]).and_then(Value::as_u64);
        Ok(Self {
            revision: u64::try_from(revision).ok(),
            start: start.to_owned(),
            remaining: remaining.and_then(|it| usize::try_from(it).ok()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_comes_back_as_it_went() {
        let token = Token { revision: Some(42), start: "ns/name".to_owned(), remaining: Some(3) };
        assert_eq!(Token::decode(&token.encode()).unwrap(), token);
        let token = Token { revision: None, remaining: None, ..token };
        assert_eq!(Token::decode(&token.encode()).unwrap(), token);
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["abc", "", "!!", "e30", &BASE64_URL_SAFE_NO_PAD.encode("[]")] {
            assert_eq!(Token::decode(text).unwrap_err().code, 400, "{text}");
        }
        let climbing =
            Token { revision: Some(1), start: "../secrets/x".to_owned(), remaining: None };
        assert!(Token::decode(&climbing.encode()).is_err());
    }
}
