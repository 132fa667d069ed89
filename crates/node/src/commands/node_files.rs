//! [`NodeFiles`]: the names of the files that simulated containers have made on the disks of their
//! nodes, in volumes of the type `hostPath`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{MAX_PATH, MAX_VOLUMES};
use crate::pod_view::{Container, PodView};

/// The number of files of all nodes; for others the oldest ones are forgotten.
const MAX_FILES: usize = 10_000;

/// The number of files that the pods of a namespace have made; for others its oldest are forgotten.
const MAX_FILES_OF_NAMESPACE: usize = 1_000;

/// See the [module documentation](self). They are lost when the process ends.
#[derive(Debug, Default)]
pub(crate) struct NodeFiles(Mutex<Files>);

#[derive(Debug, Default)]
struct Files {
    origins: BTreeMap<Arc<NodeFile>, Origin>,
    /// The files by their age, the oldest first.
    by_age: BTreeMap<u64, Arc<NodeFile>>,
    /// The ages of the files of each namespace.
    of_namespaces: BTreeMap<String, BTreeSet<u64>>,
    /// The age of the next file.
    next: u64,
}

/// Who has made a file.
#[derive(Debug)]
struct Origin {
    namespace: String,
    container_id: String,
}

/// A node and a path on its disk.
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
        // Many mounts of a volume do not make many files of its files.
        let mut left = MAX_FILES;
        for (mount_path, host_path) in host_paths(pod, container) {
            let files = self.lock();
            let first = NodeFile { node: pod.spec.node_name.clone(), path: host_path.to_owned() };
            let on_volume = files.origins.range::<NodeFile, _>(first..).take_while(|(file, _)| {
                file.node == pod.spec.node_name && file.path.starts_with(host_path)
            });
            for (file, origin) in on_volume.take(left) {
                left -= 1;
                let Some(rest) = file.path.strip_prefix(host_path) else { continue };
                if origin.container_id != id && rest.starts_with('/') {
                    visible.insert(format!("{mount_path}{rest}"));
                }
            }
        }
        visible
    }

    /// Adds those of the files of a container that are on the disk of its node.
    pub(crate) fn add(&self, pod: &PodView, container: &Container, id: &str, paths: &[&str]) {
        for (mount_path, host_path) in host_paths(pod, container) {
            let on_volume = paths.iter().filter_map(|path| path.strip_prefix(mount_path));
            for rest in on_volume.filter(|rest| rest.starts_with('/')) {
                let path = format!("{host_path}{rest}");
                if path.len() <= MAX_PATH {
                    let file = NodeFile { node: pod.spec.node_name.clone(), path };
                    self.lock().add(file, &pod.metadata.namespace, id);
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Files> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Files {
    fn add(&mut self, file: NodeFile, namespace: &str, container_id: &str) {
        if self.origins.contains_key(&file) {
            return;
        }
        let file = Arc::new(file);
        let (namespace, container_id) = (namespace.to_owned(), container_id.to_owned());
        let of_namespace = self.of_namespaces.entry(namespace.clone()).or_default();
        of_namespace.insert(self.next);
        let oldest = of_namespace.first().copied();
        let is_full = of_namespace.len() > MAX_FILES_OF_NAMESPACE;
        self.origins.insert(Arc::clone(&file), Origin { namespace, container_id });
        self.by_age.insert(self.next, file);
        self.next += 1;
        if is_full {
            self.forget(oldest);
        }
        if self.by_age.len() > MAX_FILES {
            self.forget(self.by_age.keys().next().copied());
        }
    }

    fn forget(&mut self, age: Option<u64>) {
        let Some(age) = age else { return };
        let Some(file) = self.by_age.remove(&age) else { return };
        let Some(Origin { namespace, .. }) = self.origins.remove(&file) else { return };
        if let Some(of_namespace) = self.of_namespaces.get_mut(&namespace) {
            of_namespace.remove(&age);
            if of_namespace.is_empty() {
                self.of_namespaces.remove(&namespace);
            }
        }
    }
}

/// The directories in a container that are directories of the node, and these, without a slash at the
/// end.
fn host_paths<'a>(
    pod: &'a PodView,
    container: &'a Container,
) -> impl Iterator<Item = (&'a str, &'a str)> {
    container.volume_mounts.iter().take(MAX_VOLUMES).filter_map(|mount| {
        if !mount.sub_path.is_empty() || !mount.sub_path_expr.is_empty() {
            return None;
        }
        let mut volumes = pod.spec.volumes.iter().take(MAX_VOLUMES);
        let volume = volumes.find(|volume| volume.name == mount.name)?;
        let host_path = volume.host_path.as_ref()?.path.as_str();
        Some((mount.mount_path.trim_end_matches('/'), host_path.trim_end_matches('/')))
    })
}
