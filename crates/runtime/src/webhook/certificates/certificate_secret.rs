//! [`CertificateSecret`]: the desired content of the Secret, which reuses the valid part of its
//! present content.
//!
//! ```text
//!              made        due (2/3)          expired
//! authority 1   ├────────────┼───────────────────┤
//! authority 2                ├─ announced ─┼──────────── …      signs from here on, not before
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;

use super::CertificateOptions;
use crate::webhook::authority;
use crate::webhook::authority::Facts;
use keel::Timestamp;
use tls::{Authority, Certified, IssueError};

/// The time for which a CA is in every bundle before it signs, unless the serving certificate
/// expires earlier.
const ANNOUNCED: Duration = Duration::from_hours(24);

/// The present content of a Secret, valid or not.
#[derive(Default)]
struct StoredCertificate {
    authorities: Vec<String>,
    authority_key: String,
    serving: Option<Certified>,
}

/// See the [module documentation](self).
pub(super) struct CertificateSecret {
    /// Newest first, and at least one.
    authorities: Vec<String>,
    /// The key of the newest CA.
    authority_key: String,
    pub(super) serving: Certified,
    /// The time of the next change.
    pub(super) due: Timestamp,
}

impl StoredCertificate {
    fn read(secret: &Secret) -> Self {
        let text = |key: &str| {
            let bytes = secret.data.as_ref()?.get(key)?.0.clone();
            String::from_utf8(bytes).ok()
        };
        let serving = text("tls.crt").zip(text("tls.key"));
        Self {
            authorities: authority::certificates(&text("ca.crt").unwrap_or_default()),
            authority_key: text("ca.key").unwrap_or_default(),
            serving: serving.map(|(certificate, key)| Certified { certificate, key }),
        }
    }
}

impl CertificateSecret {
    /// The desired content at this time. Inconsistent content is replaced, but for CA certificates,
    /// which are trusted until they expire.
    pub(super) fn renew(
        secret: Option<&Secret>,
        options: &CertificateOptions,
        now: Timestamp,
    ) -> Result<Self, IssueError> {
        let StoredCertificate { mut authorities, authority_key, serving } =
            secret.map(StoredCertificate::read).unwrap_or_default();
        authorities.retain(|it| Facts::read(it).is_some_and(|it| now < it.not_after));
        let newest = authorities.first().cloned().unwrap_or_default();
        let newest = Certified { certificate: newest, key: authority_key };
        let can_sign = |it: Facts| it.not_before <= now && !it.is_due(now);
        let reused = Facts::of(&newest).is_some_and(can_sign).then(|| Authority::from_pem(&newest));
        let (signer, authority_key) = if let Some(Ok(authority)) = reused {
            (authority, newest.key)
        } else {
            let lifetime = options.authority_lifetime.max(3 * options.serving_lifetime);
            let authority = authority::authority(now, lifetime)?;
            let Certified { certificate, key } = authority.to_pem();
            authorities.insert(0, certificate);
            (authority, key)
        };
        let trusted: Vec<Facts> = authorities.iter().filter_map(|it| Facts::read(it)).collect();
        let announced = Announced::of(&trusted[0], options);
        let is_good = |it: Facts| {
            it.not_before <= now
                && now < announced.replaces(&it)
                && it.names == options.names
                && trusted.iter().any(|authority| it.is_signed_by(authority))
        };
        let serving = match serving {
            Some(it) if Facts::of(&it).is_some_and(is_good) => it,
            _ => authority::serving(&signer, &options.names, now, options.serving_lifetime)?,
        };
        let replaced = Facts::of(&serving).map(|it| announced.replaces(&it));
        let ends = trusted.iter().map(|it| it.not_after).chain(replaced);
        let due = ends.fold(trusted[0].due(), Timestamp::min);
        Ok(Self { authorities, authority_key, serving, due })
    }

    /// The CA certificates, for configurations.
    pub(super) fn bundle(&self) -> String {
        self.authorities.concat()
    }

    /// Whether the Secret has this content.
    pub(super) fn is_in(&self, secret: &Secret) -> bool {
        let held = secret.data.as_ref();
        self.data().iter().all(|(key, text)| held.and_then(|it| it.get(key)) == Some(text))
    }

    pub(super) fn data(&self) -> BTreeMap<String, ByteString> {
        let parts = [
            ("ca.crt", self.bundle()),
            ("ca.key", self.authority_key.clone()),
            ("tls.crt", self.serving.certificate.clone()),
            ("tls.key", self.serving.key.clone()),
        ];
        parts.map(|(name, text)| (name.to_owned(), ByteString(text.into_bytes()))).into()
    }
}

/// The time for which the newest CA is announced before it signs.
struct Announced {
    for_: Duration,
    until: Timestamp,
}

impl Announced {
    fn of(newest: &Facts, options: &CertificateOptions) -> Self {
        // Half of the remaining lifetime of a serving certificate when its successor is due.
        let for_ = ANNOUNCED.min(options.serving_lifetime / 6);
        Self { for_, until: newest.made() + for_ }
    }

    /// The time at which the serving certificate is replaced: when its successor is due and the CA
    /// may sign, and in any case before it expires.
    fn replaces(&self, serving: &Facts) -> Timestamp {
        serving.due().max(self.until).min(serving.not_after - self.for_ / 4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_hours(24);
    const START: Timestamp = Timestamp::from_seconds(1_700_000_000);

    fn options() -> CertificateOptions {
        CertificateOptions::of_service("default", "hook")
    }

    /// The content `days` after the start, based on the previous content.
    fn renew(found: Option<&CertificateSecret>, days: u32) -> CertificateSecret {
        let secret = found.map(|it| Secret { data: Some(it.data()), ..Secret::default() });
        let kept =
            CertificateSecret::renew(secret.as_ref(), &options(), START + days * DAY).unwrap();
        assert!(Facts::of(&kept.serving).is_some(), "it has its key");
        assert!(kept.due > START + days * DAY, "nothing is due at once");
        kept
    }

    /// The index of the CA that signed the serving certificate.
    fn signer(kept: &CertificateSecret) -> usize {
        let serving = Facts::of(&kept.serving).unwrap();
        let is_signer = |it: &String| serving.is_signed_by(&Facts::read(it).unwrap());
        kept.authorities.iter().position(is_signer).unwrap()
    }

    #[test]
    fn the_first_ca_signs_at_once_and_the_second_after_a_day() {
        let first = renew(None, 0);
        assert_eq!((first.authorities.len(), signer(&first)), (1, 0));
        let third = renew(Some(&renew(Some(&first), 61)), 200);
        // On day 270, the CA is due since 243, and the certificate that it signed on 200 since 260.
        let announced = renew(Some(&third), 270);
        assert_eq!((announced.authorities.len(), signer(&announced)), (2, 1));
        let look_again = announced.due.since(START);
        assert!(look_again > 270 * DAY && look_again <= 271 * DAY, "{look_again:?}");
        assert_eq!(signer(&renew(Some(&announced), 271)), 0);
    }

    #[test]
    fn a_deletion_is_accepted() {
        let first = renew(None, 0);
        let second = renew(Some(&renew(Some(&renew(Some(&first), 300)), 301)), 350);
        assert_eq!(second.authorities.len(), 2);
        assert!(second.due <= START + 365 * DAY, "the first authority is dropped in time");
        assert_eq!(renew(Some(&second), 365).authorities.len(), 1);
    }

    #[test]
    fn a_key_of_another_certificate_is_replaced_with_its_certificate() {
        let (first, other) = (renew(None, 0), renew(None, 0));
        let stolen = CertificateSecret {
            authority_key: other.authority_key.clone(),
            ..renew(Some(&first), 0)
        };
        let healed = renew(Some(&stolen), 0);
        assert_eq!(healed.authorities[1..], first.authorities, "the old one is trusted still");
        assert_eq!(signer(&healed), 1, "and what it signed is good");

        let mut stolen = renew(Some(&first), 0);
        stolen.serving.key = other.serving.key.clone();
        let healed = renew(Some(&stolen), 0);
        assert_eq!((healed.authorities == first.authorities, signer(&healed)), (true, 0));
    }

    #[test]
    fn a_ca_with_the_same_name_is_not_the_same() {
        let (first, other) = (renew(None, 0), renew(None, 0));
        let mixed = CertificateSecret { serving: other.serving, ..renew(Some(&first), 0) };
        assert_eq!(signer(&renew(Some(&mixed), 0)), 0);
    }

    #[test]
    fn a_ca_of_a_clock_that_is_ahead_signs_later() {
        let early = renew(None, 400);
        let kept = renew(Some(&early), 0);
        assert_eq!((kept.authorities.len(), signer(&kept)), (2, 0));
        let serving = Facts::of(&kept.serving).unwrap();
        assert!(serving.not_before <= START);
    }
}
