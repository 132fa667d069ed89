//! Follows the files of the plane's authority, and renews the certificate with which the server calls
//! aggregated servers.
//!
//! `sampan certs rotate` replaces the files. From then on the new authority signs; the serving
//! certificate is issued again by [`ServingTls`](super::serving_tls::ServingTls).

use std::sync::Arc;
use std::time::Duration;

use crate::certificates;
use crate::certificates::authority_files::AuthorityFiles;
use crate::certificates::{Authority, LEAF_LIFETIME};
use crate::extensions::aggregation;
use crate::plane::Plane;
use keel::{Timestamp, blocking, message_with_causes};
use tls::Identity;

/// The interval at which the files are read.
const INTERVAL: Duration = Duration::from_secs(5);

/// The client certificate for aggregated servers.
pub(super) fn front_proxy(
    authority: &Authority,
    now: Timestamp,
) -> Result<Identity, certificates::Error> {
    let issued = authority.client(aggregation::FRONT_PROXY, &[], now)?;
    Ok(Identity { certificate: issued.certificate.into(), key: issued.key.into() })
}

/// Follows the files until the plane stops. A plane in memory has none.
pub(super) async fn run(plane: Arc<Plane>, files: Option<AuthorityFiles>) {
    let clock = plane.storage.clock.clone();
    let stop = plane.storage.tasks.shutdown();
    tokio::pin!(stop);
    let interval = if files.is_some() { INTERVAL } else { LEAF_LIFETIME / 3 };
    let mut renewal = clock.now() + LEAF_LIFETIME * 2 / 3;
    let mut content = files.as_ref().and_then(|it| it.content().ok().flatten());
    // An error that persists is logged once.
    let mut logged = None;
    loop {
        tokio::select! {
            () = clock.sleep(interval) => {}
            () = &mut stop => return,
        }
        let now = clock.now();
        let mut is_new = false;
        if let Some(files) = &files {
            match blocking(|| reload(files, &mut content, now)) {
                Ok(None) => logged = None,
                Ok(Some(authority)) => {
                    tracing::info!("the certificate authority was replaced");
                    plane.root_bundle.send_replace(authority.bundle().to_owned());
                    plane.authority.store(Arc::new(authority));
                    (is_new, logged) = (true, None);
                }
                Err(error) => {
                    let error = message_with_causes(&error);
                    if logged.as_ref() != Some(&error) {
                        tracing::error!(error, "the previous certificate authority stays");
                        logged = Some(error);
                    }
                }
            }
        }
        if is_new || now >= renewal {
            match front_proxy(&plane.authority.load(), now) {
                Ok(identity) => {
                    plane.aggregation.set_identity(identity);
                    renewal = now + LEAF_LIFETIME * 2 / 3;
                }
                Err(error) => tracing::error!(%error, "cannot renew a client certificate"),
            }
        }
    }
}

/// The authority, if its files have changed; their content is then stored in `content`. A missing file
/// is not replaced while the plane runs.
fn reload(
    files: &AuthorityFiles,
    content: &mut Option<String>,
    now: Timestamp,
) -> Result<Option<Authority>, certificates::Error> {
    let fresh = files.content()?;
    if fresh.is_none() || fresh == *content {
        return Ok(None);
    }
    let authority = files.open(now)?;
    *content = files.content()?;
    Ok(Some(authority))
}
