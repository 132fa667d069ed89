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

use super::netlink::{Netlink, connected, io_error, link, netlink_error};
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
        metadata => metadata.map_err(io_error(format_args!("read {}", path.display())))?,
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
    let reading = || format!("read the directory {}", directory.display());
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(io_error(reading()))?,
    };
    let mut marks = Vec::new();
    for entry in entries {
        let entry = entry.map_err(io_error(reading()))?;
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
        let directory = path.parent().unwrap_or(Path::new("/"));
        let operation = format!("create the directory {}", directory.display());
        fs::create_dir_all(directory).map_err(io_error(operation))?;
        share(directory)?;
        let operation = format!("create the namespace {}", path.display());
        unshare(CloneFlags::CLONE_NEWNET).map_err(io_error(&operation))?;
        block_on(connected(async |netlink| {
            let lo = LinkUnspec::new_with_name("lo").alias(mark).up().build();
            netlink.link().set(lo).execute().await.map_err(netlink_error(&operation))
        }))?;
        let operation = format!("create the file {}", path.display());
        File::options().create(true).append(true).open(&path).map_err(io_error(operation))?;
        let none: Option<&str> = None;
        let operation = format!("mount the namespace on {}", path.display());
        mount(Some("/proc/thread-self/ns/net"), &path, none, MsFlags::MS_BIND, none)
            .map_err(io_error(operation))
    })
    .await
}

/// Makes the directory a mount point whose mounts are shared, as the first `ip netns add` does.
/// That would otherwise bind the directory over the namespaces that exist, which could then not be
/// unmounted any more.
fn share(directory: &Path) -> Result<(), BackendError> {
    let none: Option<&str> = None;
    let operation = format!("share the mounts of {}", directory.display());
    // `ip netns` has the same lock.
    let lock = File::open(directory).map_err(io_error(&operation))?;
    lock.lock().map_err(io_error(&operation))?;
    let shared = || mount(none, directory, none, MsFlags::MS_SHARED | MsFlags::MS_REC, none);
    let made = match shared() {
        // Not a mount point.
        Err(Errno::EINVAL) => {
            let bind = MsFlags::MS_BIND | MsFlags::MS_REC;
            mount(Some(directory), directory, none, bind, none).and_then(|()| shared())
        }
        made => made,
    };
    made.map_err(io_error(operation))
}

/// Calls `act` with a connection to the kernel in the namespace at `path`.
pub(super) async fn inside<T: Send + 'static>(
    path: &Path,
    act: impl AsyncFnOnce(Netlink) -> Result<T, BackendError> + Send + 'static,
) -> Result<T, BackendError> {
    let path = path.to_owned();
    in_thread(move || {
        if !enter(&path)? {
            let why = format!("there is no namespace {}", path.display());
            return Err(BackendError::Conflict(why));
        }
        block_on(connected(act))
    })
    .await
}

/// Removes the name. The namespace ends with the last process in it.
pub(super) async fn delete(path: &Path) -> Result<(), BackendError> {
    match umount2(path, MntFlags::MNT_DETACH) {
        // Not mounted.
        Ok(()) | Err(Errno::EINVAL | Errno::ENOENT) => {}
        Err(errno) => {
            return Err(io_error(format_args!("unmount the namespace {}", path.display()))(errno));
        }
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(io_error(format_args!("delete the file {}", path.display()))(error))
        }
        _ => Ok(()),
    }
}

/// The alias of `lo` in a namespace; `None` if it has none, or there is no namespace.
async fn alias(path: &Path) -> Result<Option<String>, BackendError> {
    let path = path.to_owned();
    in_thread(move || {
        if !enter(&path)? {
            return Ok(None);
        }
        let lo = block_on(connected(async |netlink| link(&netlink, "lo").await))?;
        Ok(lo.and_then(|lo| lo.alias))
    })
    .await
}

/// Moves this thread into a namespace; false if there is none at this path, or no longer.
fn enter(path: &Path) -> Result<bool, BackendError> {
    let operation = format!("enter the namespace {}", path.display());
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        file => file.map_err(io_error(&operation))?,
    };
    match setns(file, CloneFlags::CLONE_NEWNET) {
        // A file on which no namespace is mounted.
        Err(Errno::EINVAL) => Ok(false),
        entered => entered.map(|()| true).map_err(io_error(&operation)),
    }
}

/// Whether a namespace is mounted on the file.
fn is_namespace(path: &Path) -> Result<bool, BackendError> {
    use nix::sys::statfs::{NSFS_MAGIC, statfs};
    let operation = format!("read the file system of {}", path.display());
    Ok(statfs(path).map_err(io_error(operation))?.filesystem_type() == NSFS_MAGIC)
}

fn block_on<T>(acting: impl Future<Output = Result<T, BackendError>>) -> Result<T, BackendError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(io_error("start a runtime"))?.block_on(acting)
}

/// Runs `work` in a thread that ends afterwards, in whatever namespace it is.
async fn in_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BackendError> + Send + 'static,
) -> Result<T, BackendError> {
    let (sender, result) = oneshot::channel();
    let thread = std::thread::Builder::new().name("network-namespace".to_owned());
    thread.spawn(move || drop(sender.send(work()))).map_err(io_error("start a thread"))?;
    let ended = |_| BackendError::Unavailable("the thread has ended".to_owned());
    result.await.map_err(ended)?
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::Request;

    #[tokio::test]
    async fn a_namespace_that_was_deleted_meanwhile_is_a_conflict() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        let deleted = inside(&path, async |_| Ok(())).await;
        assert!(matches!(deleted, Err(BackendError::Conflict(_))), "{deleted:?}");
        // The file without the namespace.
        File::create(&path).unwrap();
        let unmounted = inside(&path, async |_| Ok(())).await;
        assert!(matches!(unmounted, Err(BackendError::Conflict(_))), "{unmounted:?}");
    }

    #[tokio::test]
    async fn a_directory_that_cannot_be_created_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let directory = file.path().join("netns");
        let mark = Mark::new(&"test".parse().unwrap(), &Request::new("default", "a")).unwrap();
        let error = create(&directory.join("a"), &mark).await.unwrap_err().to_string();
        let directory = directory.display();
        let expected = format!("unavailable: cannot create the directory {directory}: Not a dir");
        assert!(error.starts_with(&expected), "{error}");
    }

    #[tokio::test]
    async fn an_error_in_a_thread_keeps_its_class() {
        let failed = in_thread(|| {
            block_on(async { Err::<(), _>(BackendError::Conflict("exists".to_owned())) })
        });
        assert!(matches!(failed.await, Err(BackendError::Conflict(why)) if why == "exists"));
    }
}
