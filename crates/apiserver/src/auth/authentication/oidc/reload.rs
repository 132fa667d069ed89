//! [`run`]: reads the file of `--authentication-config` again, and replaces the issuers if it has
//! changed.
//!
//! A file that is not valid is logged and counted, and the issuers stay as they are. New issuers
//! replace the former ones when the documents of all of them were read.

use std::sync::Arc;
use std::time::Duration;

use super::configuration::AuthenticationConfiguration;
use super::{ConfigurationFile, OidcAuthenticator, OidcSettings, TokenIssuers};
use keel::blocking;
use machinery::{ErrorList, Path};

/// The interval at which the file is read. Upstream also watches it.
const INTERVAL: Duration = Duration::from_secs(10);

/// The time within which the documents of all new issuers must be read. The value is upstream's.
const UPDATE_TIMEOUT: Duration = Duration::from_mins(1);

/// The reason why the issuers were not replaced.
enum ReloadError {
    /// The next attempt may succeed.
    Temporary(String),
    /// This text will never be valid.
    Permanent(String),
}

/// Reads the file until the plane stops. `settings` are those of the start.
pub(crate) async fn run(authenticator: Arc<OidcAuthenticator>, settings: OidcSettings) {
    let Some(ConfigurationFile { path, text }) = settings.file else { return };
    let initial = settings.configuration;
    let mut current = text;
    loop {
        tokio::select! {
            () = authenticator.clock.sleep(INTERVAL) => {}
            () = authenticator.tasks.shutdown() => return,
        }
        let text = match blocking(|| std::fs::read_to_string(&path)) {
            Ok(text) if text == current => continue,
            Ok(text) => text,
            Err(error) => {
                tracing::error!(%error, "failed to read authentication config file");
                authenticator.metrics.count_reload(false);
                continue;
            }
        };
        match reload(&authenticator, &text, &initial).await {
            Ok(()) => {
                tracing::info!("reloaded authentication config");
                current = text;
            }
            Err(ReloadError::Permanent(error)) => {
                tracing::error!(error, "failed to load authentication config");
                current = text;
                authenticator.metrics.count_reload(false);
                continue;
            }
            Err(ReloadError::Temporary(error)) => {
                tracing::error!(error, "failed to update authentication config");
                authenticator.metrics.count_reload(false);
                continue;
            }
        }
        authenticator.metrics.count_reload(true);
    }
}

/// Replaces the issuers by those of a new text.
async fn reload(
    authenticator: &OidcAuthenticator,
    text: &str,
    initial: &AuthenticationConfiguration,
) -> Result<(), ReloadError> {
    let configuration =
        AuthenticationConfiguration::parse(text.as_bytes()).map_err(ReloadError::Permanent)?;
    let mut errors = ErrorList::new();
    if configuration.anonymous != initial.anonymous {
        errors.forbidden(&Path::root("anonymous"), "changed from initial configuration file");
    }
    let issuers = authenticator
        .issuers(&configuration, &errors)
        .map_err(|error| ReloadError::Permanent(error.to_string()))?;
    wait_until_healthy(authenticator, &issuers).await.map_err(ReloadError::Temporary)?;
    authenticator.issuers.store(Arc::new(issuers));
    Ok(())
}

async fn wait_until_healthy(
    authenticator: &OidcAuthenticator,
    issuers: &TokenIssuers,
) -> Result<(), String> {
    let all = async {
        for issuer in &issuers.0 {
            issuer.keys().discovered().await;
        }
    };
    tokio::select! {
        () = all => {}
        () = authenticator.clock.sleep(UPDATE_TIMEOUT) => {}
        () = authenticator.tasks.shutdown() => {}
    }
    issuers.check_health()
}
