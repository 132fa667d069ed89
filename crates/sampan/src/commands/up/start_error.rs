//! [`explain`]: why a plane did not start, with the flags that avoid the error.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::statvfs;

use apiserver::auth::authentication::token;
use apiserver::auth::authorization::abac;
use apiserver::encryption::config_file;
use apiserver::server;

const MEBIBYTE: u64 = 1 << 20;

/// Flags for a second plane beside a running one.
const OTHER_DIRECTORY: &str = "--data-dir ./plane --kubeconfig ./kubeconfig";

/// Adds a remedy to an error, if one is known. `data_dir` is the plane's data directory, if it has
/// one.
pub(super) fn explain(error: server::Error, data_dir: Option<&Path>) -> anyhow::Error {
    let space = data_dir.and_then(|it| space_remedy(&error, it, free_space(it)));
    let remedy = match &error {
        server::Error::Bind { address, source } => {
            bind_remedy(*address, source.kind(), data_dir.and_then(server::data_holder))
        }
        server::Error::Store(store::Error::Locked { .. }) => Some(format!(
            "another plane is running on the same data: use that one, stop it, or start this one \
             in another directory, as in {OTHER_DIRECTORY}"
        )),
        server::Error::Encryption(config_file::Error::Read { .. }) => {
            Some("name a file that can be read with --encryption-provider-config".to_owned())
        }
        server::Error::Undecryptable { .. } => Some(
            "the objects in the data directory are encrypted: name the file with their keys with \
             --encryption-provider-config"
                .to_owned(),
        ),
        server::Error::ServingCertificate(_) => Some(
            "name a certificate and its key with --tls-cert-file and --tls-private-key-file, \
             --cert-dir or --tls-sni-cert-key"
                .to_owned(),
        ),
        server::Error::ServiceCidr(_) => {
            Some("choose another network, as in --service-cidr 10.0.0.0/24".to_owned())
        }
        server::Error::Certificates(_) | server::Error::Tokens(_)
            if has_cause(&error, |it| it == ErrorKind::PermissionDenied) =>
        {
            let directory = data_dir.map_or_else(String::new, |it| it.display().to_string());
            Some(format!(
                "the files in {directory}/pki cannot be used: check that they belong to you, or \
                 choose another directory with --data-dir"
            ))
        }
        server::Error::Store(store::Error::Io { .. }) => space.or_else(|| {
            let directory = data_dir?.display();
            Some(format!(
                "objects cannot be stored in {directory}: choose another directory with --data-dir, \
                 or use --in-memory"
            ))
        }),
        _ => space,
    };
    match remedy {
        Some(remedy) => anyhow::Error::new(error).context(remedy),
        None => error.into(),
    }
}

/// Adds a remedy to the error of a token file that cannot be read.
pub(super) fn explain_token_file(error: token::Error) -> anyhow::Error {
    match error {
        token::Error::Read { .. } => {
            anyhow::Error::new(error).context("name a file that can be read with --token-auth-file")
        }
        token::Error::Line { .. } => error.into(),
    }
}

/// Adds a remedy to the error of a policy file that cannot be read.
pub(super) fn explain_policy_file(error: abac::Error) -> anyhow::Error {
    match error {
        abac::Error::Read { .. } => anyhow::Error::new(error)
            .context("name a file that can be read with --authorization-policy-file"),
        abac::Error::Line { .. } => error.into(),
    }
}

/// The remedy for an address that cannot be bound. `holder` is the process of another plane with the
/// same data, if one is running.
fn bind_remedy(address: SocketAddr, kind: ErrorKind, holder: Option<String>) -> Option<String> {
    let ip = address.ip();
    let other = SocketAddr::new(ip, address.port().wrapping_add(1));
    Some(match kind {
        ErrorKind::AddrInUse if let Some(holder) = holder => format!(
            "a plane is running on the same data already ({holder}): use that one, stop it, or \
             start this one in another directory, as in --listen {other} {OTHER_DIRECTORY}"
        ),
        ErrorKind::AddrInUse => format!(
            "{address} is in use by another program: stop it, or listen elsewhere, as in \
             --listen {other} (port 0 picks a free one); if it is another plane, with a kubeconfig of \
             its own too, as in --kubeconfig ./kubeconfig"
        ),
        ErrorKind::AddrNotAvailable => format!(
            "this machine has no address {ip}: use --listen 127.0.0.1:{port} for this machine \
             alone, or --listen 0.0.0.0:{port} for all of its addresses",
            port = address.port()
        ),
        ErrorKind::PermissionDenied => format!(
            "port {} is reserved for privileged programs: use --listen with a port above 1023, as \
             in --listen {ip}:6443",
            address.port()
        ),
        _ => return None,
    })
}

/// The remedy for a full disk.
fn space_remedy(error: &server::Error, data_dir: &Path, free: Option<u64>) -> Option<String> {
    if !is_full(error) {
        return None;
    }
    let free = free.map_or_else(String::new, |it| format!(" ({} MiB are free)", it / MEBIBYTE));
    Some(format!(
        "there is not enough space on the disk of {}{free}: free some, choose another disk with \
         --data-dir, or use --in-memory",
        data_dir.display(),
    ))
}

/// Returns whether the error or one of its causes is a full disk.
fn is_full(error: &server::Error) -> bool {
    matches!(error, server::Error::Store(store::Error::Full))
        || has_cause(error, |it| matches!(it, ErrorKind::StorageFull | ErrorKind::QuotaExceeded))
}

/// Returns whether one of the causes is an I/O error of a matching kind.
fn has_cause(error: &server::Error, matches_kind: impl Fn(ErrorKind) -> bool) -> bool {
    keel::causes(error).any(|cause| {
        let shared = || cause.downcast_ref::<Arc<io::Error>>().map(|it| &**it);
        let kind = cause.downcast_ref::<io::Error>().or_else(shared).map(io::Error::kind);
        kind.is_some_and(&matches_kind)
    })
}

/// The number of free bytes on the disk of a directory, which need not exist yet.
fn free_space(directory: &Path) -> Option<u64> {
    let existing = directory.ancestors().find(|it| it.exists()).unwrap_or(Path::new("."));
    let found = statvfs(existing).ok()?;
    found.f_bavail.checked_mul(found.f_frsize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bind_error(kind: ErrorKind) -> String {
        let address = "127.0.0.1:6443".parse().unwrap();
        explain(server::Error::Bind { address, source: kind.into() }, None).to_string()
    }

    #[test]
    fn the_error_of_a_port_in_use_names_a_plane_on_the_same_data() {
        let address = "127.0.0.1:6443".parse().unwrap();
        let holder = Some("process 7".to_owned());
        let remedy = bind_remedy(address, ErrorKind::AddrInUse, holder).unwrap();
        assert!(remedy.starts_with("a plane is running on the same data already (process 7)"));
        assert!(remedy.contains("--listen 127.0.0.1:6444 --data-dir"), "{remedy}");
    }

    #[test]
    fn the_error_of_an_unusable_address_suggests_another_value() {
        let in_use = bind_error(ErrorKind::AddrInUse);
        assert!(in_use.contains("--listen 127.0.0.1:6444"), "{in_use}");
        assert!(in_use.ends_with("as in --kubeconfig ./kubeconfig"), "{in_use}");
        assert!(bind_error(ErrorKind::AddrNotAvailable).contains("--listen 0.0.0.0:6443"));
        assert!(bind_error(ErrorKind::PermissionDenied).contains("above 1023"));
        assert_eq!(bind_error(ErrorKind::Other), "cannot listen on 127.0.0.1:6443");
    }

    fn io_error(kind: ErrorKind) -> server::Error {
        server::Error::Store(store::Error::Io {
            doing: "open",
            path: "/data/store/LOCK".into(),
            source: Arc::new(kind.into()),
        })
    }

    #[test]
    fn the_error_of_a_full_disk_names_the_directory_and_the_free_space() {
        let full = server::Error::Store(store::Error::Full);
        let remedy = space_remedy(&full, Path::new("/data"), Some(3 << 20)).unwrap();
        assert!(remedy.contains("disk of /data (3 MiB are free): free some"), "{remedy}");
        let quota = io_error(ErrorKind::QuotaExceeded);
        assert!(space_remedy(&quota, Path::new("/data"), Some(u64::MAX)).is_some());
    }

    #[test]
    fn other_errors_do_not_mention_the_free_space() {
        for kind in [ErrorKind::ReadOnlyFilesystem, ErrorKind::NotFound] {
            assert_eq!(space_remedy(&io_error(kind), Path::new("/data"), Some(0)), None);
        }
        let closed = server::Error::Store(store::Error::Closed);
        assert_eq!(space_remedy(&closed, Path::new("/data"), None), None);
    }
}
