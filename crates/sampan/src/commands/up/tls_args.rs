//! [`TlsArgs`]: the flags for the serving certificates of the API server.

use std::path::PathBuf;

use anyhow::{Result, bail};

use apiserver::certificates::tls_settings::{
    CipherSuite, KeyPairFiles, NamedCertificate, ServingSource, TlsSettings, TlsVersion,
};

/// See the [module documentation](self).
#[derive(Debug, clap::Args)]
pub(crate) struct TlsArgs {
    /// File of the serving certificate in PEM, followed by its intermediates. It is read again when it
    /// changes [default: a certificate of the plane's authority]
    #[arg(long, value_name = "FILE")]
    tls_cert_file: Option<PathBuf>,
    /// File of the private key of `--tls-cert-file`, in PEM
    #[arg(long, value_name = "FILE")]
    tls_private_key_file: Option<PathBuf>,
    /// Directory of `apiserver.crt` and `apiserver.key`, which are the serving certificate and its key;
    /// if they do not exist, the plane writes its own. Ignored with `--tls-cert-file`
    #[arg(long, value_name = "DIR")]
    cert_dir: Option<PathBuf>,
    /// Lowest version of TLS that is accepted: `VersionTLS12` or `VersionTLS13`
    #[arg(long, value_name = "VERSION", default_value = "VersionTLS12")]
    tls_min_version: TlsVersion,
    /// Cipher suites of TLS 1.2 that are accepted, by IANA's names; those of TLS 1.3 are always
    /// accepted [default: all that the server has]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    tls_cipher_suites: Vec<CipherSuite>,
    /// Further serving certificate for clients that ask for one of its names: `CERT,KEY` or
    /// `CERT,KEY:NAME,NAME`, where a name may be `*.DOMAIN` or an address of the server; without names,
    /// those in the certificate. May be repeated
    #[arg(long, value_name = "FILES")]
    tls_sni_cert_key: Vec<NamedCertificate>,
}

impl TlsArgs {
    /// The settings of these flags. The files are read when the server starts.
    pub(super) fn settings(&self) -> Result<TlsSettings> {
        let serving = match (&self.tls_cert_file, &self.tls_private_key_file, &self.cert_dir) {
            (Some(certificate), Some(key), _) => ServingSource::Files(KeyPairFiles {
                certificate: certificate.clone(),
                key: key.clone(),
            }),
            (Some(_), None, _) => {
                bail!("--tls-cert-file needs the key of the certificate: --tls-private-key-file")
            }
            (None, Some(_), _) => {
                bail!("--tls-private-key-file needs the certificate of the key: --tls-cert-file")
            }
            (None, None, Some(directory)) => {
                ServingSource::IssuedFiles(KeyPairFiles::in_directory(directory))
            }
            (None, None, None) => ServingSource::Issued,
        };
        Ok(TlsSettings {
            serving,
            named: self.tls_sni_cert_key.clone(),
            min_version: self.tls_min_version,
            cipher_suites: self.tls_cipher_suites.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: TlsArgs,
    }

    fn settings(flags: &[&str]) -> Result<TlsSettings> {
        Line::try_parse_from([&["up"], flags].concat())?.args.settings()
    }

    #[test]
    fn flags_have_the_forms_of_kube_apiserver() {
        let found = settings(&[
            "--tls-cert-file=a.crt",
            "--tls-private-key-file=a.key",
            "--cert-dir=ignored",
            "--tls-min-version=VersionTLS13",
            "--tls-cipher-suites=TLS_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
            "--tls-sni-cert-key=b.crt,b.key",
            "--tls-sni-cert-key=c.crt,c.key:*.c.example,c.example",
        ])
        .unwrap();
        assert!(matches!(found.serving, ServingSource::Files(_)));
        assert_eq!(found.min_version, TlsVersion::Tls13);
        assert_eq!(found.cipher_suites.len(), 2);
        assert_eq!(found.named[1].names, ["*.c.example", "c.example"]);
        let directory = settings(&["--cert-dir=d"]).unwrap().serving;
        let files =
            KeyPairFiles { certificate: "d/apiserver.crt".into(), key: "d/apiserver.key".into() };
        assert_eq!(directory, ServingSource::IssuedFiles(files));
        assert_eq!(settings(&[]).unwrap().serving, ServingSource::Issued);
    }

    #[test]
    fn a_certificate_without_its_key_and_unknown_names_are_refused() {
        assert!(settings(&["--tls-cert-file=a.crt"]).is_err());
        assert!(settings(&["--tls-private-key-file=a.key"]).is_err());
        assert!(settings(&["--tls-sni-cert-key=a.crt"]).is_err());
        assert!(settings(&["--tls-min-version=VersionTLS11"]).is_err());
        let error = settings(&["--tls-cipher-suites=TLS_RSA_WITH_RC4_128_SHA"]).unwrap_err();
        assert!(error.to_string().contains("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"), "{error}");
    }
}
