//! Follows the files of the plane's authority, and renews the certificate with which the server calls
//! aggregated servers.
//!
//! `sampan certs rotate` replaces the files. From then on the new authority signs; the serving
//! certificate is issued again by [`ServingTls`](super::serving_tls::ServingTls).

use std::sync::Arc;

use crate::certificates;
use crate::certificates::authority_files::{AuthorityFiles, Opened};
use crate::certificates::{Authority, LEAF_LIFETIME};
use crate::config_files::followed::{Followed, INTERVAL};
use crate::extensions::aggregation;
use crate::plane::Plane;
use crate::storage::Storage;
use keel::{Timestamp, blocking, message_with_causes};
use tls::Identity;

/// The client certificate for aggregated servers.
pub(super) fn front_proxy(
    authority: &Authority,
    now: Timestamp,
) -> Result<Identity, certificates::Error> {
    let issued = authority.client(aggregation::FRONT_PROXY, &[], now)?;
    Ok(Identity { certificate: issued.certificate.into(), key: issued.key.into() })
}

/// Follows the files, which have had this content, until the plane stops. A plane in memory has none.
pub(super) async fn run(plane: Arc<Plane>, files: Option<(AuthorityFiles, String)>) {
    let Storage { clock, tasks, .. } = &*plane.storage;
    let (files, content) = files.unzip();
    let mut followed = Followed::new("certificate authority", clock, tasks, content);
    let mut renewal = clock.now() + LEAF_LIFETIME * 2 / 3;
    loop {
        // A missing file is not replaced while the plane runs.
        let read = || files.as_ref().map_or(Ok(None), AuthorityFiles::content);
        let change = tokio::select! {
            change = followed.changed(read) => match change {
                Some(change) => Some(change),
                None => return,
            },
            () = clock.sleep_until(renewal) => None,
        };
        let now = clock.now();
        if let (Some(change), Some(files)) = (change, &files) {
            if change.is_err() {
                continue;
            }
            match blocking(|| files.open(now)) {
                Ok(Opened { authority, content }) => {
                    tracing::info!("the certificate authority was replaced");
                    let bundle = authority.bundle().to_owned();
                    plane.authority.store(Arc::new(authority));
                    // Last: whoever sees the new bundle gets certificates of the new authority.
                    plane.root_bundle.send_replace(bundle);
                    // Not what was read before: the files may have been replaced in between.
                    followed.settle(content);
                }
                Err(error) => {
                    followed.fail(message_with_causes(&error));
                    continue;
                }
            }
        }
        renewal = now
            + match front_proxy(&plane.authority.load(), now) {
                Ok(identity) => {
                    plane.aggregation.set_identity(identity);
                    LEAF_LIFETIME * 2 / 3
                }
                Err(error) => {
                    tracing::error!(%error, "cannot renew a client certificate");
                    INTERVAL
                }
            };
    }
}
