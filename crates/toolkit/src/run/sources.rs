//! [`Sources`]: the files of a project from which the operator is built.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};

use keel::Clock;

/// The time between two looks at the files.
const INTERVAL: Duration = Duration::from_millis(500);

/// What changes when a file is written.
type Stamps = BTreeMap<PathBuf, (Option<SystemTime>, u64)>;

/// See the [module documentation](self).
pub(super) struct Sources {
    root: PathBuf,
    stamps: Stamps,
}

impl Sources {
    /// The sources as they are now.
    pub(super) fn read(root: &Path) -> Result<Self> {
        let stamps = stamps(root)
            .with_context(|| format!("cannot read the sources in {}", root.display()))?;
        Ok(Self { root: root.to_owned(), stamps })
    }

    /// Waits until a file is written, added or removed. An editor may remove a file for a moment, so
    /// that an error is no change.
    pub(super) async fn changed(&self) {
        let clock = Clock::system();
        loop {
            clock.sleep(INTERVAL).await;
            if stamps(&self.root).is_ok_and(|stamps| stamps != self.stamps) {
                return;
            }
        }
    }
}

fn stamps(root: &Path) -> std::io::Result<Stamps> {
    let mut stamps = Stamps::new();
    let mut paths = vec![root.join("Cargo.toml"), root.join("src")];
    while let Some(path) = paths.pop() {
        let metadata = fs::metadata(&path)?;
        if metadata.is_dir() {
            for entry in fs::read_dir(&path)? {
                paths.push(entry?.path());
            }
        } else {
            stamps.insert(path, (metadata.modified().ok(), metadata.len()));
        }
    }
    Ok(stamps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_new_file_is_a_change() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("src")).unwrap();
        fs::write(root.path().join("Cargo.toml"), "").unwrap();
        let sources = Sources::read(root.path()).unwrap();
        fs::write(root.path().join("src/new.rs"), "").unwrap();
        sources.changed().await;
        assert!(Sources::read(&root.path().join("src")).is_err());
    }
}
