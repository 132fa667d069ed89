//! [`ServingTls`]: the certificates and authorities of a plane's listener, which are read again when
//! their files change, and renewed before they end.
//!
//! Each file is followed by itself: what cannot be used, such as a file that is being written, is logged
//! and counted in `apiserver_unusable_certificate_files`, and its previous content stays. What has become
//! of the other files, such as an authority that is no longer trusted, takes effect.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use arc_swap::ArcSwap;

use super::Error;
use crate::auth::authentication::client_authorities::ClientAuthorities;
use crate::certificates;
use crate::certificates::tls_settings::{KeyPairFiles, ServingSource};
use crate::certificates::{LEAF_LIFETIME, LOOPBACK_NAME};
use crate::config::Config;
use crate::config_files::followed::Followed;
use crate::listen::tls_config::{TlsConfig, TlsContent, TlsParameters};
use crate::listen::verifier;
use crate::plane::Plane;
use crate::storage::Storage;
use keel::{Timestamp, message_with_causes};
use tls::Certified;

/// The host names in every certificate that the plane issues for itself, which pods and users expect.
const DEFAULT_NAMES: [&str; 6] = [
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    LOOPBACK_NAME,
];

/// See the [module documentation](self).
pub(super) struct ServingTls {
    plane: Arc<Plane>,
    parameters: TlsParameters,
    /// The last usable authorities of users besides that of the plane.
    clients: ClientAuthorities,
    /// The last usable authorities of authenticating proxies; empty if there are none.
    proxies: ClientAuthorities,
    /// The last usable serving certificates, by the names that [`usable`](Self::usable) has for them.
    certificates: BTreeMap<String, Certified>,
    /// Why the previous content of some files stays, by the same names. It was logged.
    errors: BTreeMap<String, String>,
    /// The host names of the certificates that the plane issues.
    names: Vec<String>,
    /// The addresses of the certificates that the plane issues.
    addresses: Vec<IpAddr>,
    issued: Option<Issued>,
    /// The bundle of the plane's authority in the last content.
    own_bundle: String,
}

/// A serving certificate that the plane has issued.
struct Issued {
    certified: Certified,
    /// The time at which it is renewed.
    renewal: Timestamp,
    /// The authority that has issued it, in PEM.
    authority: String,
}

impl ServingTls {
    /// The certificates of a listener at this address.
    pub(super) fn new(plane: &Arc<Plane>, config: &Config, address: IpAddr) -> Self {
        let service_ip = plane.service_allocator.first_address().parse::<IpAddr>().ok();
        let addresses = [Ipv4Addr::LOCALHOST.into(), address]
            .into_iter()
            .chain(service_ip)
            .chain([Ipv6Addr::LOCALHOST.into()])
            .collect();
        let names = DEFAULT_NAMES.map(str::to_owned).into_iter();
        let names = names.chain(config.serving_names.iter().cloned()).collect();
        let parameters = TlsParameters {
            settings: config.tls.clone(),
            request_header: plane.request_header.clone(),
            clock: plane.storage.clock.clone(),
        };
        let proxies = plane.request_header.as_ref().map(|it| it.authorities.clone());
        Self {
            plane: Arc::clone(plane),
            parameters,
            clients: config.client_authorities.clone(),
            proxies: proxies.unwrap_or_default(),
            certificates: BTreeMap::new(),
            errors: BTreeMap::new(),
            names,
            addresses,
            issued: None,
            own_bundle: String::new(),
        }
    }

    /// Reads the files, and starts the task that follows them.
    pub(super) fn start(mut self) -> Result<Arc<ArcSwap<TlsConfig>>, Error> {
        let content = self.content()?;
        let config = TlsConfig::new(&content, &self.parameters)?;
        let current = Arc::new(ArcSwap::from_pointee(config));
        let tasks = self.plane.storage.tasks.clone();
        tasks.spawn("serving-certificates", self.follow(content, Arc::clone(&current)));
        Ok(current)
    }

    async fn follow(mut self, content: TlsContent, current: Arc<ArcSwap<TlsConfig>>) {
        let plane = Arc::clone(&self.plane);
        let Storage { clock, tasks, .. } = &*plane.storage;
        let name = "set of certificates and authorities";
        let mut followed = Followed::new(name, clock, tasks, Some(content));
        while let Some(change) = followed.changed(|| self.content().map(Some)).await {
            let Ok(content) = change else { continue };
            match self.config(&content) {
                Ok(config) => {
                    plane.client_authorities.store(Arc::new(content.clients.clone()));
                    plane.proxy_authorities.store(Arc::new(content.proxies.clone()));
                    current.store(Arc::new(config));
                    plane.served_bundle.send_if_modified(|served| {
                        let is_new = *served != self.own_bundle;
                        served.clone_from(&self.own_bundle);
                        is_new
                    });
                    followed.settle(content);
                    tracing::info!("new connections have new certificates or authorities");
                }
                Err(error) => drop(followed.fail(message_with_causes(&error))),
            }
        }
    }

    /// The configuration with this content.
    fn config(&self, content: &TlsContent) -> Result<TlsConfig, Error> {
        self.check_overlap(&content.proxies, &content.clients)?;
        Ok(TlsConfig::new(content, &self.parameters)?)
    }

    fn check_overlap(&self, proxies: &str, clients: &str) -> Result<(), Error> {
        match &self.parameters.request_header {
            Some(settings) => Ok(settings.check_overlap(proxies, clients)?),
            None => Ok(()),
        }
    }

    /// The content by the present files, and by the previous ones where those cannot be used. The error
    /// is that of a certificate that has never been usable.
    fn content(&mut self) -> Result<TlsContent, Error> {
        let (named, source) = {
            let settings = &self.parameters.settings;
            (settings.named.clone(), settings.serving.clone())
        };
        let serving = self.serving(&source);
        let serving = self.certificate("serving certificate".to_owned(), serving)?;
        let mut certificates = Vec::new();
        if source != ServingSource::Issued {
            let issued = self.issue(None).map_err(Error::from);
            let issued = self.certificate(format!("certificate of {LOOPBACK_NAME}"), issued)?;
            certificates.push((issued, vec![LOOPBACK_NAME.to_owned()]));
        }
        for named in named {
            let name = format!("certificate in {}", named.files.certificate.display());
            let read = named.files.read().map_err(Error::from);
            certificates.push((self.certificate(name, read)?, named.names));
        }
        let own = self.plane.authority.load_full();
        own.bundle().clone_into(&mut self.own_bundle);
        self.reread_authorities()?;
        self.plane.tls_metrics.set_unusable_files(self.errors.len());
        let clients = self.clients.with_own(&self.own_bundle);
        let proxies = self.proxies.bundle().to_owned();
        Ok(TlsContent { serving, named: certificates, clients, proxies })
    }

    /// The default serving certificate.
    fn serving(&mut self, source: &ServingSource) -> Result<Certified, Error> {
        match source {
            ServingSource::Issued => Ok(self.issue(None)?),
            ServingSource::Files(files) => Ok(files.read()?),
            ServingSource::IssuedFiles(files) => match files.read_foreign()? {
                Some(certified) => Ok(certified),
                None => Ok(self.issue(Some(files))?),
            },
        }
    }

    /// A serving certificate, or the last usable one with this name.
    fn certificate(
        &mut self,
        name: String,
        read: Result<Certified, Error>,
    ) -> Result<Certified, Error> {
        let last = self.certificates.get(&name).cloned();
        let certified = self.usable(&name, read, last)?;
        self.certificates.insert(name, certified.clone());
        Ok(certified)
    }

    /// Reads the files of authorities again. If the two files would make all users proxies, both keep
    /// their previous content.
    fn reread_authorities(&mut self) -> Result<(), Error> {
        let last = (self.clients.clone(), self.proxies.clone());
        let clients = self.usable("client authorities", reread(&last.0), Some(last.0.clone()))?;
        let proxies = self.usable("proxy authorities", reread(&last.1), Some(last.1.clone()))?;
        let overlap = self.check_overlap(proxies.bundle(), &clients.with_own(&self.own_bundle));
        let both = overlap.map(|()| (clients, proxies));
        (self.clients, self.proxies) =
            self.usable("client and proxy authorities", both, Some(last))?;
        Ok(())
    }

    /// What was read; if it cannot be used, the last value, if there is one. An error that persists is
    /// logged once.
    fn usable<T>(
        &mut self,
        name: &str,
        read: Result<T, Error>,
        last: Option<T>,
    ) -> Result<T, Error> {
        match (read, last) {
            (Ok(value), _) => {
                self.errors.remove(name);
                Ok(value)
            }
            (Err(error), Some(last)) => {
                let error = message_with_causes(&error);
                if self.errors.get(name) != Some(&error) {
                    tracing::error!(error, "the previous content stays in effect: {name}");
                    self.errors.insert(name.to_owned(), error);
                }
                Ok(last)
            }
            (Err(error), None) => Err(error),
        }
    }

    /// The certificate of the plane, which is issued again when two thirds of its lifetime are over or
    /// the authority has changed. It is then written to `files`, and also if they are missing.
    fn issue(&mut self, files: Option<&KeyPairFiles>) -> Result<Certified, certificates::Error> {
        let authority = self.plane.authority.load();
        let now = self.plane.storage.clock.now();
        if let Some(issued) = &self.issued
            && now < issued.renewal
            && issued.authority == authority.certificate()
        {
            if let Some(files) = files.filter(|it| it.are_missing()) {
                files.write(&issued.certified)?;
            }
            return Ok(issued.certified.clone());
        }
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        let certified = authority.serving(&names, &self.addresses, now)?;
        if let Some(files) = files {
            files.write(&certified)?;
        }
        let renewal = now + LEAF_LIFETIME * 2 / 3;
        let authority = authority.certificate().to_owned();
        self.issued = Some(Issued { certified: certified.clone(), renewal, authority });
        Ok(certified)
    }
}

/// Reads the file of authorities again; each of them must be usable.
fn reread(authorities: &ClientAuthorities) -> Result<ClientAuthorities, Error> {
    let read = authorities.reread()?;
    if !read.bundle().is_empty() {
        verifier(read.bundle())?;
    }
    Ok(read)
}
