//! [`ClientAuthorities`]: the authorities whose client certificates are accepted, besides that of the
//! plane.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use x509_parser::pem::Pem;

/// See the [module documentation](self).
#[derive(Debug, Clone, Default)]
pub struct ClientAuthorities {
    /// Certificates in PEM.
    bundle: String,
    /// The file from which they were read, if there is one.
    path: Option<PathBuf>,
}

/// The reason why a file of authorities cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Name another file.
    #[error("cannot read {path}")]
    Read {
        /// The path of the file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// Name a file that contains certificates in PEM.
    #[error("{path} has no certificate in PEM that can be read")]
    NoCertificate {
        /// The path of the file.
        path: PathBuf,
    },
}

impl ClientAuthorities {
    /// Certificates in PEM.
    pub fn new(bundle: String) -> Self {
        Self { bundle, path: None }
    }

    /// Reads a file with one or more certificates in PEM.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let bundle = fs::read_to_string(path)
            .map_err(|source| Error::Read { path: path.to_owned(), source })?;
        let is_readable = |pem: Pem| pem.label == "CERTIFICATE" && pem.parse_x509().is_ok();
        let blocks = Pem::iter_from_buffer(bundle.as_bytes());
        let are_readable = blocks.map(|pem| pem.is_ok_and(is_readable)).collect::<Vec<bool>>();
        if are_readable.is_empty() || are_readable.contains(&false) {
            return Err(Error::NoCertificate { path: path.to_owned() });
        }
        Ok(Self { bundle, path: Some(path.to_owned()) })
    }

    /// Reads the file again, if the certificates are from one.
    pub(crate) fn reread(&self) -> Result<Self, Error> {
        match &self.path {
            Some(path) => Self::read(path),
            None => Ok(self.clone()),
        }
    }

    /// The certificates, in PEM.
    pub fn bundle(&self) -> &str {
        &self.bundle
    }

    /// The certificates of the plane's own authority and of these, in PEM.
    pub(crate) fn with_own(&self, own: &str) -> String {
        format!("{}\n{}", own.trim_end(), self.bundle)
    }
}
