//! [`Files`]: what is known about the files of a container.
//!
//! Known are only files directly in the directory of a volume. A volume is empty at first if it is an
//! `emptyDir`, or a `hostPath` of the type `DirectoryOrCreate`. If another container of the pod has the
//! same volume, it is not known which files are absent.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{Budget, MAX_PATH, MAX_VOLUMES, NodeFiles, Stop};
use crate::pod_view::{Container, PodView, Volume, VolumeMount};

/// See the [module documentation](self).
#[derive(Debug, Default)]
pub(super) struct Files<'a> {
    /// The directories of volumes, without a slash at the end.
    directories: BTreeMap<&'a str, Directory>,
    /// The files that exist, and the time after the start of the container at which it made them.
    known: BTreeMap<String, Duration>,
}

/// The directory of a volume.
#[derive(Debug, Clone, Copy)]
struct Directory {
    is_writable: bool,
    /// Whether it has no other files than those that are known.
    is_complete: bool,
    /// Whether its files are those of this pod alone.
    is_of_pod: bool,
}

impl<'a> Files<'a> {
    /// The files of a container with this id before its first run.
    pub(super) fn new(
        pod: &'a PodView,
        container: &'a Container,
        id: &str,
        node_files: &NodeFiles,
        budget: &mut Budget,
    ) -> Result<Self, Stop> {
        let is_usable = |it: &&Volume| it.host_path.is_some() || it.empty_dir.is_some();
        let volumes = || pod.spec.volumes.iter().take(MAX_VOLUMES).filter(is_usable);
        if container.volume_mounts.is_empty() || volumes().next().is_none() {
            // Most containers.
            return Ok(Self::default());
        }
        let mut uses: BTreeMap<&str, u32> = BTreeMap::new();
        let spec = &pod.spec;
        for other in
            spec.containers.iter().chain(&spec.init_containers).chain(&spec.ephemeral_containers)
        {
            budget.take_steps(other.volume_mounts.len())?;
            for mount in &other.volume_mounts {
                *uses.entry(mount.name.as_str()).or_default() += 1;
            }
        }
        let mut directories = BTreeMap::new();
        for mount in container.volume_mounts.iter().take(MAX_VOLUMES) {
            let volume = volumes().find(|it| it.name == mount.name);
            let is_alone = uses.get(mount.name.as_str()).is_none_or(|count| *count == 1);
            directories.insert(directory_name(mount), directory(mount, volume, is_alone));
        }
        let visible = node_files.visible(pod, container, id);
        let known = visible.into_iter().map(|path| (path, Duration::ZERO)).collect();
        Ok(Self { directories, known })
    }

    /// Whether a file exists; `None` if that is not known.
    pub(super) fn exists(&self, path: &str) -> Option<bool> {
        let directory = self.directory_of(path)?;
        let is_known = self.known.contains_key(path);
        (is_known || directory.is_complete).then_some(is_known)
    }

    /// Makes a file, if it is known that this is possible.
    pub(super) fn make(&mut self, path: &str, at: Duration) -> Option<()> {
        let is_writable = self.directory_of(path)?.is_writable && path.len() <= MAX_PATH;
        is_writable.then(|| {
            self.known.entry(path.to_owned()).or_insert(at);
        })
    }

    /// The number of files.
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether a run leaves files that only this pod has.
    pub(super) fn has_own_volume(&self) -> bool {
        self.directories.values().any(|it| it.is_of_pod)
    }

    /// The names of the files that exist.
    pub(super) fn names(&self) -> BTreeSet<String> {
        self.known.keys().cloned().collect()
    }

    /// Leaves these files, and those that only this pod has.
    pub(super) fn retain(&mut self, others: &BTreeSet<String>) {
        let mut known = std::mem::take(&mut self.known);
        known.retain(|path, at| {
            *at = Duration::ZERO;
            others.contains(path) || self.directory_of(path).is_some_and(|it| it.is_of_pod)
        });
        self.known = known;
    }

    /// The files, and the times at which they were made.
    pub(super) fn into_known(self) -> BTreeMap<String, Duration> {
        self.known
    }

    /// The directory of a volume that directly contains a file.
    fn directory_of(&self, path: &str) -> Option<Directory> {
        let (directory, name) = path.rsplit_once('/')?;
        let is_name = !matches!(name, "" | "." | "..") && !self.directories.contains_key(path);
        self.directories.get(directory).copied().filter(|_| is_name)
    }
}

fn directory_name(mount: &VolumeMount) -> &str {
    mount.mount_path.trim_end_matches('/')
}

fn directory(mount: &VolumeMount, volume: Option<&Volume>, is_alone: bool) -> Directory {
    let is_whole = mount.sub_path.is_empty() && mount.sub_path_expr.is_empty();
    let host_path = volume.and_then(|it| it.host_path.as_ref());
    let is_of_pod = volume.is_some_and(|it| it.empty_dir.is_some());
    let is_new = is_of_pod || host_path.is_some_and(|it| it.type_ == "DirectoryOrCreate");
    Directory {
        is_writable: is_whole && !mount.read_only && is_new,
        is_complete: is_whole && is_new && is_alone,
        is_of_pod,
    }
}
