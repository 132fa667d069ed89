//! [`Credentials`] and [`CredentialsFile`]: those of `~/.docker/config.json`, which other tools read as
//! well.
//!
//! ```text
//! {"auths": {"registry.example.com": {"auth": "base64 of USER:PASSWORD"}},
//!  "credHelpers": {"other.example.com": "pass"}, "credsStore": "secretservice"}
//! ```
//!
//! A helper is a program `docker-credential-NAME` with the commands `get` and `store`.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use keel::write_private;

/// The user that a helper returns with an identity token.
const TOKEN_USER: &str = "<token>";

/// With what a registry is asked.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Credentials {
    Password {
        user: String,
        password: String,
    },
    /// A token that a registry's authorization server has issued.
    IdentityToken(String),
}

impl Credentials {
    /// Whose they are, for messages.
    pub(crate) fn user(&self) -> &str {
        match self {
            Self::Password { user, .. } => user,
            Self::IdentityToken(_) => "the identity token",
        }
    }
}

/// See the [module documentation](self).
pub(crate) struct CredentialsFile {
    path: PathBuf,
    /// The whole file, so that the settings of other tools stay.
    content: Map<String, Value>,
}

impl CredentialsFile {
    /// Reads the file, which need not exist.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let shown = path.display();
        let content = match fs::read(path) {
            Ok(text) => serde_json::from_slice(&text)
                .with_context(|| format!("{shown} is not a JSON object"))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Map::new(),
            Err(error) => return Err(anyhow!(error).context(format!("cannot read {shown}"))),
        };
        Ok(Self { path: path.to_owned(), content })
    }

    /// The credentials for a registry, if there are any.
    pub(crate) fn get(&self, registry: &str) -> Result<Option<Credentials>> {
        if let Some(helper) = self.helper(registry) {
            return from_helper(helper, registry);
        }
        let auths = self.content.get("auths").and_then(Value::as_object);
        let entry = auths.into_iter().flatten().find(|(key, _)| host(key) == registry);
        let Some((_, entry)) = entry else { return Ok(None) };
        let text = |key: &str| entry[key].as_str().filter(|text| !text.is_empty());
        if let Some(token) = text("identitytoken") {
            return Ok(Some(Credentials::IdentityToken(token.to_owned())));
        }
        let Some(encoded) = text("auth") else { return Ok(None) };
        let invalid = || {
            format!("the entry of {registry} in {} is not valid: log in again", self.path.display())
        };
        let decoded = STANDARD.decode(encoded).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let decoded = decoded.with_context(invalid)?;
        let (user, password) = decoded.split_once(':').with_context(invalid)?;
        Ok(Some(Credentials::Password { user: user.to_owned(), password: password.to_owned() }))
    }

    /// Stores a password; returns where.
    pub(super) fn store(mut self, registry: &str, user: &str, password: &str) -> Result<String> {
        if let Some(helper) = self.helper(registry) {
            let input = json!({"ServerURL": registry, "Username": user, "Secret": password});
            run_helper(helper, "store", &input.to_string())?;
            return Ok(program(helper));
        }
        let auth = STANDARD.encode(format!("{user}:{password}"));
        let auths = self.content.entry("auths").or_insert_with(|| json!({}));
        let auths = auths.as_object_mut();
        let auths =
            auths.with_context(|| format!("{}: `auths` is not an object", self.path.display()))?;
        auths.retain(|key, _| host(key) != registry);
        auths.insert(registry.to_owned(), json!({"auth": auth}));
        // A link stays one.
        let path = fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        let text = serde_json::to_vec_pretty(&self.content)?;
        path.parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| write_private(&path, &text))
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(self.path.display().to_string())
    }

    /// The helper for a registry.
    fn helper(&self, registry: &str) -> Option<&str> {
        let own = self.content.get("credHelpers").and_then(|helpers| helpers.get(registry));
        own.or_else(|| self.content.get("credsStore")).and_then(Value::as_str)
    }
}

/// The host in the key of an entry, which may be a URL.
fn host(key: &str) -> &str {
    let rest = key.split_once("://").map_or(key, |(_, rest)| rest);
    rest.split('/').next().unwrap_or(rest)
}

fn program(helper: &str) -> String {
    format!("docker-credential-{helper}")
}

fn from_helper(helper: &str, registry: &str) -> Result<Option<Credentials>> {
    let Some(printed) = run_helper(helper, "get", registry)? else { return Ok(None) };
    let invalid = || format!("{} printed no valid JSON", program(helper));
    let printed: Value = serde_json::from_str(&printed).with_context(invalid)?;
    let text = |key: &str| printed[key].as_str().map(str::to_owned).with_context(invalid);
    let (user, password) = (text("Username")?, text("Secret")?);
    Ok(Some(match user.as_str() {
        TOKEN_USER => Credentials::IdentityToken(password),
        _ => Credentials::Password { user, password },
    }))
}

/// What a helper prints; none if it has no credentials for the registry.
fn run_helper(helper: &str, command: &str, input: &str) -> Result<Option<String>> {
    let program = program(helper);
    if helper.contains(['/', '\\']) {
        bail!("{helper:?} is not the name of a helper for credentials");
    }
    let cannot_run = || format!("cannot run {program}, which has the credentials of registries");
    let mut child = Command::new(&program)
        .arg(command)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(cannot_run)?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes()).with_context(cannot_run)?;
    }
    let ended = child.wait_with_output().with_context(cannot_run)?;
    let printed = String::from_utf8_lossy(&ended.stdout).trim().to_owned();
    match (ended.status.success(), command) {
        (true, _) => Ok(Some(printed)),
        (false, "get") if printed.contains("credentials not found") => Ok(None),
        (false, _) => bail!("{program} {command} ended with {}: {printed}", ended.status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(content: &str) -> (tempfile::TempDir, CredentialsFile) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.json");
        fs::write(&path, content).unwrap();
        let file = CredentialsFile::read(&path).unwrap();
        (folder, file)
    }

    fn password(user: &str, password: &str) -> Credentials {
        Credentials::Password { user: user.to_owned(), password: password.to_owned() }
    }

    #[test]
    fn stored_credentials_are_found_and_other_settings_stay() {
        let (folder, old) =
            file(r#"{"auths":{"https://a.example.com/v1/":{"auth":"eDp5"}},"x":1}"#);
        assert!(old.get("a.example.com").unwrap() == Some(password("x", "y")));
        assert!(old.get("b.example.com").unwrap().is_none());
        old.store("a.example.com", "me", "pass:word").unwrap();
        let path = folder.path().join("config.json");
        let new = CredentialsFile::read(&path).unwrap();
        assert!(new.get("a.example.com").unwrap() == Some(password("me", "pass:word")));
        assert_eq!(new.content["x"], 1);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn a_missing_file_has_no_credentials_and_a_damaged_one_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/config.json");
        let missing = CredentialsFile::read(&path).unwrap();
        assert!(missing.get("a.example.com").unwrap().is_none());
        missing.store("a.example.com", "me", "pass").unwrap();
        assert!(path.exists());
        fs::write(&path, "[]").unwrap();
        assert!(CredentialsFile::read(&path).is_err());
        let (_folder, damaged) = file(r#"{"auths":{"a.example.com":{"auth":"%"}}}"#);
        let error = damaged.get("a.example.com").err().unwrap().to_string();
        assert!(error.contains("log in again"), "{error}");
    }

    #[test]
    fn an_identity_token_and_a_missing_helper_are_told_apart() {
        let (_folder, tokens) = file(r#"{"auths":{"a.example.com":{"identitytoken":"t"}}}"#);
        let expected = Some(Credentials::IdentityToken("t".to_owned()));
        assert!(tokens.get("a.example.com").unwrap() == expected);
        let (_folder, helper) = file(r#"{"credHelpers":{"a.example.com":"no-such-helper"}}"#);
        let error = helper.get("a.example.com").err().unwrap().to_string();
        assert!(error.contains("docker-credential-no-such-helper"), "{error}");
        let (_folder, path) = file(r#"{"credsStore":"../sh"}"#);
        assert!(path.get("a.example.com").is_err());
    }
}
