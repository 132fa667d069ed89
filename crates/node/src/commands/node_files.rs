//! [`NodeFiles`]: the names of the files that simulated containers have made on the disks of their
//! nodes, in volumes of the type `hostPath`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::pod_view::{Container, PodView};

/// The number of files of all nodes; no others are added.
const MAX_FILES: usize = 10_000;

/// See the [module documentation](self). They are lost when the process ends.
#[derive(Debug, Default)]
pub(crate) struct NodeFiles(Mutex<BTreeMap<NodeFile, String>>);

/// A node and a path on its disk. The value of the map is the id of the container that has made it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct NodeFile {
    node: String,
    path: String,
}

impl NodeFiles {
    /// The paths in a container of the files that other containers have made.
    pub(super) fn visible(
        &self,
        pod: &PodView,
        container: &Container,
        id: &str,
    ) -> BTreeSet<String> {
        let mut visible = BTreeSet::new();
        for (mount_path, host_path) in host_paths(pod, container) {
            let files = self.lock();
            let first = NodeFile { node: pod.spec.node_name.clone(), path: host_path.to_owned() };
            let on_volume = files.range(first..).take_while(|(file, _)| {
                file.node == pod.spec.node_name && file.path.starts_with(host_path)
            });
            for (file, creator) in on_volume {
                let Some(rest) = file.path.strip_prefix(host_path) else { continue };
                if creator != id && rest.starts_with('/') {
                    visible.insert(format!("{mount_path}{rest}"));
                }
            }
        }
        visible
    }

    /// Adds those of the files of a container that are on the disk of its node.
    pub(super) fn add(
        &self,
        pod: &PodView,
        container: &Container,
        id: &str,
        paths: &BTreeSet<String>,
    ) {
        for (mount_path, host_path) in host_paths(pod, container) {
            let on_volume = paths.iter().filter_map(|path| path.strip_prefix(mount_path));
            for rest in on_volume.filter(|rest| rest.starts_with('/')) {
                let mut files = self.lock();
                if files.len() < MAX_FILES {
                    let path = format!("{host_path}{rest}");
                    let file = NodeFile { node: pod.spec.node_name.clone(), path };
                    files.entry(file).or_insert_with(|| id.to_owned());
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<NodeFile, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The directories in a container that are directories of the node, and these, without a slash at the
/// end.
fn host_paths<'a>(
    pod: &'a PodView,
    container: &'a Container,
) -> impl Iterator<Item = (&'a str, &'a str)> {
    container.volume_mounts.iter().filter_map(|mount| {
        let volume = pod.spec.volumes.iter().find(|volume| volume.name == mount.name)?;
        let host_path = volume.host_path.as_ref()?.path.as_str();
        Some((mount.mount_path.trim_end_matches('/'), host_path.trim_end_matches('/')))
    })
}
