//! Network namespaces with a name, as `ip netns` makes them: files on which a namespace is mounted.
//!
//! A thread enters a namespace and does not leave it, so each call has a thread of its own.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};
use rtnetlink::LinkUnspec;
use tokio::sync::oneshot;

use super::netlink::{connected, link};
use crate::backend::{BackendError, Mark};

/// What has the name of a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NamespaceState {
    /// Nothing.
    Missing,
    /// A file without a namespace: the operator has ended between the two.
    EmptyFile,
    /// A namespace with the mark.
    Ours,
    /// Anything else.
    Foreign,
}

/// What the file is.
pub(super) async fn state(path: &Path, mark: &Mark) -> Result<NamespaceState, BackendError> {
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(NamespaceState::Missing);
        }
        metadata => metadata?,
    };
    Ok(match alias(path).await? {
        Some(alias) if alias == mark.as_str() => NamespaceState::Ours,
        None if metadata.is_file() && metadata.len() == 0 && !is_namespace(path)? => {
            NamespaceState::EmptyFile
        }
        _ => NamespaceState::Foreign,
    })
}

/// The marks of all namespaces whose names begin with `prefix`.
pub(super) async fn marks(directory: &Path, prefix: &str) -> Result<Vec<String>, BackendError> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut marks = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(prefix) {
            marks.extend(alias(&entry.path()).await?);
        }
    }
    Ok(marks)
}

/// Makes a namespace whose `lo` has the mark, and then gives it its name.
pub(super) async fn create(path: &Path, mark: &Mark) -> Result<(), BackendError> {
    let (path, mark) = (path.to_owned(), mark.to_string());
    in_thread(move || {
        fs::create_dir_all(path.parent().unwrap_or(Path::new("/")))?;
        unshare(CloneFlags::CLONE_NEWNET)?;
        block_on(connected(async |netlink| {
            let lo = LinkUnspec::new_with_name("lo").alias(mark).up().build();
            netlink.link().set(lo).execute().await.map_err(BackendError::from)
        }))?;
        File::options().create(true).append(true).open(&path)?;
        let none: Option<&str> = None;
        mount(Some("/proc/thread-self/ns/net"), &path, none, MsFlags::MS_BIND, none)?;
        Ok(())
    })
    .await
}

/// Sets an interface in a namespace up.
pub(super) async fn set_up(path: &Path, interface: &'static str) -> Result<(), BackendError> {
    let path = path.to_owned();
    in_thread(move || {
        setns(File::open(&path)?, CloneFlags::CLONE_NEWNET)?;
        block_on(connected(async |netlink| {
            let up = LinkUnspec::new_with_name(interface).up().build();
            netlink.link().set(up).execute().await.map_err(BackendError::from)
        }))
    })
    .await
}

/// Removes the name. The namespace ends with the last process in it.
pub(super) async fn delete(path: &Path) -> Result<(), BackendError> {
    match umount2(path, MntFlags::MNT_DETACH) {
        // Not mounted.
        Ok(()) | Err(Errno::EINVAL | Errno::ENOENT) => {}
        Err(error) => return Err(io::Error::from(error).into()),
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// The alias of `lo` in a namespace; `None` if it has none, or there is no namespace.
async fn alias(path: &Path) -> Result<Option<String>, BackendError> {
    let path = path.to_owned();
    in_thread(move || {
        match setns(File::open(&path)?, CloneFlags::CLONE_NEWNET) {
            Err(Errno::EINVAL) => return Ok(None),
            entered => entered?,
        }
        let lo = block_on(connected(async |netlink| link(&netlink, "lo").await))?;
        Ok(lo.and_then(|lo| lo.alias))
    })
    .await
}

/// Whether a namespace is mounted on the file.
fn is_namespace(path: &Path) -> Result<bool, BackendError> {
    use nix::sys::statfs::{NSFS_MAGIC, statfs};
    let found = statfs(path).map_err(io::Error::from)?;
    Ok(found.filesystem_type() == NSFS_MAGIC)
}

fn block_on<T>(acting: impl Future<Output = Result<T, BackendError>>) -> io::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(acting).map_err(io::Error::other)
}

/// Runs `work` in a thread that ends afterwards, in whatever namespace it is.
async fn in_thread<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, BackendError> {
    let (sender, result) = oneshot::channel();
    let thread = std::thread::Builder::new().name("network-namespace".to_owned());
    thread.spawn(move || drop(sender.send(work())))?;
    let ended = |_| io::Error::other("the thread has ended");
    result.await.map_err(ended).and_then(|done| done).map_err(BackendError::from)
}
