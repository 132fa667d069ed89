//! [`ServingCertificate`]: the certificate of a server, which can be replaced while it runs.
//!
//! [`Certificates`](super::Certificates) maintains one. Certificates from elsewhere, for example
//! from cert-manager, are read from mounted files:
//!
//! ```no_run
//! use runtime::webhook::{ServerOptions, ServingCertificate, ServingError, WebhookServer};
//! use runtime::Manager;
//!
//! async fn serve(manager: &Manager, server: WebhookServer) -> std::io::Result<()> {
//!     let (clock, tasks) = (manager.clock(), manager.tasks());
//!     let mounted = ServingCertificate::from_files("/tls/tls.crt", "/tls/tls.key", clock, tasks);
//!     let certificate = match mounted {
//!         Err(ServingError::File { path, .. }) => panic!("{} is not mounted", path.display()),
//!         mounted => mounted.map_err(std::io::Error::other)?,
//!     };
//!     server.start(&certificate, clock, tasks).await.map(drop)
//! }
//! ```

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use keel::{Clock, Tasks};
use tls::Certified;

/// The interval at which mounted files are read; a kubelet needs up to a minute to update them.
const RELOAD_INTERVAL: Duration = Duration::from_secs(30);

/// See the [module documentation](self). Clones share one certificate.
#[derive(Debug, Clone, Default)]
pub struct ServingCertificate(Arc<CurrentCertificate>);

#[derive(Debug, Default)]
struct CurrentCertificate(ArcSwapOption<CertifiedKey>);

/// The reason why a certificate cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServingError {
    /// The file cannot be read.
    #[error("cannot read {path}")]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The reason.
        #[source]
        source: std::io::Error,
    },
    /// There must be a certificate and a key, both in PEM.
    #[error("the PEM contains no certificate or no key")]
    Pem(#[source] rustls::pki_types::pem::Error),
    /// The key must be supported by rustls and belong to the certificate.
    #[error("cannot use the key")]
    Key(#[source] rustls::Error),
}

impl ServingCertificate {
    /// The certificate in two mounted files, which are read again when they change. If the new
    /// content is not valid, it is logged, and the previous certificate stays.
    pub fn from_files(
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
        clock: &Clock,
        tasks: &Tasks,
    ) -> Result<Self, ServingError> {
        let (certificate, key) = (certificate.into(), key.into());
        let mut current = read(&certificate, &key)?;
        let serving = Self::default();
        serving.set(&current)?;
        let (this, clock, stop) = (serving.clone(), clock.clone(), tasks.shutdown());
        tasks.spawn("certificate files", async move {
            tokio::pin!(stop);
            loop {
                tokio::select! {
                    () = clock.sleep(RELOAD_INTERVAL) => {}
                    () = &mut stop => return,
                }
                let fresh = read(&certificate, &key);
                match fresh.and_then(|fresh| this.set_if_changed(&mut current, fresh)) {
                    Ok(()) => {}
                    Err(error) => tracing::warn!(%error, "cannot read the serving certificate again; the previous one stays"),
                }
            }
        });
        Ok(serving)
    }

    /// Serves this certificate from now on.
    pub(crate) fn set(&self, certified: &Certified) -> Result<(), ServingError> {
        let chain: Result<Vec<_>, _> =
            CertificateDer::pem_slice_iter(certified.certificate.as_bytes()).collect();
        let key = PrivateKeyDer::from_pem_slice(certified.key.as_bytes());
        let (chain, key) = (chain.map_err(ServingError::Pem)?, key.map_err(ServingError::Pem)?);
        let key = CertifiedKey::from_der(chain, key, &ring::default_provider())
            .map_err(ServingError::Key)?;
        self.0.0.store(Some(Arc::new(key)));
        Ok(())
    }

    fn set_if_changed(
        &self,
        current: &mut Certified,
        fresh: Certified,
    ) -> Result<(), ServingError> {
        if *current != fresh {
            self.set(&fresh)?;
            *current = fresh;
        }
        Ok(())
    }

    /// A TLS configuration that serves the present certificate at each handshake.
    pub(crate) fn tls(&self) -> Result<Arc<ServerConfig>, rustls::Error> {
        let resolver: Arc<dyn ResolvesServerCert> = Arc::<CurrentCertificate>::clone(&self.0);
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])?
            .with_no_client_auth()
            .with_cert_resolver(resolver);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

impl ResolvesServerCert for CurrentCertificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.load_full()
    }
}

fn read(certificate: &PathBuf, key: &PathBuf) -> Result<Certified, ServingError> {
    let read = |path: &PathBuf| {
        fs::read_to_string(path).map_err(|source| ServingError::File { path: path.clone(), source })
    };
    Ok(Certified { certificate: read(certificate)?, key: read(key)? })
}
