//! [`StoreFiles`]: whether the files of an open store are still those in its directory.
//!
//! A process goes on writing to files that were removed: what it acknowledges then is lost when it
//! ends.

use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::{fs, io};

use super::directory::FILES;

/// See the [module documentation](self).
#[derive(Debug)]
pub struct StoreFiles(Vec<(PathBuf, FileId)>);

impl StoreFiles {
    /// The present files of an open store in `directory`.
    pub fn of(directory: &Path) -> io::Result<Self> {
        let files = FILES.map(|name| {
            let path = directory.join(name);
            let id = FileId::of(&fs::metadata(&path)?);
            Ok((path, id))
        });
        files.into_iter().collect::<io::Result<_>>().map(Self)
    }

    /// The first file that was removed, moved or replaced since then.
    pub fn first_missing(&self) -> Option<&Path> {
        let is_missing = |path: &Path, id: FileId| match fs::metadata(path) {
            Ok(found) => FileId::of(&found) != id,
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        self.0.iter().find(|(path, id)| is_missing(path, *id)).map(|(path, _)| path.as_path())
    }
}

/// Identifies a file, whatever its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileId {
    #[cfg(unix)]
    device: u64,
    #[cfg(unix)]
    inode: u64,
}

impl FileId {
    #[cfg(unix)]
    fn of(metadata: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        Self { device: metadata.dev(), inode: metadata.ino() }
    }

    #[cfg(not(unix))]
    fn of(_metadata: &Metadata) -> Self {
        Self {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_replaced_or_whose_directory_was_moved_is_missing() {
        let directory = tempfile::tempdir().unwrap();
        let store = directory.path().join("store");
        fs::create_dir(&store).unwrap();
        assert!(StoreFiles::of(&store).is_err(), "there are no files");
        for name in FILES {
            fs::write(store.join(name), name).unwrap();
        }
        let files = StoreFiles::of(&store).unwrap();
        assert_eq!(files.first_missing(), None);
        let moved = directory.path().join("moved");
        fs::rename(&store, &moved).unwrap();
        assert_eq!(files.first_missing(), Some(store.join(FILES[0]).as_path()));
        fs::rename(&moved, &store).unwrap();
        assert_eq!(files.first_missing(), None);
        let copy = store.join("copy");
        fs::copy(store.join(FILES[1]), &copy).unwrap();
        fs::rename(&copy, store.join(FILES[1])).unwrap();
        assert_eq!(files.first_missing(), Some(store.join(FILES[1]).as_path()));
    }
}
