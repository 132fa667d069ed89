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
use crate::webhook::authority::CertificateInfo;
use keel::Timestamp;
use tls::{Authority, Certified, IssueError};

/// The time for which a CA is in every bundle before it signs, unless the serving certificate
/// expires earlier.
const ANNOUNCEMENT_TIME: Duration = Duration::from_hours(24);

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
        authorities.retain(|it| CertificateInfo::read(it).is_some_and(|it| now < it.not_after));
        let newest = authorities.first().cloned().unwrap_or_default();
        let newest = Certified { certificate: newest, key: authority_key };
        let can_sign = |it: CertificateInfo| it.not_before <= now && !it.is_due(now);
        let reused = CertificateInfo::of(&newest)
            .is_some_and(can_sign)
            .then(|| Authority::from_pem(&newest));
        let (signer, authority_key) = if let Some(Ok(authority)) = reused {
            (authority, newest.key)
        } else {
            let lifetime = options.authority_lifetime.max(3 * options.serving_lifetime);
            let authority = authority::authority(now, lifetime)?;
            let Certified { certificate, key } = authority.to_pem();
            authorities.insert(0, certificate);
            (authority, key)
        };
        let trusted: Vec<CertificateInfo> =
            authorities.iter().filter_map(|it| CertificateInfo::read(it)).collect();
        let announced = Announcement::of(&trusted[0], options);
        let is_usable = |it: CertificateInfo| {
            it.not_before <= now
                && now < announced.replacement_time(&it)
                && it.names == options.names
                && trusted.iter().any(|authority| it.is_signed_by(authority))
        };
        let serving = match serving {
            Some(it) if CertificateInfo::of(&it).is_some_and(is_usable) => it,
            _ => authority::serving(&signer, &options.names, now, options.serving_lifetime)?,
        };
        let replaced = CertificateInfo::of(&serving).map(|it| announced.replacement_time(&it));
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
        let present = secret.data.as_ref();
        self.data().iter().all(|(key, text)| present.and_then(|it| it.get(key)) == Some(text))
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
struct Announcement {
    duration: Duration,
    end: Timestamp,
}

impl Announcement {
    fn of(newest: &CertificateInfo, options: &CertificateOptions) -> Self {
        // Half of the remaining lifetime of a serving certificate when its successor is due.
        let duration = ANNOUNCEMENT_TIME.min(options.serving_lifetime / 6);
        Self { duration, end: newest.issued_at() + duration }
    }

    /// The time at which the serving certificate is replaced: when its successor is due and the CA
    /// may sign, and in any case before it expires.
    fn replacement_time(&self, serving: &CertificateInfo) -> Timestamp {
        serving.due().max(self.end).min(serving.not_after - self.duration / 4)
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
        let content =
            CertificateSecret::renew(secret.as_ref(), &options(), START + days * DAY).unwrap();
        assert!(
            CertificateInfo::of(&content.serving).is_some(),
            "the serving certificate has its key"
        );
        assert!(content.due > START + days * DAY, "nothing is due at once");
        content
    }

    /// The index of the CA that signed the serving certificate.
    fn signer(content: &CertificateSecret) -> usize {
        let serving = CertificateInfo::of(&content.serving).unwrap();
        let is_signer = |it: &String| serving.is_signed_by(&CertificateInfo::read(it).unwrap());
        content.authorities.iter().position(is_signer).unwrap()
    }

    #[test]
    fn the_first_ca_signs_at_once_and_the_second_after_a_day() {
        let first = renew(None, 0);
        assert_eq!((first.authorities.len(), signer(&first)), (1, 0));
        let third = renew(Some(&renew(Some(&first), 61)), 200);
        // On day 270, the CA has been due since day 243, and the certificate that it signed on day 200
        // since day 260.
        let announced = renew(Some(&third), 270);
        assert_eq!((announced.authorities.len(), signer(&announced)), (2, 1));
        let next_change = announced.due.since(START);
        assert!(next_change > 270 * DAY && next_change <= 271 * DAY, "{next_change:?}");
        assert_eq!(signer(&renew(Some(&announced), 271)), 0);
    }

    #[test]
    fn an_expired_ca_is_removed() {
        let first = renew(None, 0);
        let second = renew(Some(&renew(Some(&renew(Some(&first), 300)), 301)), 350);
        assert_eq!(second.authorities.len(), 2);
        assert!(second.due <= START + 365 * DAY, "the first CA is removed when it expires");
        assert_eq!(renew(Some(&second), 365).authorities.len(), 1);
    }

    #[test]
    fn a_key_of_another_certificate_is_replaced_with_its_certificate() {
        let (first, other) = (renew(None, 0), renew(None, 0));
        let mismatched = CertificateSecret {
            authority_key: other.authority_key.clone(),
            ..renew(Some(&first), 0)
        };
        let renewed = renew(Some(&mismatched), 0);
        assert_eq!(renewed.authorities[1..], first.authorities, "the old CA is still trusted");
        assert_eq!(signer(&renewed), 1, "the certificate that it signed is still used");

        let mut mismatched = renew(Some(&first), 0);
        mismatched.serving.key = other.serving.key.clone();
        let renewed = renew(Some(&mismatched), 0);
        assert_eq!((renewed.authorities == first.authorities, signer(&renewed)), (true, 0));
    }

    #[test]
    fn a_certificate_of_another_ca_with_the_same_name_is_replaced() {
        let (first, other) = (renew(None, 0), renew(None, 0));
        let mixed = CertificateSecret { serving: other.serving, ..renew(Some(&first), 0) };
        assert_eq!(signer(&renew(Some(&mixed), 0)), 0);
    }

    #[test]
    fn a_ca_that_is_not_valid_yet_does_not_sign() {
        let early = renew(None, 400);
        let content = renew(Some(&early), 0);
        assert_eq!((content.authorities.len(), signer(&content)), (2, 0));
        let serving = CertificateInfo::of(&content.serving).unwrap();
        assert!(serving.not_before <= START);
    }
}
