//! [`compile`]: checks a configuration and compiles its expressions.
//!
//! Upstream: `apis/apiserver/validation` `ValidateAuthenticationConfiguration`; the messages are exact.

use std::collections::BTreeSet;

use x509_parser::pem::Pem;

use super::configuration::{
    AuthenticationConfiguration, ClaimMappings, ClaimOrExpression, ClaimValidationRule,
    ExtraMapping, Issuer, JwtAuthenticator, UserValidationRule,
};
use super::expressions::{Expression, Rule, Variable, reads_claim};
use cel::CompileError;
use cel::go_url::Url;
use machinery::field_path::ErrorType;
use machinery::{ErrorList, Path, json, names};

/// The maximum number of issuers.
const MAX_ISSUERS: usize = 64;

/// The compiled expressions of an issuer.
#[derive(Debug, Default)]
pub(super) struct Compiled {
    /// The user name.
    pub username: Option<Expression>,
    /// The groups.
    pub groups: Option<Expression>,
    /// The uid.
    pub uid: Option<Expression>,
    /// Further attributes, with their keys.
    pub extra: Vec<(String, Expression)>,
    /// The rules about claims.
    pub claim_rules: Vec<Rule>,
    /// The rules about the user.
    pub user_rules: Vec<Rule>,
}

/// The compiled expressions of each issuer. `disallowed` are the issuers of service account tokens.
pub(super) fn compile(
    configuration: &AuthenticationConfiguration,
    disallowed: &[String],
    errors: &mut ErrorList,
) -> Vec<Compiled> {
    let root = Path::root("jwt");
    if configuration.jwt.len() > MAX_ISSUERS {
        errors.too_many(&root, configuration.jwt.len(), MAX_ISSUERS);
        return Vec::new();
    }
    let (mut issuers, mut documents) = (BTreeSet::new(), BTreeSet::new());
    let mut compiled = Vec::new();
    for (index, jwt) in configuration.jwt.iter().enumerate() {
        let path = root.index(index);
        compiled.push(compile_issuer(jwt, disallowed, &path, errors));
        let path = path.child("issuer");
        if !issuers.insert(&jwt.issuer.url) {
            errors.duplicate(&path.child("url"), jwt.issuer.url.as_str());
        }
        if let Some(url) = jwt.issuer.discovery_url.as_deref().filter(|it| !it.is_empty())
            && !documents.insert(url)
        {
            errors.duplicate(&path.child("discoveryURL"), url);
        }
    }
    if let Some(anonymous) = &configuration.anonymous
        && !anonymous.enabled
        && !anonymous.conditions.is_empty()
    {
        let conditions: Vec<_> =
            anonymous.conditions.iter().map(|it| json!({"Path": it.path})).collect();
        errors.invalid(
            &Path::root("anonymous").child("conditions"),
            conditions,
            "enabled should be set to true when conditions are defined",
        );
    }
    compiled
}

fn compile_issuer(
    jwt: &JwtAuthenticator,
    disallowed: &[String],
    path: &Path<'_>,
    errors: &mut ErrorList,
) -> Compiled {
    let mut compiled = Compiled::default();
    check_issuer(&jwt.issuer, disallowed, &path.child("issuer"), errors);
    let rules_path = path.child("claimValidationRules");
    check_claim_rules(&jwt.claim_validation_rules, &rules_path, &mut compiled, errors);
    check_mappings(&jwt.claim_mappings, &path.child("claimMappings"), &mut compiled, errors);
    let rules_path = path.child("userValidationRules");
    check_user_rules(&jwt.user_validation_rules, &rules_path, &mut compiled, errors);
    compiled
}

fn check_issuer(issuer: &Issuer, disallowed: &[String], path: &Path<'_>, errors: &mut ErrorList) {
    if issuer.url.is_empty() {
        errors.required(&path.child("url"), "");
    } else {
        check_url(&issuer.url, disallowed, &path.child("url"), errors);
    }
    if let Some(document) = issuer.discovery_url.as_deref().filter(|it| !it.is_empty()) {
        let path = path.child("discoveryURL");
        let trimmed = |it: &str| it.trim_end_matches('/').to_owned();
        if !issuer.url.is_empty() && trimmed(&issuer.url) == trimmed(document) {
            errors.invalid(&path, document, "discoveryURL must be different from URL");
        }
        check_url(document, &[], &path, errors);
    }
    check_audiences(issuer, path, errors);
    if let Err(why) = check_certificates(&issuer.certificate_authority) {
        errors.invalid(&path.child("certificateAuthority"), "<omitted>", &why);
    }
    let egress = issuer.egress_selector_type.as_str();
    if !matches!(egress, "" | "controlplane" | "cluster") {
        let why = "egress selector must be either controlplane or cluster";
        errors.invalid(&path.child("egressSelectorType"), egress, why);
    }
}

fn check_url(text: &str, disallowed: &[String], path: &Path<'_>, errors: &mut ErrorList) {
    if disallowed.iter().any(|it| it == text) {
        let all: BTreeSet<&str> = disallowed.iter().map(String::as_str).collect();
        let all = all.into_iter().collect::<Vec<_>>().join(" ");
        let why = format!("URL must not overlap with disallowed issuers: [{all}]");
        errors.invalid(path, text, &why);
    }
    let url = match Url::parse(text) {
        Ok(url) => url,
        Err(why) => return errors.invalid(path, text, &why),
    };
    if url.scheme != "https" {
        errors.invalid(path, text, "URL scheme must be https");
    }
    if url.has_user() {
        errors.invalid(path, text, "URL must not contain a username or password");
    }
    if url.has_query() {
        errors.invalid(path, text, "URL must not contain a query");
    }
    if url.has_fragment() {
        errors.invalid(path, text, "URL must not contain a fragment");
    }
}

fn check_audiences(issuer: &Issuer, path: &Path<'_>, errors: &mut ErrorList) {
    const MATCH_ANY: &str = "MatchAny";
    let (audiences, policy) = (&issuer.audiences, issuer.audience_match_policy.as_str());
    let (path, policy_path) = (path.child("audiences"), path.child("audienceMatchPolicy"));
    if audiences.is_empty() {
        return errors.required(&path, &format!("at least one {path} is required"));
    }
    let mut seen = BTreeSet::new();
    for (index, audience) in audiences.iter().enumerate() {
        if audience.is_empty() {
            errors.required(&path.index(index), "");
        }
        if !seen.insert(audience) {
            errors.duplicate(&path.index(index), audience.as_str());
        }
    }
    if audiences.len() > 1 && policy != MATCH_ANY {
        let why = "audienceMatchPolicy must be MatchAny for multiple audiences";
        errors.invalid(&policy_path, policy, why);
    }
    if audiences.len() == 1 && !policy.is_empty() && policy != MATCH_ANY {
        let why = "audienceMatchPolicy must be empty or MatchAny for single audience";
        errors.invalid(&policy_path, policy, why);
    }
}

/// An error if there is text without a certificate in PEM, or a certificate that cannot be read.
fn check_certificates(bundle: &str) -> Result<(), String> {
    if bundle.is_empty() {
        return Ok(());
    }
    let mut has_certificate = false;
    for pem in Pem::iter_from_buffer(bundle.as_bytes()).flatten() {
        if pem.label == "CERTIFICATE" {
            pem.parse_x509().map_err(|_| "x509: malformed certificate".to_owned())?;
            has_certificate = true;
        }
    }
    if has_certificate {
        return Ok(());
    }
    Err("data does not contain any valid RSA or ECDSA certificates".to_owned())
}

/// Compiles an expression, or adds an error.
fn expression(
    source: &str,
    variable: Variable,
    is_condition: bool,
    path: &Path<'_>,
    errors: &mut ErrorList,
) -> Option<Expression> {
    match Expression::compile(source, variable, is_condition) {
        Ok(expression) => Some(expression),
        Err(CompileError::Instantiation(why)) if is_condition && why.starts_with("must ") => {
            errors.invalid(path, source, &why);
            None
        }
        Err(error @ CompileError::Issues(_)) => {
            errors.invalid(path, source, &error.to_string());
            None
        }
        Err(error @ CompileError::Instantiation(_)) => {
            errors.add(ErrorType::Internal, path, None, &error.to_string());
            None
        }
    }
}

fn check_claim_rules(
    rules: &[ClaimValidationRule],
    path: &Path<'_>,
    compiled: &mut Compiled,
    errors: &mut ErrorList,
) {
    let (mut claims, mut expressions) = (BTreeSet::new(), BTreeSet::new());
    for (index, rule) in rules.iter().enumerate() {
        let path = path.index(index);
        match (rule.claim.as_str(), rule.expression.as_str()) {
            ("", "") => errors.required(&path, "claim or expression is required"),
            (claim, "") => {
                if !rule.message.is_empty() {
                    let why = "may not be specified when claim is set";
                    errors.invalid(&path.child("message"), rule.message.as_str(), why);
                }
                if !claims.insert(claim) {
                    errors.duplicate(&path.child("claim"), claim);
                }
            }
            ("", source) => {
                if !rule.required_value.is_empty() {
                    let why = "may not be specified when expression is set";
                    let value = rule.required_value.as_str();
                    errors.invalid(&path.child("requiredValue"), value, why);
                }
                let path = path.child("expression");
                if !expressions.insert(source) {
                    errors.duplicate(&path, source);
                    continue;
                }
                let expression = expression(source, Variable::Claims, true, &path, errors);
                let message = rule.message.clone();
                compiled
                    .claim_rules
                    .extend(expression.map(|expression| Rule { expression, message }));
            }
            (claim, _) => errors.invalid(&path, claim, "claim and expression can't both be set"),
        }
    }
}

fn check_user_rules(
    rules: &[UserValidationRule],
    path: &Path<'_>,
    compiled: &mut Compiled,
    errors: &mut ErrorList,
) {
    let mut expressions = BTreeSet::new();
    for (index, rule) in rules.iter().enumerate() {
        let item = path.index(index);
        let path = item.child("expression");
        let source = rule.expression.as_str();
        if source.is_empty() {
            errors.required(&path, "");
        } else if !expressions.insert(source) {
            errors.duplicate(&path, source);
        } else {
            let expression = expression(source, Variable::User, true, &path, errors);
            let message = rule.message.clone();
            compiled.user_rules.extend(expression.map(|expression| Rule { expression, message }));
        }
    }
}

fn check_mappings(
    mappings: &ClaimMappings,
    path: &Path<'_>,
    compiled: &mut Compiled,
    errors: &mut ErrorList,
) {
    let username = path.child("username");
    compiled.username = check_mapping(&mappings.username, &username, true, errors);
    compiled.groups = check_mapping(&mappings.groups, &path.child("groups"), false, errors);
    let uid = path.child("uid");
    match (mappings.uid.claim.as_str(), mappings.uid.expression.as_str()) {
        (_, "") => {}
        ("", source) => {
            let path = uid.child("expression");
            compiled.uid = expression(source, Variable::Claims, false, &path, errors);
        }
        _ => errors.invalid(&uid, "", "claim and expression can't both be set"),
    }
    let mut keys = BTreeSet::new();
    for (index, mapping) in mappings.extra.iter().enumerate() {
        let list = path.child("extra");
        let path = list.index(index);
        check_key(mapping, &path, errors);
        if !keys.insert(&mapping.key) {
            errors.duplicate(&path.child("key"), mapping.key.as_str());
            continue;
        }
        let path = path.child("valueExpression");
        if mapping.value_expression.is_empty() {
            errors.required(&path, "");
            continue;
        }
        let expression =
            expression(&mapping.value_expression, Variable::Claims, false, &path, errors);
        compiled.extra.extend(expression.map(|it| (mapping.key.clone(), it)));
    }
    let sources = compiled.username.iter().chain(compiled.extra.iter().map(|(_, it)| it));
    let mut sources = sources.chain(compiled.claim_rules.iter().map(|it| &it.expression));
    let reads_email = compiled.username.as_ref().is_some_and(|it| reads_claim(&it.source, "email"));
    if reads_email && !sources.any(|it| reads_claim(&it.source, "email_verified")) {
        errors.invalid(
            &username.child("expression"),
            mappings.username.expression.as_str(),
            "claims.email_verified must be used in claimMappings.username.expression or claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when claims.email is used in claimMappings.username.expression",
        );
    }
}

fn check_mapping(
    mapping: &ClaimOrExpression,
    path: &Path<'_>,
    is_required: bool,
    errors: &mut ErrorList,
) -> Option<Expression> {
    match (mapping.claim.as_str(), mapping.expression.as_str()) {
        ("", "") if is_required => errors.required(path, "claim or expression is required"),
        ("", "") => {}
        (_, "") => {
            if mapping.prefix.is_none() {
                let why = "prefix is required when claim is set. It can be set to an empty string to disable prefixing";
                errors.required(&path.child("prefix"), why);
            }
        }
        ("", source) => {
            if let Some(prefix) = &mapping.prefix {
                let why = "may not be specified when expression is set";
                errors.invalid(&path.child("prefix"), prefix.as_str(), why);
            }
            let path = path.child("expression");
            return expression(source, Variable::Claims, false, &path, errors);
        }
        _ => errors.invalid(path, "", "claim and expression can't both be set"),
    }
    None
}

/// Checks the key of an attribute, which has a domain that is not Kubernetes' own.
fn check_key(mapping: &ExtraMapping, path: &Path<'_>, errors: &mut ErrorList) {
    const PATH: &str =
        r"Invalid path (regex used for validation is '[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')";
    let (path, key) = (path.child("key"), mapping.key.as_str());
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    match key.split_once('/') {
        _ if key.is_empty() => errors.required(&path, ""),
        Some((host, rest)) if !host.is_empty() && !rest.is_empty() => {
            for why in names::dns1123_subdomain(host) {
                errors.invalid(&path, host, &why);
            }
            let is_allowed =
                |it: char| it.is_ascii_alphanumeric() || "/-._~%!$&'()*+,;=:".contains(it);
            if !rest.chars().all(is_allowed) {
                errors.invalid(&path, rest, PATH);
            }
        }
        _ => {
            let why = "must be a domain-prefixed path (such as \"acme.io/foo\")";
            errors.invalid(&path, key, why);
        }
    }
    if key != key.to_lowercase() {
        errors.invalid(&path, key, "must be lowercase");
    }
    let is_in =
        |of: &str| domain == of || domain.strip_suffix(of).is_some_and(|it| it.ends_with('.'));
    if is_in("kubernetes.io") || is_in("k8s.io") {
        let why = "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use";
        errors.invalid(&path, key, why);
    }
}

#[cfg(test)]
mod tests;
