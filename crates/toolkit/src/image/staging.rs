//! [`Staging`]: a folder beside a target, which replaces it as a whole.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use tempfile::{NamedTempFile, TempDir};

use super::archive::Archive;
use super::layout::Layout;

/// See the [module documentation](self). If it is dropped, nothing was changed.
pub(super) struct Staging {
    folder: TempDir,
    target: PathBuf,
}

impl Staging {
    /// An empty folder that is to become `target`, where a layout may be.
    pub(super) fn new(target: &Path) -> Result<Self> {
        let is_empty = || fs::read_dir(target).is_ok_and(|mut entries| entries.next().is_none());
        if target.exists() && !Layout::is_layout(target) && !is_empty() {
            bail!(
                "{} exists and is not an OCI image layout: choose another folder, or remove it",
                target.display()
            );
        }
        let folder = temporary(target)?;
        Ok(Self { folder, target: target.to_owned() })
    }

    /// The folder.
    pub(super) fn path(&self) -> PathBuf {
        self.folder.path().join("new")
    }

    /// Moves the folder to the target, and removes what was there.
    pub(super) fn commit(self) -> Result<()> {
        let (new, old) = (self.path(), self.folder.path().join("old"));
        let has_old = self.target.exists();
        let moved = if has_old { fs::rename(&self.target, &old) } else { Ok(()) };
        let done = moved.and_then(|()| fs::rename(&new, &self.target));
        let cannot_write = format!("cannot write {}", self.target.display());
        if done.is_err() && old.exists() && fs::rename(&old, &self.target).is_err() {
            let _ = self.folder.keep(); // with what was at the target
        }
        done.context(cannot_write)
    }
}

/// A temporary folder beside `target`.
fn temporary(target: &Path) -> Result<TempDir> {
    let parent = parent(target);
    fs::create_dir_all(parent)
        .and_then(|()| tempfile::Builder::new().prefix(".sampan-").tempdir_in(parent))
        .with_context(|| format!("cannot write to {}", parent.display()))
}

fn parent(target: &Path) -> &Path {
    match target.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

/// Writes an archive to a file, which appears when it is complete.
pub(super) fn write_archive(archive: &Archive, target: &Path, seconds: u64) -> Result<()> {
    let cannot_write = || format!("cannot write {}", target.display());
    let parent = parent(target);
    let file = tempfile::Builder::new().prefix(".sampan-").tempfile_in(parent);
    let mut file: NamedTempFile =
        file.with_context(|| format!("cannot write to {}", parent.display()))?;
    archive.write(file.as_file_mut() as &mut File, seconds).with_context(cannot_write)?;
    file.flush().and_then(|()| file.as_file().sync_all()).with_context(cannot_write)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // A temporary file is readable by its owner only.
        let readable = fs::Permissions::from_mode(0o644);
        file.as_file().set_permissions(readable).with_context(cannot_write)?;
    }
    file.persist(target).map_err(|error| error.error).with_context(cannot_write)?;
    Ok(())
}
