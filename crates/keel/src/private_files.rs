//! Files and directories that only their owner can read, and that are written atomically.
//!
//! ```text
//! write_private(ca.key):  .ca.key.new written ─▶ synced ─▶ renamed to ca.key ─▶ directory synced
//! ```
//!
//! After a crash at any point, `ca.key` has either its former content or all of the new one. A full
//! disk leaves no empty file behind.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Creates a directory that only its owner can use, and its missing parents. If it exists, the access
/// of other users is removed.
pub fn create_private_directory(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)?;
    restrict_access(path)
}

/// Opens a file for reading and writing, with further `options`, and restricts access to its owner.
pub fn open_private(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    options.read(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    let file = options.open(path)?;
    restrict_access(path)?;
    Ok(file)
}

/// Writes a file that only its owner can read, as a whole or not at all. Two processes must not
/// write the same file at once.
pub fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    let new = temporary_path(path);
    let written = write_new(&new, content).and_then(|()| fs::rename(&new, path));
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written?;
    sync_parent_directory(path)
}

/// Removes the files of a directory that [`write_private`] began and did not complete. No other process
/// may write there meanwhile. A directory that does not exist has none.
pub fn remove_interrupted_writes(directory: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.as_encoded_bytes();
        if name.starts_with(b".") && name.ends_with(b".new") {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Syncs the directory of a file, so that the file's name survives a crash.
pub fn sync_parent_directory(file: &Path) -> io::Result<()> {
    match file.parent() {
        Some(parent) if parent != Path::new("") => File::open(parent)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    }
}

/// Removes the access of users other than the owner. A file that belongs to another user is left
/// unchanged, since that user has granted the access.
pub fn restrict_access(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let found = fs::metadata(path)?.permissions().mode();
        let private = found & !0o077;
        if found == private {
            return Ok(());
        }
        match fs::set_permissions(path, fs::Permissions::from_mode(private)) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                tracing::warn!(path = %path.display(), "the file is readable by other users, and its mode cannot be changed");
            }
            done => done?,
        }
    }
    Ok(())
}

/// The path of a file while it is being written; an earlier attempt is overwritten.
fn temporary_path(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".new");
    path.with_file_name(name)
}

fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = open_private(OpenOptions::new().create(true).truncate(true), path)?;
    file.write_all(content)?;
    file.sync_all()
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn directory(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("keel-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        create_private_directory(&path).unwrap();
        path
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn what_a_killed_process_has_left_is_removed() {
        let directory = directory("interrupted");
        write_private(&directory.join("ca.crt"), b"a").unwrap();
        fs::write(temporary_path(&directory.join("ca.crt")), b"b").unwrap();
        remove_interrupted_writes(&directory).unwrap();
        let names = fs::read_dir(&directory).unwrap().map(|it| it.unwrap().file_name());
        assert_eq!(names.collect::<Vec<_>>(), ["ca.crt"]);
        fs::remove_dir_all(&directory).unwrap();
        remove_interrupted_writes(&directory).unwrap();
    }

    #[test]
    fn a_file_is_replaced_atomically_and_leaves_no_temporary_file() {
        let directory = directory("replaced");
        let path = directory.join("key");
        for content in ["first", "second"] {
            write_private(&path, content.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
        }
        assert_eq!((mode(&directory), mode(&path)), (0o700, 0o600));
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_file_that_cannot_be_written_keeps_its_former_content() {
        let directory = directory("kept");
        let path = directory.join("key");
        write_private(&path, b"first").unwrap();
        // A directory at the temporary path simulates a disk that refuses the write.
        fs::create_dir(temporary_path(&path)).unwrap();
        assert!(write_private(&path, b"second").is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "first");
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn access_of_other_users_is_removed() {
        let directory = directory("open");
        let path = directory.join("key");
        fs::write(&path, "x").unwrap();
        for (open, mode) in [(&directory, 0o755), (&path, 0o664)] {
            fs::set_permissions(open, fs::Permissions::from_mode(mode)).unwrap();
        }
        create_private_directory(&directory).unwrap();
        open_private(&mut OpenOptions::new(), &path).unwrap();
        assert_eq!((mode(&directory), mode(&path)), (0o700, 0o600));
        fs::remove_dir_all(directory).unwrap();
    }
}
