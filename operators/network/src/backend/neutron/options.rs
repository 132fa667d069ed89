//! [`NeutronOptions`]: the address and the credentials, with the environment variables of OpenStack.

use std::fmt;
use std::path::PathBuf;

use http::Uri;

/// The options of Neutron. Without `OS_AUTH_URL`, requests are not authenticated.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct NeutronOptions {
    /// The URL of Neutron, such as <http://127.0.0.1:9696>; by default that of Keystone's catalog
    #[arg(
        long,
        env = "NEUTRON_URL",
        value_name = "URL",
        help = "The URL of Neutron, such as http://127.0.0.1:9696; by default that of Keystone's \
                  catalog"
    )]
    pub neutron_url: Option<Uri>,
    /// The URL of Keystone, such as <https://keystone.example.com/v3>
    #[arg(
        long,
        env = "OS_AUTH_URL",
        value_name = "URL",
        help = "The URL of Keystone, such as https://keystone.example.com/v3"
    )]
    pub os_auth_url: Option<Uri>,
    /// The user, whose password is in the environment variable `OS_PASSWORD`
    #[arg(
        long,
        env = "OS_USERNAME",
        value_name = "NAME",
        help = "The user, whose password is in the environment variable OS_PASSWORD"
    )]
    pub os_username: Option<String>,
    /// The password, from the environment only
    #[arg(long, env = "OS_PASSWORD", hide = true, hide_env_values = true)]
    pub os_password: Option<Secret>,
    /// The domain of the user; by default Default
    #[arg(long, env = "OS_USER_DOMAIN_NAME", value_name = "NAME")]
    pub os_user_domain_name: Option<String>,
    /// The domain of the user, instead of its name
    #[arg(long, env = "OS_USER_DOMAIN_ID", value_name = "ID")]
    pub os_user_domain_id: Option<String>,
    /// The project
    #[arg(long, env = "OS_PROJECT_NAME", value_name = "NAME")]
    pub os_project_name: Option<String>,
    /// The domain of the project; by default Default
    #[arg(long, env = "OS_PROJECT_DOMAIN_NAME", value_name = "NAME")]
    pub os_project_domain_name: Option<String>,
    /// The domain of the project, instead of its name
    #[arg(long, env = "OS_PROJECT_DOMAIN_ID", value_name = "ID")]
    pub os_project_domain_id: Option<String>,
    /// The application credential, instead of a user. Its secret is in the environment variable
    /// `OS_APPLICATION_CREDENTIAL_SECRET`.
    #[arg(
        long,
        env = "OS_APPLICATION_CREDENTIAL_ID",
        value_name = "ID",
        help = "The application credential, instead of a user; its secret is in the environment \
                  variable OS_APPLICATION_CREDENTIAL_SECRET"
    )]
    pub os_application_credential_id: Option<String>,
    /// The secret of the application credential, from the environment only
    #[arg(long, env = "OS_APPLICATION_CREDENTIAL_SECRET", hide = true, hide_env_values = true)]
    pub os_application_credential_secret: Option<Secret>,
    /// The region of the catalog; by default the first one
    #[arg(long, env = "OS_REGION_NAME", value_name = "NAME")]
    pub os_region_name: Option<String>,
    /// A file with CA certificates, instead of those of the system
    #[arg(long, env = "OS_CACERT", value_name = "FILE")]
    pub os_cacert: Option<PathBuf>,
}

/// A text that is not printed.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The text.
    pub(super) fn reveal(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// The reason why Neutron cannot be called.
#[derive(Debug, thiserror::Error)]
pub enum OptionsError {
    /// Set the option.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// Correct the URL.
    #[error(
        "{0}, in NEUTRON_URL or OS_AUTH_URL, is not an absolute http or https URL without a query"
    )]
    Url(Uri),
    /// Correct the file.
    #[error("cannot use the CA certificates{}", .0.as_ref().map(|file| format!(" of {}", file.display())).unwrap_or_default())]
    Authorities(Option<PathBuf>, #[source] Box<dyn std::error::Error + Send + Sync>),
}
