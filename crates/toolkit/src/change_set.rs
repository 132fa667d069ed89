//! [`ChangeSet`]: files to be made and changed, all of them or none.
//!
//! Everything is first written to a temporary folder inside the project, where a full disk or a missing
//! permission shows. Then the files are moved to their places; if one cannot be, those that were moved
//! are moved back.
//!
//! Invariant: a file that exists is replaced only if it was read before ([`ChangeSet::edit`]) or if the
//! user has named it with `--force`.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

/// See the [module documentation](self).
#[derive(Debug, Default)]
pub(crate) struct ChangeSet {
    /// New files, by their paths in the project.
    created: BTreeMap<String, String>,
    /// The new contents of files that exist.
    edited: BTreeMap<String, String>,
}

impl ChangeSet {
    /// Adds a new file.
    pub(crate) fn create(&mut self, path: &str, content: String) {
        self.created.insert(path.to_owned(), content);
    }

    /// Replaces a file that exists.
    pub(crate) fn edit(&mut self, path: &str, content: String) {
        self.edited.insert(path.to_owned(), content);
    }

    /// The paths of the new files.
    pub(crate) fn created(&self) -> impl Iterator<Item = &str> {
        self.created.keys().map(String::as_str)
    }

    /// The paths of the changed files.
    pub(crate) fn edited(&self) -> impl Iterator<Item = &str> {
        self.edited.keys().map(String::as_str)
    }

    /// Makes all changes in the folder `root`, which is created if necessary. `forced` are the files
    /// that may be overwritten.
    pub(crate) fn commit(&self, root: &Path, forced: &[String]) -> Result<()> {
        self.commit_with(root, forced, &write_file)
    }

    fn commit_with(
        &self,
        root: &Path,
        forced: &[String],
        write: &dyn Fn(&Path, &str) -> io::Result<()>,
    ) -> Result<()> {
        self.check_conflicts(root, forced)?;
        let mut undo = Undo::default();
        let done = self.move_all(root, write, &mut undo);
        if done.is_err() {
            undo.run();
        }
        done.with_context(|| format!("nothing was changed in {}", root.display()))
    }

    fn check_conflicts(&self, root: &Path, forced: &[String]) -> Result<()> {
        if let Some(unknown) = forced.iter().find(|it| !self.created.contains_key(it.as_str())) {
            let known = self.created.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            bail!("--force {unknown}: this command does not write that file; it writes {known}");
        }
        let exists = |path: &&String| fs::symlink_metadata(root.join(path)).is_ok();
        let conflicts: Vec<&str> = self
            .created
            .keys()
            .filter(|path| !forced.contains(path))
            .filter(exists)
            .map(String::as_str)
            .collect();
        if conflicts.is_empty() {
            return Ok(());
        }
        let (list, argument) = (conflicts.join(", "), conflicts.join(","));
        bail!(
            "{list} would be overwritten: move what you need away, or overwrite with --force {argument}"
        );
    }

    fn move_all(
        &self,
        root: &Path,
        write: &dyn Fn(&Path, &str) -> io::Result<()>,
        undo: &mut Undo,
    ) -> Result<()> {
        undo.create_folders(root)?;
        let staging = tempfile::Builder::new().prefix(".sampan-").tempdir_in(root);
        let staging = staging.with_context(|| format!("cannot write to {}", root.display()))?;
        let folder = staging.path().to_owned();
        undo.steps.push(Step::RemoveStaging(staging));
        let mut staged = Vec::new();
        for (number, (path, content)) in self.created.iter().chain(&self.edited).enumerate() {
            let file = folder.join(number.to_string());
            write(&file, content).with_context(|| format!("cannot write {path}"))?;
            staged.push((file, path));
        }
        for (file, path) in &staged {
            let target = root.join(path);
            undo.create_folders(target.parent().unwrap_or(root))?;
            undo.replace(file, &target, &file.with_extension("old"))
                .with_context(|| format!("cannot write {path}"))?;
        }
        Ok(())
    }
}

fn write_file(path: &Path, content: &str) -> io::Result<()> {
    let mut file = fs::File::create_new(path)?;
    file.write_all(content.as_bytes())?;
    file.sync_all() // some file systems report a full disk only here
}

/// What is to be undone after a failure, the oldest first.
#[derive(Default)]
struct Undo {
    steps: Vec<Step>,
}

enum Step {
    RemoveFolder(PathBuf),
    /// Holds the temporary folder, which has the old files until then.
    RemoveStaging(TempDir),
    RemoveFile(PathBuf),
    /// Moves the first back to the second.
    Restore(PathBuf, PathBuf),
}

impl Undo {
    /// Creates a folder and those above it.
    fn create_folders(&mut self, folder: &Path) -> Result<()> {
        let is_missing = |it: &&Path| !it.as_os_str().is_empty() && !it.exists();
        let missing: Vec<&Path> = folder.ancestors().take_while(is_missing).collect();
        for folder in missing.into_iter().rev() {
            fs::create_dir(folder)
                .with_context(|| format!("cannot make the folder {}", folder.display()))?;
            self.steps.push(Step::RemoveFolder(folder.to_owned()));
        }
        Ok(())
    }

    /// Moves `file` to `target`, and what was there to `old`.
    fn replace(&mut self, file: &Path, target: &Path, old: &Path) -> io::Result<()> {
        if fs::symlink_metadata(target).is_ok() {
            // A link stays one, and a file keeps its permissions.
            let real = fs::canonicalize(target)?;
            fs::set_permissions(file, fs::metadata(&real)?.permissions())?;
            fs::rename(&real, old)?;
            self.steps.push(Step::Restore(old.to_owned(), real.clone()));
            return fs::rename(file, real);
        }
        fs::rename(file, target)?;
        self.steps.push(Step::RemoveFile(target.to_owned()));
        Ok(())
    }

    /// Undoes as much as possible: the error that is reported is the first one.
    fn run(self) {
        for step in self.steps.into_iter().rev() {
            let _ = match step {
                Step::RemoveFolder(path) => fs::remove_dir(path),
                Step::RemoveStaging(folder) => folder.close(),
                Step::RemoveFile(path) => fs::remove_file(path),
                Step::Restore(old, path) => fs::rename(old, path),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The files of a folder with their contents, and its subfolders.
    fn tree(root: &Path) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        let mut folders = vec![root.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                let name = path.strip_prefix(root).unwrap().display().to_string();
                let content = if path.is_dir() {
                    folders.push(path);
                    "/".to_owned()
                } else {
                    fs::read_to_string(&path).unwrap()
                };
                found.insert(name, content);
            }
        }
        found
    }

    fn changes() -> ChangeSet {
        let mut changes = ChangeSet::default();
        changes.create("a/b/new", "new".to_owned());
        changes.create("z/last", "last".to_owned());
        changes.edit("present", "changed".to_owned());
        changes
    }

    #[test]
    fn new_files_are_made_and_present_ones_changed() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("present"), "old").unwrap();
        changes().commit(root.path(), &[]).unwrap();
        let found = tree(root.path());
        let names: Vec<&str> = found.keys().map(String::as_str).collect();
        assert_eq!(names, ["a", "a/b", "a/b/new", "present", "z", "z/last"]);
        assert_eq!((found["a/b/new"].as_str(), found["present"].as_str()), ("new", "changed"));
    }

    #[test]
    fn a_file_that_exists_is_overwritten_only_by_name() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("present"), "old").unwrap();
        fs::create_dir(root.path().join("z")).unwrap();
        fs::write(root.path().join("z/last"), "mine").unwrap();
        let before = tree(root.path());
        let error = changes().commit(root.path(), &[]).unwrap_err().to_string();
        assert!(error.contains("--force z/last"), "{error}");
        let error = changes().commit(root.path(), &["present".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("it writes a/b/new, z/last"), "{error}");
        assert_eq!(tree(root.path()), before);
        changes().commit(root.path(), &["z/last".to_owned()]).unwrap();
        assert_eq!(tree(root.path())["z/last"], "last");
    }

    #[test]
    fn a_full_disk_leaves_everything_as_it_was() {
        let parent = tempfile::tempdir().unwrap();
        let root = parent.path().join("project");
        fs::create_dir(&root).unwrap();
        fs::write(root.join("present"), "old").unwrap();
        let before = tree(parent.path());
        for room in 0..3 {
            let written = std::cell::Cell::new(0);
            let write = |path: &Path, content: &str| {
                if written.replace(written.get() + 1) == room {
                    return Err(io::ErrorKind::StorageFull.into());
                }
                write_file(path, content)
            };
            let error = format!("{:#}", changes().commit_with(&root, &[], &write).unwrap_err());
            assert!(error.contains("nothing was changed"), "{error}");
            assert!(error.contains("no storage space"), "{error}");
            assert_eq!(tree(parent.path()), before);
        }
    }

    #[test]
    fn a_file_that_cannot_be_moved_leaves_everything_as_it_was() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("present"), "old").unwrap();
        fs::write(root.path().join("z"), "a file where a folder is needed").unwrap();
        let before = tree(root.path());
        let error = format!("{:#}", changes().commit(root.path(), &[]).unwrap_err());
        assert!(error.contains("nothing was changed"), "{error}");
        assert_eq!(tree(root.path()), before);
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("file"), "").unwrap();
        let error =
            format!("{:#}", changes().commit(&root.path().join("file/a"), &[]).unwrap_err());
        assert!(error.contains("cannot make the folder"), "{error}");
    }
}
