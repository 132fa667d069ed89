//! [`run`]: reads the file of `--authentication-config` again, and replaces the issuers if it has
//! changed.
//!
//! A file that is not valid is logged and counted, and the issuers stay as they are. New issuers
//! replace the former ones when the documents of all of them were read.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use super::configuration::AuthenticationConfiguration;
use super::{ConfigurationFile, OidcAuthenticator, OidcSettings, TokenIssuers};
use crate::config_files::followed::Followed;
use machinery::{ErrorList, Path};

/// The time within which the documents of all new issuers must be read. The value is upstream's.
const UPDATE_TIMEOUT: Duration = Duration::from_mins(1);

/// The reason why the issuers were not replaced.
enum ReloadError {
    /// The next attempt may succeed.
    Temporary(String),
    /// This text will never be valid.
    Permanent(String),
}

/// Follows the file until the plane stops. `settings` are those of the start.
pub(crate) async fn run(authenticator: Arc<OidcAuthenticator>, settings: OidcSettings) {
    let Some(ConfigurationFile { path, text }) = settings.file else { return };
    let initial = settings.configuration;
    let OidcAuthenticator { clock, tasks, metrics, .. } = &*authenticator;
    let mut followed = Followed::new("authentication configuration", clock, tasks, Some(text));
    while let Some(change) = followed.changed(|| fs::read_to_string(&path).map(Some)).await {
        let Ok(text) = change else {
            metrics.count_reload(false);
            continue;
        };
        let result = reload(&authenticator, &text, &initial).await;
        metrics.count_reload(result.is_ok());
        match result {
            Ok(()) => {
                tracing::info!("reloaded authentication config");
                followed.settle(text);
            }
            Err(ReloadError::Permanent(error)) => {
                followed.fail(error);
                followed.settle(text);
            }
            Err(ReloadError::Temporary(error)) => drop(followed.fail(error)),
        }
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
