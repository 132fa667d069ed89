//! [`TraitInterner`]: shares equal traits, and equal constraints of different traits.

use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use super::constraints::Constraints;
use super::pod_info::PodTraits;

/// The memory of traits that are kept without a pod, in addition to that of the others.
const MAX_UNUSED_BYTES: usize = 4 << 20;

/// A shared value. Two are compared and hashed by their address.
#[derive(Debug, Default)]
pub(crate) struct Interned<T>(Arc<T>);

impl<T> Interned<T> {
    /// A value that is not shared yet.
    pub(crate) fn new(value: T) -> Self {
        Self(Arc::new(value))
    }

    /// What identifies the value as long as it exists.
    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }
}

impl<T> Clone for Interned<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Deref for Interned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> PartialEq for Interned<T> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<T> Eq for Interned<T> {}

impl<T> Hash for Interned<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.address().hash(state);
    }
}

/// See the [module documentation](self).
#[derive(Debug, Default)]
pub(crate) struct TraitInterner {
    traits: HashSet<Arc<PodTraits>>,
    constraints: HashSet<Arc<Constraints>>,
    /// About the memory of all.
    bytes: usize,
    /// The memory at which those without a pod are removed.
    sweep_at: usize,
}

impl TraitInterner {
    /// The shared allocation of equal traits.
    pub(crate) fn intern(&mut self, mut traits: Arc<PodTraits>) -> Arc<PodTraits> {
        // Traits that are shared already were interned before.
        let Some(own) = Arc::get_mut(&mut traits) else { return traits };
        self.intern_constraints(&mut own.constraints);
        if let Some(known) = self.traits.get(&traits) {
            return Arc::clone(known);
        }
        self.bytes += traits.bytes();
        if self.bytes > self.sweep_at {
            self.sweep();
        }
        self.traits.insert(Arc::clone(&traits));
        traits
    }

    fn intern_constraints(&mut self, constraints: &mut Interned<Constraints>) {
        if let Some(known) = self.constraints.get(&**constraints) {
            *constraints = Interned(Arc::clone(known));
            return;
        }
        self.bytes += constraints.bytes();
        self.constraints.insert(Arc::clone(&constraints.0));
    }

    fn sweep(&mut self) {
        self.traits.retain(|known| Arc::strong_count(known) > 1);
        self.constraints.retain(|known| Arc::strong_count(known) > 1);
        let traits: usize = self.traits.iter().map(|it| it.bytes()).sum();
        let constraints: usize = self.constraints.iter().map(|it| it.bytes()).sum();
        self.bytes = traits + constraints;
        self.sweep_at = self.bytes * 2 + MAX_UNUSED_BYTES;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::pod_info::ObservedPod;
    use super::*;
    use runtime::informer::Item;

    /// The traits of a pod with a label of its own and so many tolerations.
    fn traits(interner: &mut TraitInterner, own: usize, tolerations: usize) -> Arc<PodTraits> {
        let toleration = |index| json!({"key": format!("k{index}"), "operator": "Exists"});
        let tolerations: Vec<_> = (0..tolerations).map(toleration).collect();
        let pod = json!({
            "metadata": {"namespace": "n", "name": "p", "uid": "p",
                "labels": {"apps.kubernetes.io/pod-index": own.to_string()}},
            "spec": {"tolerations": tolerations},
        });
        let item = Item::parse(pod.to_string().into_bytes()).unwrap();
        interner.intern(ObservedPod::of(&item, item.decode().unwrap()).info.traits)
    }

    #[test]
    fn pods_of_a_template_share_their_constraints_even_if_each_has_a_label_of_its_own() {
        let mut interner = TraitInterner::default();
        let [first, second] = [1, 2].map(|own| traits(&mut interner, own, 100));
        assert!(!Arc::ptr_eq(&first, &second));
        assert_eq!(first.constraints.address(), second.constraints.address());
        let other = traits(&mut interner, 1, 99);
        assert_ne!(first.constraints.address(), other.constraints.address());
    }

    #[test]
    fn the_pods_of_a_template_with_many_constraints_take_little_memory() {
        for (conditions, pods) in [(1_000, 50), (12_000, 10)] {
            let mut interner = TraitInterner::default();
            let all: Vec<_> = (0..pods).map(|own| traits(&mut interner, own, conditions)).collect();
            assert_eq!((all.len(), interner.constraints.len()), (pods, 1));
            assert!(interner.bytes < 1 << 19, "{} bytes for {conditions}", interner.bytes);
        }
    }

    #[test]
    fn traits_without_a_pod_are_removed_before_they_take_much_memory() {
        let mut interner = TraitInterner::default();
        for own in 0..200 {
            traits(&mut interner, own, 800 + own);
        }
        // Each of the first 200 takes about 200 kB.
        assert!(interner.bytes < 2 * MAX_UNUSED_BYTES, "{} bytes", interner.bytes);
        assert!(interner.constraints.len() < 60, "{}", interner.constraints.len());
    }
}
