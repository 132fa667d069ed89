//! [`EncryptionArgs`]: the flags for encryption at rest.

use std::path::PathBuf;

use apiserver::encryption::EncryptionSettings;

/// See the [module documentation](self).
#[derive(Debug, clap::Args)]
pub(crate) struct EncryptionArgs {
    /// File of an `EncryptionConfiguration`, as for kube-apiserver: which objects are encrypted on
    /// disk, and with which keys
    #[arg(long, value_name = "FILE")]
    encryption_provider_config: Option<PathBuf>,
    /// Whether the file of `--encryption-provider-config` is read again when it has changed, so that
    /// keys are rotated without a restart
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_value_t = false,
        default_missing_value = "true",
        requires = "encryption_provider_config"
    )]
    encryption_provider_config_automatic_reload: bool,
}

impl EncryptionArgs {
    /// None if no file is named.
    pub(super) fn settings(&self) -> Option<EncryptionSettings> {
        let path = self.encryption_provider_config.clone()?;
        let reloads = self.encryption_provider_config_automatic_reload;
        Some(EncryptionSettings { path, reloads })
    }
}
