//! [`AuthorityFiles`]: the files of a plane's authority, and its rotation.
//!
//! | file | content |
//! |---|---|
//! | `ca.key` | the key |
//! | `ca.crt` | the certificate, then those of its predecessors, which are trusted until they end or are removed from the file |
//! | `ca-cross.crt` | the certificates of this key that the predecessors have signed |
//! | `ca-next.crt` | the next content of `ca.crt`, during a rotation |
//! | `ca-served.crt` | the certificates that the running plane uses, or those of the last run |
//!
//! A rotation writes `ca-cross.crt`, `ca-next.crt` and `ca.key`, each atomically, and then renames
//! `ca-next.crt`. A rotation that was interrupted after it has replaced the key is completed when the
//! authority is opened; before that, it has changed nothing.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use x509_parser::pem::parse_x509_pem;

use super::{Authority, Error};
use keel::{
    Timestamp, create_private_directory, remove_interrupted_writes, restrict_access, write_private,
};
use tls::{Certified, LoadError};

/// See the [module documentation](self).
#[derive(Debug, Clone)]
pub struct AuthorityFiles {
    directory: PathBuf,
}

/// An authority, and what it was read from.
pub(crate) struct Opened {
    /// The authority.
    pub authority: Authority,
    /// The content of `ca.crt` at that time.
    pub content: String,
}

impl AuthorityFiles {
    /// The files in this directory.
    pub fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned() }
    }

    fn certificate(&self) -> PathBuf {
        self.directory.join("ca.crt")
    }

    fn key(&self) -> PathBuf {
        self.directory.join("ca.key")
    }

    fn cross_signed(&self) -> PathBuf {
        self.directory.join("ca-cross.crt")
    }

    fn next(&self) -> PathBuf {
        self.directory.join("ca-next.crt")
    }

    fn served(&self) -> PathBuf {
        self.directory.join("ca-served.crt")
    }

    /// Removes what a process that was killed during a write has left.
    pub(crate) fn remove_interrupted_writes(&self) -> Result<(), Error> {
        remove_interrupted_writes(&self.directory).map_err(failed(&self.directory))
    }

    /// The content of `ca.crt`, which changes at each rotation; None if there is none.
    pub(crate) fn content(&self) -> Result<Option<String>, Error> {
        read(&self.certificate())
    }

    /// The authority, which is created if there is none. The key is written first: a key without a
    /// certificate has not been used yet.
    pub(crate) fn open(&self, now: Timestamp) -> Result<Opened, Error> {
        create_private_directory(&self.directory).map_err(failed(&self.directory))?;
        match (self.content()?, read(&self.key())?) {
            (Some(certificate), Some(key)) => self.load(Certified { certificate, key }, now),
            (Some(_), None) => Err(unusable(&self.key(), "is missing")),
            (None, Some(key)) if let Some(next) = self.matching_next(&key)? => {
                self.load(Certified { certificate: next, key }, now)
            }
            (None, _) => {
                let authority = Authority::new(now)?;
                let Certified { certificate, key } = authority.signing.to_pem();
                write(&self.key(), &key)?;
                write(&self.certificate(), &certificate)?;
                Ok(Opened { authority, content: certificate })
            }
        }
    }

    /// Replaces the authority by a new one, and returns that. The certificates of the old one stay
    /// valid, and clients that trust only the old one accept the new one.
    pub fn rotate(&self, now: Timestamp) -> Result<Authority, Error> {
        if self.content()?.is_none() {
            return Err(unusable(&self.certificate(), "is missing"));
        }
        let old = self.open(now)?.authority;
        let new = Authority::new(now)?;
        let cross_signed = old.signing.cross_sign(&new.signing, now)? + &old.cross_signed;
        let bundle = format!("{}{}", new.bundle, old.bundle);
        write(&self.cross_signed(), &cross_signed)?;
        write(&self.next(), &bundle)?;
        write(&self.key(), &new.signing.to_pem().key)?;
        self.complete_rotation()?;
        Ok(Authority { signing: new.signing, bundle, cross_signed })
    }

    /// Ends the trust in the predecessors of the authority, whose certificates are refused from then on,
    /// and returns how many there were. A client that trusts only one of them still accepts the
    /// serving certificates of the authority.
    pub fn distrust_predecessors(&self, now: Timestamp) -> Result<usize, Error> {
        if self.content()?.is_none() {
            return Err(unusable(&self.certificate(), "is missing"));
        }
        let Opened { authority, content } = self.open(now)?;
        let predecessors = content.matches(END).count().saturating_sub(1);
        if predecessors > 0 {
            write(&self.certificate(), authority.certificate())?;
        }
        Ok(predecessors)
    }

    /// Records that the plane with these files uses this bundle.
    pub fn set_served(&self, bundle: &str) -> Result<(), Error> {
        write(&self.served(), bundle)
    }

    /// Whether the bundle of [`set_served`](Self::set_served) is that of the present files.
    pub fn are_served(&self, now: Timestamp) -> Result<bool, Error> {
        let Opened { authority, .. } = self.open(now)?;
        Ok(read(&self.served())?.is_some_and(|it| it == authority.bundle()))
    }

    fn complete_rotation(&self) -> Result<(), Error> {
        match fs::rename(self.next(), self.certificate()) {
            // A running plane has completed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other.map_err(failed(&self.next())),
        }
    }

    /// The certificates of an interrupted rotation, if this is its key.
    fn matching_next(&self, key: &str) -> Result<Option<String>, Error> {
        let Some(next) = read(&self.next())? else { return Ok(None) };
        let pair = Certified { certificate: next, key: key.to_owned() };
        if !pair.has_matching_key() {
            return Ok(None);
        }
        self.complete_rotation()?;
        Ok(Some(pair.certificate))
    }

    /// Loads the authority with this key, whose certificate is the first of several.
    fn load(&self, mut stored: Certified, now: Timestamp) -> Result<Opened, Error> {
        if !stored.has_matching_key()
            && let Some(next) = self.matching_next(&stored.key)?
        {
            stored.certificate = next;
        }
        let bundle = valid_certificates(&stored.certificate, now, Keep::First);
        let certificate = first_certificate(&stored.certificate);
        let pair = Certified { certificate, key: stored.key };
        let signing = tls::Authority::from_pem(&pair).map_err(|error| match error {
            LoadError::Key(error) => unusable(&self.key(), &describe_damage(&pair.key, &error)),
            LoadError::Certificate(error) => {
                let damage = error.map_or("no certificate".to_owned(), |it| it.to_string());
                unusable(&self.certificate(), &describe_damage(&pair.certificate, &damage))
            }
            LoadError::Mismatch => {
                unusable(&self.certificate(), "does not belong to the key in ca.key")
            }
        })?;
        let cross_signed = read(&self.cross_signed())?.unwrap_or_default();
        let cross_signed = valid_certificates(&cross_signed, now, Keep::Valid);
        let authority = Authority { signing, bundle, cross_signed };
        Ok(Opened { authority, content: stored.certificate })
    }
}

/// Which certificates of a file are kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keep {
    /// Those that have not ended, and in any case the first.
    First,
    /// Those that have not ended.
    Valid,
}

/// The last line of a certificate in PEM.
const END: &str = "-----END CERTIFICATE-----";

/// The first certificate of a text in PEM; the whole text if it has none.
fn first_certificate(text: &str) -> String {
    match text.split_once(END) {
        Some((first, _)) => format!("{first}{END}\n"),
        None => text.to_owned(),
    }
}

/// The certificates of a text in PEM that have not ended.
fn valid_certificates(text: &str, now: Timestamp, keep: Keep) -> String {
    let is_valid = |block: &str| {
        parse_x509_pem(block.as_bytes()).is_ok_and(|(_, pem)| {
            let parsed = pem.parse_x509();
            parsed.is_ok_and(|it| it.validity().not_after.timestamp() >= now.seconds())
        })
    };
    let mut kept = String::new();
    for (index, block) in text.split_inclusive(END).enumerate() {
        let block = block.trim();
        if block.ends_with(END) && ((index == 0 && keep == Keep::First) || is_valid(block)) {
            kept.push_str(block);
            kept.push('\n');
        }
    }
    kept
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> Error + use<> {
    let path = path.to_owned();
    move |source| Error::File { path, source }
}

fn write(path: &Path, content: &str) -> Result<(), Error> {
    write_private(path, content.as_bytes()).map_err(failed(path))
}

/// Reads a file and restricts access to its owner; None if it does not exist.
fn read(path: &Path) -> Result<Option<String>, Error> {
    let content = match restrict_access(path).and_then(|()| fs::read(path)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(failed(path))?,
    };
    match String::from_utf8(content) {
        Ok(text) => Ok(Some(text)),
        Err(_) => Err(unusable(path, "is damaged")),
    }
}

fn unusable(path: &Path, detail: &str) -> Error {
    Error::Authority { path: path.to_owned(), detail: detail.to_owned() }
}

/// The defect of a file that cannot be parsed. Earlier versions left an empty file behind when the
/// disk was full.
fn describe_damage(content: &str, error: &dyn std::fmt::Display) -> String {
    if content.is_empty() { "is empty".to_owned() } else { format!("is damaged ({error})") }
}

#[cfg(test)]
mod tests {
    use rcgen::KeyPair;

    use super::*;
    use keel::Clock;

    /// Makes an authority, has `change` change its directory, and opens it again.
    fn reopen(change: impl FnOnce(&Path)) -> Result<String, String> {
        let directory = tempfile::tempdir().unwrap();
        let now = Clock::system().now();
        Authority::open(directory.path(), now).unwrap();
        change(directory.path());
        match Authority::open(directory.path(), now) {
            Ok(authority) => Ok(authority.certificate().to_owned()),
            Err(error) => {
                let text = error.to_string();
                assert!(text.contains("delete ca.crt and ca.key"), "{text}");
                Err(text)
            }
        }
    }

    #[test]
    fn a_crash_between_the_key_and_the_certificate_leaves_a_plane_that_starts() {
        reopen(|directory| fs::remove_file(directory.join("ca.crt")).unwrap()).unwrap();
    }

    #[test]
    fn a_damaged_authority_is_an_error_with_the_file_and_the_remedy() {
        for (name, content, detail) in [
            ("ca.key", "", "ca.key is empty"),
            ("ca.crt", "", "ca.crt is empty"),
            ("ca.key", "rubbish", "ca.key is damaged"),
            ("ca.crt", "rubbish", "ca.crt is damaged"),
        ] {
            let error = reopen(|directory| fs::write(directory.join(name), content).unwrap());
            assert!(error.clone().unwrap_err().contains(detail), "{error:?}");
        }
        let error = reopen(|directory| fs::remove_file(directory.join("ca.key")).unwrap());
        assert!(error.clone().unwrap_err().contains("ca.key is missing"), "{error:?}");
    }

    #[test]
    fn a_key_and_a_certificate_that_do_not_belong_together_are_refused() {
        let error = reopen(|directory| {
            let other = KeyPair::generate().unwrap().serialize_pem();
            fs::write(directory.join("ca.key"), other).unwrap();
        });
        assert!(error.clone().unwrap_err().contains("does not belong"), "{error:?}");
    }

    #[test]
    fn a_rotated_authority_signs_with_a_new_key_and_trusts_the_old_one() {
        let directory = tempfile::tempdir().unwrap();
        let files = AuthorityFiles::new(directory.path());
        let now = Clock::system().now();
        assert!(files.rotate(now).is_err(), "there is no authority");
        let first = files.open(now).unwrap().authority;
        let second = files.rotate(now).unwrap();
        assert_ne!(first.certificate(), second.certificate());
        let opened = files.open(now).unwrap().authority;
        assert_eq!(opened.certificate(), second.certificate());
        assert_eq!(opened.bundle(), format!("{}{}", second.certificate(), first.certificate()));
        let serving = opened.serving(&["a.example"], &[], now).unwrap();
        assert!(tls::serving_key(&serving).is_ok());
        assert_eq!(serving.certificate.matches("BEGIN").count(), 2, "with the cross-signed one");
        let third = files.rotate(now).unwrap();
        assert_eq!(third.bundle().matches("BEGIN").count(), 3);
        assert_eq!(third.cross_signed.matches("BEGIN").count(), 2);
    }

    #[test]
    fn expired_predecessors_are_not_trusted() {
        let directory = tempfile::tempdir().unwrap();
        let files = AuthorityFiles::new(directory.path());
        let now = Clock::system().now();
        files.open(now - super::super::AUTHORITY_LIFETIME).unwrap();
        files.rotate(now).unwrap();
        let later = files.open(now + std::time::Duration::from_hours(1)).unwrap().authority;
        assert_eq!(later.bundle(), later.certificate());
        assert_eq!(later.cross_signed, "");
    }

    #[test]
    fn predecessors_that_are_distrusted_are_removed_from_the_bundle() {
        let directory = tempfile::tempdir().unwrap();
        let files = AuthorityFiles::new(directory.path());
        let now = Clock::system().now();
        assert!(files.distrust_predecessors(now).is_err(), "there is no authority");
        files.open(now).unwrap();
        files.rotate(now).unwrap();
        let last = files.rotate(now).unwrap();
        assert_eq!(files.distrust_predecessors(now).unwrap(), 2);
        let opened = files.open(now).unwrap().authority;
        assert_eq!(opened.bundle(), last.certificate());
        assert_eq!(opened.cross_signed, last.cross_signed, "old clients accept the new one");
        assert_eq!(files.distrust_predecessors(now).unwrap(), 0);
    }

    #[test]
    fn a_change_is_served_when_the_plane_has_recorded_it() {
        let directory = tempfile::tempdir().unwrap();
        let files = AuthorityFiles::new(directory.path());
        let now = Clock::system().now();
        let first = files.open(now).unwrap().authority;
        assert!(!files.are_served(now).unwrap(), "no plane has run");
        files.set_served(first.bundle()).unwrap();
        assert!(files.are_served(now).unwrap());
        let second = files.rotate(now).unwrap();
        assert!(!files.are_served(now).unwrap());
        files.set_served(second.bundle()).unwrap();
        assert!(files.are_served(now).unwrap());
        files.distrust_predecessors(now).unwrap();
        assert!(!files.are_served(now).unwrap());
    }

    #[test]
    fn an_interrupted_rotation_is_completed_or_has_changed_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let files = AuthorityFiles::new(directory.path());
        let now = Clock::system().now();
        let first = files.open(now).unwrap().authority;
        let old_certificate = fs::read(files.certificate()).unwrap();
        let old_key = fs::read(files.key()).unwrap();
        let second = files.rotate(now).unwrap();
        fs::rename(files.certificate(), files.next()).unwrap();
        fs::write(files.certificate(), &old_certificate).unwrap();
        assert_eq!(files.open(now).unwrap().authority.certificate(), second.certificate());
        assert!(!files.next().exists());

        fs::rename(files.certificate(), files.next()).unwrap();
        fs::write(files.certificate(), &old_certificate).unwrap();
        fs::write(files.key(), &old_key).unwrap();
        assert_eq!(files.open(now).unwrap().authority.certificate(), first.certificate());
    }

    #[test]
    fn the_content_of_an_opened_authority_is_that_before_a_later_rotation() {
        let directory = tempfile::tempdir().unwrap();
        let files = AuthorityFiles::new(directory.path());
        let now = Clock::system().now();
        for _ in 0..3 {
            let Opened { authority, content } = files.open(now).unwrap();
            assert_eq!(files.content().unwrap().as_ref(), Some(&content));
            files.rotate(now).unwrap();
            assert!(content.starts_with(authority.certificate()));
            assert_ne!(files.content().unwrap(), Some(content));
        }
        // An interrupted rotation: the content is that of `ca-next.crt`.
        fs::rename(files.certificate(), files.next()).unwrap();
        let Opened { authority, content } = files.open(now).unwrap();
        assert!(content.starts_with(authority.certificate()));
        assert_eq!(files.content().unwrap(), Some(content));
    }

    #[cfg(unix)]
    #[test]
    fn the_access_of_other_users_to_keys_is_removed() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let keys = directory.path().join("pki");
        let now = Clock::system().now();
        Authority::open(&keys, now).unwrap();
        for (path, mode) in [(keys.clone(), 0o755), (keys.join("ca.key"), 0o644)] {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
        Authority::open(&keys, now).unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&keys), mode(&keys.join("ca.key"))), (0o700, 0o600));
    }
}
