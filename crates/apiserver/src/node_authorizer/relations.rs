//! [`Relations`]: which nodes have pods that refer to an object, and which claims have a volume that
//! refers to a secret.
//!
//! An object has an entry while a pod on a node refers to it, with the nodes and the number of pods on
//! each. Pods have no entry of their own: their references are read again when they change.

use std::collections::HashMap;

/// A kind of object that pods refer to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Referenced {
    Secret,
    ConfigMap,
    ServiceAccount,
    VolumeClaim,
    ResourceClaim,
}

/// An object that a pod or a volume refers to: its kind, and `namespace/name`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ObjectKey(Box<str>);

impl ObjectKey {
    pub(super) fn new(kind: Referenced, namespace: &str, name: &str) -> Self {
        let letter = match kind {
            Referenced::Secret => 's',
            Referenced::ConfigMap => 'c',
            Referenced::ServiceAccount => 'a',
            Referenced::VolumeClaim => 'v',
            Referenced::ResourceClaim => 'r',
        };
        Self(format!("{letter}{namespace}/{name}").into())
    }
}

/// See the [module documentation](self).
#[derive(Debug, Default)]
pub(super) struct Relations {
    nodes: NodeNumbers,
    /// The nodes with pods that refer to an object, sorted.
    uses: HashMap<ObjectKey, Vec<NodeUse>>,
    /// The claims of the volumes that refer to a secret, one for each volume.
    secret_claims: HashMap<ObjectKey, Vec<ObjectKey>>,
}

/// The pods of one node that refer to one object.
#[derive(Debug, Clone, Copy)]
struct NodeUse {
    node: u32,
    pods: u32,
}

impl Relations {
    /// Adds the references of a pod on a node, without repetition.
    pub(super) fn add_pod(&mut self, node: &str, references: Vec<ObjectKey>) {
        for key in references {
            let number = self.nodes.acquire(node);
            let uses = self.uses.entry(key).or_default();
            match uses.binary_search_by_key(&number, |it| it.node) {
                Ok(at) => uses[at].pods += 1,
                Err(at) => {
                    uses.reserve_exact(1);
                    uses.insert(at, NodeUse { node: number, pods: 1 });
                }
            }
        }
    }

    /// Removes the references of a pod that was added with the same ones.
    pub(super) fn remove_pod(&mut self, node: &str, references: Vec<ObjectKey>) {
        for key in references {
            let Some(number) = self.nodes.get(node) else { return };
            let Some(uses) = self.uses.get_mut(&key) else { continue };
            let Ok(at) = uses.binary_search_by_key(&number, |it| it.node) else { continue };
            uses[at].pods -= 1;
            if uses[at].pods == 0 {
                uses.remove(at);
            }
            if uses.is_empty() {
                self.uses.remove(&key);
            }
            self.nodes.release(node);
        }
    }

    /// Adds the secrets of a volume that is bound to a claim.
    pub(super) fn add_volume(&mut self, claim: &ObjectKey, secrets: Vec<ObjectKey>) {
        for secret in secrets {
            self.secret_claims.entry(secret).or_default().push(claim.clone());
        }
    }

    /// Removes the secrets of a volume that was added with the same ones.
    pub(super) fn remove_volume(&mut self, claim: &ObjectKey, secrets: Vec<ObjectKey>) {
        for secret in secrets {
            let Some(claims) = self.secret_claims.get_mut(&secret) else { continue };
            if let Some(at) = claims.iter().position(|it| it == claim) {
                claims.swap_remove(at);
            }
            if claims.is_empty() {
                self.secret_claims.remove(&secret);
            }
        }
    }

    /// Whether a pod on the node refers to the object, or to the claim of a volume that does.
    pub(super) fn refers(&self, node: &str, key: &ObjectKey) -> bool {
        let Some(number) = self.nodes.get(node) else { return false };
        let is_used = |key: &ObjectKey| {
            self.uses
                .get(key)
                .is_some_and(|it| it.binary_search_by_key(&number, |it| it.node).is_ok())
        };
        is_used(key) || self.secret_claims.get(key).is_some_and(|it| it.iter().any(is_used))
    }

    /// An estimate of the memory of the references of pods, in bytes.
    #[cfg(test)]
    pub(super) fn heap_size(&self) -> usize {
        let texts: usize = self.uses.keys().map(|it| it.0.len()).sum();
        let uses: usize = self.uses.values().map(|it| it.capacity() * size_of::<NodeUse>()).sum();
        texts + uses + self.uses.capacity() * size_of::<(ObjectKey, Vec<NodeUse>)>()
    }

    /// Whether nothing is in the index.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.uses.is_empty() && self.secret_claims.is_empty() && self.nodes.numbers.is_empty()
    }
}

/// A number for each node with references. The numbers of nodes without references are used again.
#[derive(Debug, Default)]
struct NodeNumbers {
    /// The number of each node, and how many references of pods use it.
    numbers: HashMap<Box<str>, (u32, u64)>,
    free: Vec<u32>,
}

impl NodeNumbers {
    fn get(&self, node: &str) -> Option<u32> {
        self.numbers.get(node).map(|(number, _)| *number)
    }

    fn acquire(&mut self, node: &str) -> u32 {
        if let Some((number, references)) = self.numbers.get_mut(node) {
            *references += 1;
            return *number;
        }
        // The free numbers and the used ones are those below the number of both.
        let next = || u32::try_from(self.numbers.len()).expect("there are fewer than 2³² nodes");
        let number = self.free.pop().unwrap_or_else(next);
        self.numbers.insert(node.into(), (number, 1));
        number
    }

    fn release(&mut self, node: &str) {
        let Some((number, references)) = self.numbers.get_mut(node) else { return };
        *references -= 1;
        if *references == 0 {
            self.free.push(*number);
            self.numbers.remove(node);
        }
    }
}
