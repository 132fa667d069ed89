//! [`Keys`]: the authority and the signer of a plane, in the files of its data directory or in memory.

use super::Error;
use crate::auth::authentication::service_account::TokenSigner;
use crate::certificates::Authority;
use crate::certificates::authority_files::{AuthorityFiles, Opened};
use crate::config::{Config, StoreConfig};

/// See the [module documentation](self).
pub(super) struct Keys {
    pub(super) authority: Authority,
    /// The files of the authority and their content; None if it is in memory only.
    pub(super) files: Option<(AuthorityFiles, String)>,
    pub(super) signer: TokenSigner,
}

impl Keys {
    /// The keys of the data directory, which are created if there are none.
    pub(super) fn open(config: &Config) -> Result<Self, Error> {
        let StoreConfig::Embedded(directory) = &config.store else { return Self::generate(config) };
        let directory = directory.join("pki");
        let files = AuthorityFiles::new(&directory);
        files.remove_interrupted_writes()?;
        let Opened { authority, content } = files.open(config.clock.now())?;
        let signer = TokenSigner::open(&directory, config.service_accounts.clone())?;
        Ok(Self { authority, files: Some((files, content)), signer })
    }

    /// New keys, in memory.
    pub(super) fn generate(config: &Config) -> Result<Self, Error> {
        let signer = TokenSigner::new(config.service_accounts.clone())?;
        Ok(Self { authority: Authority::new(config.clock.now())?, files: None, signer })
    }
}
