//! [`TlsSettings`]: the serving certificates, versions and cipher suites of TLS, with the names that
//! kube-apiserver gives them.
//!
//! Upstream: component-base/cli/flag/{ciphersuites,namedcertkey}_flag.go

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::{ALL_CIPHER_SUITES, default_provider};
use rustls::version::{TLS12, TLS13};
use rustls::{ProtocolVersion, SupportedCipherSuite, SupportedProtocolVersion};

use super::is_issued_by_a_plane;
use keel::write_private;
use tls::{Certified, ServingKeyError, serving_key};

/// See the [module documentation](self).
#[derive(Debug, Clone, Default)]
pub struct TlsSettings {
    /// The certificate for clients that name no server, or one that is not in `named`.
    pub serving: ServingSource,
    /// Further certificates, which are chosen by the server name that a client sends.
    pub named: Vec<NamedCertificate>,
    /// The lowest version that is accepted.
    pub min_version: TlsVersion,
    /// The cipher suites of TLS 1.2; if empty, all. Those of TLS 1.3 cannot be chosen, as in Go.
    pub cipher_suites: Vec<CipherSuite>,
}

/// The source of the default serving certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ServingSource {
    /// The plane issues it, and stores it nowhere.
    #[default]
    Issued,
    /// It is in these files.
    Files(KeyPairFiles),
    /// It is in these files, unless they are missing or of a plane: the plane then issues it and
    /// writes them.
    IssuedFiles(KeyPairFiles),
}

/// The files of a certificate and its key, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyPairFiles {
    /// The path of the certificate, which may be followed by its intermediates.
    pub certificate: PathBuf,
    /// The path of the key.
    pub key: PathBuf,
}

/// The reason why the files of a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyPairError {
    /// Name another file.
    #[error("cannot read {path}")]
    Read {
        /// The path of the file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// Correct the files.
    #[error("cannot serve the certificate in {certificate} with the key in {key}")]
    Pair {
        /// The path of the certificate.
        certificate: PathBuf,
        /// The path of the key.
        key: PathBuf,
        /// The cause.
        #[source]
        source: ServingKeyError,
    },
}

impl KeyPairFiles {
    /// The files of kube-apiserver's `--cert-dir`.
    pub fn in_directory(directory: &Path) -> Self {
        Self { certificate: directory.join("apiserver.crt"), key: directory.join("apiserver.key") }
    }

    /// Reads both files, which must belong together.
    pub fn read(&self) -> Result<Certified, KeyPairError> {
        self.check(self.read_unchecked()?)
    }

    fn read_unchecked(&self) -> Result<Certified, KeyPairError> {
        let read = |path: &PathBuf| {
            fs::read_to_string(path)
                .map_err(|source| KeyPairError::Read { path: path.clone(), source })
        };
        Ok(Certified { certificate: read(&self.certificate)?, key: read(&self.key)? })
    }

    fn check(&self, certified: Certified) -> Result<Certified, KeyPairError> {
        match serving_key(&certified) {
            Ok(_) => Ok(certified),
            Err(source) => Err(KeyPairError::Pair {
                certificate: self.certificate.clone(),
                key: self.key.clone(),
                source,
            }),
        }
    }

    /// Reads the files; None if one is missing, or a plane has issued the certificate.
    pub(crate) fn read_foreign(&self) -> Result<Option<Certified>, KeyPairError> {
        match self.read_unchecked() {
            // Not checked: a plane that was stopped while it wrote them writes them again.
            Ok(certified) if is_issued_by_a_plane(&certified.certificate) => Ok(None),
            Ok(certified) => self.check(certified).map(Some),
            Err(KeyPairError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Whether one of the files is missing.
    pub(crate) fn are_missing(&self) -> bool {
        let is_missing = |path: &Path| path.try_exists().is_ok_and(|exists| !exists);
        is_missing(&self.certificate) || is_missing(&self.key)
    }

    /// Writes both files, which only their owner may read. The directory is created.
    pub(crate) fn write(&self, certified: &Certified) -> Result<(), super::Error> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| super::Error::File { path, source }
        };
        for (path, content) in
            [(&self.key, &certified.key), (&self.certificate, &certified.certificate)]
        {
            if let Some(directory) = path.parent() {
                fs::create_dir_all(directory).map_err(failed(directory))?;
            }
            write_private(path, content.as_bytes()).map_err(failed(path))?;
        }
        Ok(())
    }
}

/// A certificate for clients that ask for one of its names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedCertificate {
    /// The certificate and its key.
    pub files: KeyPairFiles,
    /// Host names, `*.` with a domain, or addresses; if empty, the names in the certificate.
    pub names: Vec<String>,
}

impl FromStr for NamedCertificate {
    type Err = String;

    /// Parses `certificate,key` or `certificate,key:name,name`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (files, names) = match text.split_once(':') {
            None => (text, Vec::new()),
            Some((_, names)) if names.trim().is_empty() => {
                return Err("empty names list is not allowed".to_owned());
            }
            Some((files, names)) => {
                (files, names.split(',').map(|it| it.trim().to_owned()).collect())
            }
        };
        let paths: Vec<&str> = files.split(',').map(str::trim).collect();
        let [certificate, key] = paths[..] else {
            return Err("expected comma separated certificate and key file paths".to_owned());
        };
        let files = KeyPairFiles { certificate: certificate.into(), key: key.into() };
        Ok(Self { files, names })
    }
}

/// A version of TLS.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TlsVersion {
    /// TLS 1.2.
    #[default]
    Tls12,
    /// TLS 1.3.
    Tls13,
}

impl FromStr for TlsVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "VersionTLS12" => Ok(Self::Tls12),
            "VersionTLS13" => Ok(Self::Tls13),
            "VersionTLS10" | "VersionTLS11" => {
                Err(format!("{text} is not supported: use VersionTLS12 or VersionTLS13"))
            }
            _ => Err(format!("unknown tls version {text:?}: use VersionTLS12 or VersionTLS13")),
        }
    }
}

/// A cipher suite that this server supports.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CipherSuite(SupportedCipherSuite);

impl FromStr for CipherSuite {
    type Err = String;

    /// Parses the name of IANA and Go.
    fn from_str(text: &str) -> Result<Self, String> {
        // Upstream keeps two legacy names.
        let full = match text {
            "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305" | "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305" => {
                format!("{text}_SHA256")
            }
            _ => text.to_owned(),
        };
        let found = ALL_CIPHER_SUITES.iter().find(|it| name(**it) == full);
        found.map(|it| Self(*it)).ok_or_else(|| {
            let possible: Vec<String> = ALL_CIPHER_SUITES.iter().map(|it| name(*it)).collect();
            format!(
                "Cipher suite {text} not supported or doesn't exist: the possible ones are {}",
                possible.join(", ")
            )
        })
    }
}

/// The name of a cipher suite at IANA.
fn name(suite: SupportedCipherSuite) -> String {
    format!("{:?}", suite.suite()).replacen("TLS13_", "TLS_", 1)
}

impl TlsSettings {
    /// The accepted versions.
    pub(crate) fn versions(&self) -> Vec<&'static SupportedProtocolVersion> {
        match self.min_version {
            TlsVersion::Tls12 => vec![&TLS13, &TLS12],
            TlsVersion::Tls13 => vec![&TLS13],
        }
    }

    /// The cryptography with the accepted cipher suites.
    pub(crate) fn provider(&self) -> CryptoProvider {
        let mut provider = default_provider();
        if !self.cipher_suites.is_empty() {
            provider.cipher_suites.retain(|suite| {
                suite.version().version == ProtocolVersion::TLSv1_3
                    || self.cipher_suites.contains(&CipherSuite(*suite))
            });
        }
        provider
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_certificate_has_the_form_of_kube_apiserver() {
        let parse = |text: &str| {
            let parsed = text.parse::<NamedCertificate>()?;
            let paths = [&parsed.files.certificate, &parsed.files.key];
            let [certificate, key] = paths.map(|it| it.display().to_string());
            Ok::<_, String>(format!("{certificate} {key} {:?}", parsed.names))
        };
        assert_eq!(parse("a.crt,a.key").unwrap(), "a.crt a.key []");
        let named = parse("a.crt, a.key: *.a.example,127.0.0.1").unwrap();
        assert_eq!(named, r#"a.crt a.key ["*.a.example", "127.0.0.1"]"#);
        assert_eq!(parse("a.crt,a.key: ").unwrap_err(), "empty names list is not allowed");
        for text in ["a.crt", "a.crt:a", "a,b,c"] {
            let error = parse(text).unwrap_err();
            assert_eq!(error, "expected comma separated certificate and key file paths");
        }
    }

    #[test]
    fn cipher_suites_limit_only_tls_1_2() {
        let only = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384";
        let settings =
            TlsSettings { cipher_suites: vec![only.parse().unwrap()], ..TlsSettings::default() };
        let mut names: Vec<String> =
            settings.provider().cipher_suites.into_iter().map(name).collect();
        names.sort();
        let modern =
            ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"];
        assert_eq!(names, [&modern[..], &[only]].concat());
        assert!("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305".parse::<CipherSuite>().is_ok());
        assert!("TLS_AES_128_GCM_SHA256".parse::<CipherSuite>().is_ok());
    }

    #[test]
    fn an_unsupported_cipher_suite_or_version_is_an_error_with_the_possible_ones() {
        let error = "TLS_RSA_WITH_AES_128_CBC_SHA".parse::<CipherSuite>().unwrap_err();
        assert!(error.contains("not supported") && error.contains("TLS_ECDHE_RSA_WITH"), "{error}");
        assert!("VersionTLS11".parse::<TlsVersion>().unwrap_err().contains("VersionTLS12"));
        assert!("1.3".parse::<TlsVersion>().is_err());
    }
}
