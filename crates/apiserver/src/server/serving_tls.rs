//! [`ServingTls`]: the certificates and authorities of a plane's listener, which are read again when
//! their files change, and renewed before they end.
//!
//! What cannot be used, such as a file that is being written, is logged, and the previous certificates
//! and authorities stay.

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
    clients: ClientAuthorities,
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
        let (plane, clients) = (Arc::clone(plane), config.client_authorities.clone());
        Self {
            plane,
            parameters,
            clients,
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
        if let Some(settings) = &self.parameters.request_header {
            settings.check_overlap(&content.proxies, &content.clients)?;
        }
        Ok(TlsConfig::new(content, &self.parameters)?)
    }

    /// The content by the present files.
    fn content(&mut self) -> Result<TlsContent, Error> {
        let serving = match self.parameters.settings.serving.clone() {
            ServingSource::Issued => self.issue(None)?,
            ServingSource::Files(files) => files.read()?,
            ServingSource::IssuedFiles(files) => match files.read_foreign()? {
                Some(certified) => certified,
                None => self.issue(Some(&files))?,
            },
        };
        let mut named = Vec::new();
        for certificate in &self.parameters.settings.named {
            named.push((certificate.files.read()?, certificate.names.clone()));
        }
        if self.parameters.settings.serving != ServingSource::Issued {
            named.insert(0, (self.issue(None)?, vec![LOOPBACK_NAME.to_owned()]));
        }
        let own = self.plane.authority.load();
        own.bundle().clone_into(&mut self.own_bundle);
        let clients = self.clients.reread()?.with_own(own.bundle());
        let proxies = match &self.parameters.request_header {
            Some(settings) => settings.authorities.reread()?.bundle().to_owned(),
            None => String::new(),
        };
        Ok(TlsContent { serving, named, clients, proxies })
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
