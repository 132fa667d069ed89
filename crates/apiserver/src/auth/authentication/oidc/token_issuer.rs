//! [`TokenIssuer`]: verifies the tokens of one issuer, and reads the user from their claims.
//!
//! Upstream: `authenticator/token/oidc`; the messages are exact.

use super::super::json_web_token::JsonWebToken;
use super::super::{CREDENTIAL_ID, User};
use super::claims::Claims;
use super::configuration::JwtAuthenticator;
use super::expressions::{claims_value, user_value};
use super::key_set::KeySet;
use super::validation::Compiled;
use keel::{Clock, Tasks};
use machinery::field_path::{quote, quote_list};
use machinery::{Object, Value, timestamp};

/// The allowed difference between the clocks of issuer and server, for the beginning of a token's
/// validity, in nanoseconds. The value is upstream's.
const LEEWAY: i128 = 60 * NANOSECONDS;

/// The nanoseconds of a second.
const NANOSECONDS: i128 = 1_000_000_000;

/// The issuer of Google's tokens, whose claim may lack the scheme.
const GOOGLE: &str = "https://accounts.google.com";

/// See the [module documentation](self).
#[derive(Debug)]
pub(super) struct TokenIssuer {
    settings: JwtAuthenticator,
    compiled: Compiled,
    /// The algorithms of accepted tokens.
    algorithms: Vec<String>,
    keys: KeySet,
}

impl TokenIssuer {
    /// Starts to fetch the keys of the issuer.
    pub(super) fn start(
        settings: &JwtAuthenticator,
        compiled: Compiled,
        algorithms: &[String],
        clock: &Clock,
        tasks: &Tasks,
    ) -> Self {
        Self {
            settings: settings.clone(),
            compiled,
            algorithms: algorithms.to_vec(),
            keys: KeySet::start(&settings.issuer, clock, tasks),
        }
    }

    /// The keys of the issuer.
    pub(super) fn keys(&self) -> &KeySet {
        &self.keys
    }

    /// The URL of the issuer.
    pub(super) fn url(&self) -> &str {
        &self.settings.issuer.url
    }

    /// Whether a token says that it is of this issuer, which is not to be trusted.
    pub(super) fn has_issued(&self, token: &JsonWebToken<'_>) -> bool {
        let issuer = token.payload.str_at(&["iss"]);
        issuer == self.url() || (self.url() == GOOGLE && GOOGLE.ends_with(&format!("//{issuer}")))
    }

    /// The user of a token of this issuer. `now` is in nanoseconds.
    pub(super) async fn authenticate(
        &self,
        token: &JsonWebToken<'_>,
        now: i128,
    ) -> Result<User, String> {
        if !self.keys.is_discovered() {
            return Err("oidc: authenticator not initialized".to_owned());
        }
        let verified = match self.check_claims(token, now) {
            Ok(()) => {
                let verified = self.keys.verify(token).await;
                verified.map_err(|why| format!("failed to verify signature: {why}"))
            }
            Err(why) => Err(why),
        };
        verified.map_err(|why| format!("oidc: verify token: {why}"))?;
        self.user(&token.payload)
    }

    /// Checks what needs no key: audience, lifetime and algorithm.
    fn check_claims(&self, token: &JsonWebToken<'_>, now: i128) -> Result<(), String> {
        let claims = Claims(&token.payload);
        let unreadable = |why: String| format!("oidc: failed to unmarshal claims: {why}");
        let audiences = claims.audiences().map_err(unreadable)?;
        let expected = &self.settings.issuer.audiences;
        if !audiences.iter().any(|it| expected.contains(it)) {
            let found = quote_list(&audiences);
            return Err(match expected.as_slice() {
                [only] => format!("oidc: expected audience {} got {found}", quote(only)),
                several => {
                    let mut several = several.to_vec();
                    several.sort();
                    format!("oidc: expected audience in {} got {found}", quote_list(&several))
                }
            });
        }
        let expiry = claims.time("exp").map_err(unreadable)?;
        if expiry.is_none_or(|it| i128::from(it) * NANOSECONDS < now) {
            let expiry = expiry.map_or_else(|| "0001-01-01 00:00:00 +0000 UTC".to_owned(), go_time);
            return Err(format!("oidc: token is expired (Token Expiry: {expiry})"));
        }
        let beginning = claims.time("nbf").map_err(unreadable)?;
        if let Some(beginning) = beginning.filter(|it| now + LEEWAY < i128::from(*it) * NANOSECONDS)
        {
            let now = go_time(i64::try_from(now / NANOSECONDS).unwrap_or(i64::MAX));
            let beginning = go_time(beginning);
            return Err(format!(
                "oidc: current time {now} before the nbf (not before) time: {beginning}"
            ));
        }
        if !self.algorithms.iter().any(|it| it == token.algorithm()) {
            return Err(format!(
                "oidc: id token signed with unsupported algorithm, expected {} got {}",
                quote_list(&self.algorithms),
                quote(token.algorithm())
            ));
        }
        Ok(())
    }

    /// The user that the claims of a verified token describe, if the rules accept them.
    fn user(&self, payload: &Object) -> Result<User, String> {
        let claims = Claims(payload);
        self.refuse_distributed(claims)?;
        let compiled = &self.compiled;
        let has_expressions = compiled.username.is_some()
            || compiled.groups.is_some()
            || compiled.uid.is_some()
            || !compiled.extra.is_empty()
            || !compiled.claim_rules.is_empty();
        let value = if has_expressions {
            claims_value(&Value::Object(payload.map().clone()))
        } else {
            Value::Null
        };
        let mut user = User { name: self.username(claims, &value)?, ..User::default() };
        user.groups = self.groups(claims, &value)?;
        user.uid = self.uid(claims, &value)?;
        if let Ok(id) = claims.text("jti")
            && !id.is_empty()
        {
            user.extra.insert(CREDENTIAL_ID.to_owned(), vec![format!("JTI={id}")]);
        }
        for (key, expression) in &compiled.extra {
            let values = expression.texts(&value).map_err(|why| {
                let source = &expression.source;
                format!("oidc: error evaluating extra claim expression: {source}: {why}")
            })?;
            if !values.is_empty() {
                user.extra.insert(key.clone(), values);
            }
        }
        self.check_rules(claims, &value, &user)?;
        Ok(user)
    }

    /// Groups that another server has are not supported.
    fn refuse_distributed(&self, claims: Claims<'_>) -> Result<(), String> {
        let groups = &self.settings.claim_mappings.groups.claim;
        let source =
            claims.get("_claim_names").and_then(|it| it.get(groups)).and_then(Value::as_str);
        if groups.is_empty() || claims.get(groups).is_some() || source.is_none() {
            return Ok(());
        }
        Err(format!(
            "oidc: could not expand distributed claims: the claim {} is at another server, which is not supported",
            quote(groups)
        ))
    }

    fn username(&self, claims: Claims<'_>, value: &Value) -> Result<String, String> {
        if let Some(expression) = &self.compiled.username {
            let name = expression.text(value, "username").map_err(|why| {
                format!("oidc: error evaluating username claim expression: {why}")
            })?;
            if name.is_empty() {
                return Err("oidc: empty username via CEL expression is not allowed".to_owned());
            }
            return Ok(name);
        }
        let mapping = &self.settings.claim_mappings.username;
        let name = claims.text(&mapping.claim).map_err(|why| {
            format!("oidc: parse username claims {}: {why}", quote(&mapping.claim))
        })?;
        if mapping.claim == "email" && claims.get("email_verified").is_some() {
            let is_verified = claims
                .boolean("email_verified")
                .map_err(|why| format!("oidc: parse 'email_verified' claim: {why}"))?;
            if !is_verified {
                return Err("oidc: email not verified".to_owned());
            }
        }
        // Stricter than upstream, where a token with an empty claim is that of a user without a name.
        if name.is_empty() {
            return Err(format!("oidc: the username claim {} is empty", quote(&mapping.claim)));
        }
        Ok(format!("{}{name}", mapping.prefix.as_deref().unwrap_or_default()))
    }

    fn groups(&self, claims: Claims<'_>, value: &Value) -> Result<Vec<String>, String> {
        let mapping = &self.settings.claim_mappings.groups;
        if !mapping.claim.is_empty() && claims.get(&mapping.claim).is_some() {
            let groups = claims.texts(&mapping.claim).map_err(|why| {
                format!("oidc: parse groups claim {}: {why}", quote(&mapping.claim))
            })?;
            let prefix = mapping.prefix.as_deref().unwrap_or_default();
            return Ok(groups.into_iter().map(|it| format!("{prefix}{it}")).collect());
        }
        match &self.compiled.groups {
            None => Ok(Vec::new()),
            Some(expression) => expression
                .texts(value)
                .map_err(|why| format!("oidc: error evaluating group claim expression: {why}")),
        }
    }

    fn uid(&self, claims: Claims<'_>, value: &Value) -> Result<String, String> {
        let claim = &self.settings.claim_mappings.uid.claim;
        if !claim.is_empty() {
            let uid = claims.text(claim).map(ToOwned::to_owned);
            return uid.map_err(|why| format!("oidc: parse uid claim {}: {why}", quote(claim)));
        }
        match &self.compiled.uid {
            None => Ok(String::new()),
            Some(expression) => expression
                .text(value, "uid")
                .map_err(|why| format!("oidc: error evaluating uid claim expression: {why}")),
        }
    }

    fn check_rules(&self, claims: Claims<'_>, value: &Value, user: &User) -> Result<(), String> {
        for rule in self.settings.claim_validation_rules.iter().filter(|it| !it.claim.is_empty()) {
            let (claim, expected) = (&rule.claim, &rule.required_value);
            if claims.get(claim).is_none() {
                return Err(format!("oidc: required claim {claim} not present in ID token"));
            }
            let found =
                claims.text(claim).map_err(|why| format!("oidc: parse claim {claim}: {why}"))?;
            if found != expected {
                return Err(format!(
                    "oidc: required claim {claim} value does not match. Got = {found}, want = {expected}"
                ));
            }
        }
        for rule in &self.compiled.claim_rules {
            rule.check(value).map_err(|why| {
                format!("oidc: error evaluating claim validation expression: {why}")
            })?;
        }
        if self.compiled.user_rules.is_empty() {
            return Ok(());
        }
        let user = user_value(user);
        for rule in &self.compiled.user_rules {
            rule.check(&user).map_err(|why| {
                format!("oidc: error evaluating user info validation rule: {why}")
            })?;
        }
        Ok(())
    }
}

/// A time in whole seconds, as Go prints it.
fn go_time(seconds: i64) -> String {
    let text = timestamp::format_seconds(seconds);
    format!("{} +0000 UTC", text.replace('T', " ").trim_end_matches('Z'))
}
