//! [`Archive`]: a tar file whose bytes depend on its entries alone.
//!
//! Entries are sorted by path, belong to root, and have one modification time.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};
use tar::{Builder, EntryType, Header};

/// See the [module documentation](self).
#[derive(Debug, Default)]
pub(crate) struct Archive {
    entries: BTreeMap<String, Entry>,
}

#[derive(Debug)]
enum Entry {
    Folder { mode: u32 },
    File { mode: u32, content: Content },
}

/// The content of a file.
#[derive(Debug)]
pub(crate) enum Content {
    Bytes(Vec<u8>),
    /// That of a file of this machine.
    CopyOf(PathBuf),
}

impl Archive {
    /// Adds a file without the folders above it.
    pub(crate) fn add_file(&mut self, path: &str, mode: u32, content: Content) {
        let path = path.trim_start_matches('/').to_owned();
        self.entries.insert(path, Entry::File { mode, content });
    }

    /// Adds a file, and the folders above it.
    pub(crate) fn add_file_and_folders(&mut self, path: &str, mode: u32, content: Content) {
        let path = path.trim_start_matches('/');
        for (end, _) in path.match_indices('/') {
            self.add_folder(&path[..end], 0o755);
        }
        self.add_file(path, mode, content);
    }

    /// Adds a folder, unless the archive has one there.
    pub(crate) fn add_folder(&mut self, path: &str, mode: u32) {
        self.entries.entry(format!("{path}/")).or_insert(Entry::Folder { mode });
    }

    /// Writes the archive with this modification time, and returns the writer.
    pub(crate) fn write<W: Write>(&self, writer: W, seconds: u64) -> Result<W> {
        let mut builder = Builder::new(writer);
        for (path, entry) in &self.entries {
            let mut header = Header::new_gnu();
            header.set_mtime(seconds);
            header.set_uid(0);
            header.set_gid(0);
            match entry {
                Entry::Folder { mode } => {
                    header.set_entry_type(EntryType::Directory);
                    header.set_mode(*mode);
                    header.set_size(0);
                    builder.append_data(&mut header, path, std::io::empty())?;
                }
                Entry::File { mode, content } => {
                    let copied;
                    let bytes = match content {
                        Content::Bytes(bytes) => bytes,
                        Content::CopyOf(file) => {
                            copied = std::fs::read(file)
                                .with_context(|| format!("cannot read {}", file.display()))?;
                            &copied
                        }
                    };
                    header.set_entry_type(EntryType::Regular);
                    header.set_mode(*mode);
                    header.set_size(bytes.len() as u64);
                    builder.append_data(&mut header, path, bytes.as_slice())?;
                }
            }
        }
        Ok(builder.into_inner()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_sorted_and_the_order_of_their_addition_does_not_matter() {
        let long = format!("a/{}", "b".repeat(200));
        let archive = |paths: &[&str]| {
            let mut archive = Archive::default();
            for path in paths {
                let content = Content::Bytes(path.as_bytes().to_vec());
                archive.add_file_and_folders(path, 0o644, content);
            }
            archive.write(Vec::new(), 7).unwrap()
        };
        let bytes = archive(&["/z", "/a/c", &long]);
        assert_eq!(bytes, archive(&[&long, "/a/c", "/z"]));
        let mut reader = tar::Archive::new(bytes.as_slice());
        let found = reader.entries().unwrap().map(|entry| {
            let entry = entry.unwrap();
            assert_eq!(entry.header().mtime().unwrap(), 7);
            entry.path().unwrap().display().to_string()
        });
        assert_eq!(found.collect::<Vec<_>>(), ["a/", &long, "a/c", "z"]);
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let mut archive = Archive::default();
        archive.add_file("a", 0o644, Content::CopyOf("/no/such/file".into()));
        let error = archive.write(Vec::new(), 0).unwrap_err().to_string();
        assert_eq!(error, "cannot read /no/such/file");
    }
}
