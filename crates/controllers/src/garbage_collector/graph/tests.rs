//! Tests of the work that follows from changes of the graph.

use super::*;
use crate::garbage_collector::observed_object::Relations;
use crate::metadata::OwnerReference;
use runtime::ObjectKey;

/// A graph with one namespaced resource.
struct Fixture {
    graph: Graph,
    resource: ResourceId,
}

fn fixture() -> Fixture {
    let mut graph = Graph::default();
    let resource = graph.add_resource(Arc::new(ApiResource {
        group: String::new(),
        version: "v1".to_owned(),
        api_version: "v1".to_owned(),
        plural: "configmaps".to_owned(),
        kind: "ConfigMap".to_owned(),
        is_namespaced: true,
        verbs: Vec::new(),
        is_preferred: true,
    }));
    Fixture { graph, resource }
}

fn object(namespace: &str, name: &str, relations: Option<Relations>) -> ObservedObject {
    ObservedObject {
        uid: Uid::of(name),
        key: ObjectKey::new(namespace, name),
        version: "1".into(),
        uid_text: Some(name.into()),
        relations: relations.map(Box::new),
    }
}

#[allow(clippy::unnecessary_wraps, reason = "an object without owners has none")]
fn owned_by(owners: &[(&str, bool)]) -> Option<Relations> {
    let owners = owners.iter().map(|(name, blocks)| OwnerReference {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        name: (*name).to_owned(),
        uid: (*name).to_owned(),
        block_owner_deletion: *blocks,
        ..OwnerReference::default()
    });
    Some(Relations { owners: owners.collect(), ..Relations::default() })
}

#[allow(clippy::unnecessary_wraps, reason = "an object without owners has none")]
fn in_foreground() -> Option<Relations> {
    Some(Relations {
        is_being_deleted: true,
        has_foreground_finalizer: true,
        ..Relations::default()
    })
}

impl Fixture {
    fn observe(&mut self, name: &str, relations: Option<Relations>) -> Vec<Work> {
        self.observe_in("n", name, relations).work
    }

    fn observe_in(&mut self, namespace: &str, name: &str, relations: Option<Relations>) -> Effects {
        let mut effects = Effects::default();
        self.graph.observe(self.resource, object(namespace, name, relations), &mut effects);
        effects
    }

    fn delete(&mut self, name: &str) -> Vec<Work> {
        let mut effects = Effects::default();
        let key = ObjectKey::new("n", name);
        self.graph.delete(self.resource, Uid::of(name), &key, &mut effects);
        effects.work
    }
}

#[test]
fn an_owner_that_was_not_observed_is_verified_until_it_is() {
    let mut fixture = fixture();
    let work = fixture.observe("child", owned_by(&[("parent", false)]));
    assert_eq!(work, [Work::VerifyOwner(Uid::of("parent"))]);
    assert_eq!(fixture.graph.unobserved_owner(Uid::of("parent")).len(), 1);
    assert_eq!(fixture.observe("parent", None), []);
    assert!(fixture.graph.unobserved_owner(Uid::of("parent")).is_empty());
    assert!(fixture.graph.node(Uid::of("parent")).is_none(), "an owner alone is no node");
}

#[test]
fn dependents_follow_a_deleted_owner() {
    let mut fixture = fixture();
    fixture.observe("parent", None);
    fixture.observe("child", owned_by(&[("parent", false)]));
    assert_eq!(fixture.delete("parent"), [Work::Delete(Uid::of("child"))]);
    let node = fixture.graph.node(Uid::of("child")).unwrap();
    assert!(fixture.graph.are_owners_absent(node));
    assert_eq!(fixture.delete("child"), []);
    assert!(fixture.graph.dependents.is_empty() && fixture.graph.nodes.is_empty());
    assert!(fixture.graph.live.is_empty());
}

#[test]
fn a_deleted_object_that_has_the_uid_of_an_owner_is_not_that_owner() {
    let mut fixture = fixture();
    fixture.observe("parent", None);
    fixture.observe("child", owned_by(&[("parent", false)]));
    let mut mirror = ApiResource::clone(fixture.graph.resource(fixture.resource));
    (mirror.group, mirror.api_version) = ("mirror.io".to_owned(), "mirror.io/v1".to_owned());
    let mirror = fixture.graph.add_resource(Arc::new(mirror));
    let (mut effects, parent) = (Effects::default(), object("n", "parent", None));
    let (uid, key) = (parent.uid, parent.key.clone());
    fixture.graph.observe(mirror, parent, &mut effects);
    fixture.graph.delete(mirror, uid, &key, &mut effects);
    assert_eq!(effects.work, [Work::Delete(Uid::of("child"))], "it looks up its owner");
    let node = fixture.graph.node(Uid::of("child")).unwrap();
    assert!(!fixture.graph.are_owners_absent(node));
    assert!(node.refers_to(uid, fixture.graph.resource(fixture.resource), &key));
    assert!(!node.refers_to(uid, fixture.graph.resource(mirror), &key));
}

#[test]
fn a_foreground_deletion_waits_for_blocking_dependents_only() {
    let mut fixture = fixture();
    let (parent, child) = (Uid::of("parent"), Uid::of("child"));
    fixture.observe("parent", None);
    fixture.observe("child", owned_by(&[("parent", true)]));
    fixture.observe("other", owned_by(&[("parent", false)]));
    let work = fixture.observe("parent", in_foreground());
    assert_eq!(work.len(), 3);
    assert_eq!(work.last(), Some(&Work::Delete(parent)));
    assert_eq!(fixture.graph.blocking_dependents(parent), 1);
    assert_eq!(fixture.observe("parent", in_foreground()), [], "it is known already");
    assert_eq!(
        fixture.observe("late", owned_by(&[("parent", true)])),
        [Work::Delete(Uid::of("late"))]
    );
    assert_eq!(fixture.delete("late"), []);
    let unblocked = fixture.observe("child", owned_by(&[("parent", false)]));
    assert_eq!(unblocked, [Work::Delete(parent)]);
    assert_eq!(fixture.graph.dependents(parent).count(), 2);
    assert!(fixture.graph.dependents(parent).any(|(uid, _)| uid == child));
}

#[test]
fn a_foreground_deletion_does_not_wait_for_dependents_in_other_namespaces() {
    let mut fixture = fixture();
    let parent = Uid::of("parent");
    fixture.observe("parent", None);
    fixture.observe_in("elsewhere", "foreign", owned_by(&[("parent", true)]));
    fixture.observe("child", owned_by(&[("parent", true)]));
    fixture.observe("parent", in_foreground());
    assert_eq!(fixture.graph.blocking_dependents(parent), 1);
    assert_eq!(fixture.delete("child"), [Work::Delete(parent)]);
    assert_eq!(fixture.graph.blocking_dependents(parent), 0);

    // A cluster-scoped owner waits for dependents anywhere.
    let node = Uid::of("node");
    fixture.observe_in("", "node", in_foreground());
    fixture.observe_in("elsewhere", "of-the-node", owned_by(&[("node", true)]));
    assert_eq!(fixture.graph.blocking_dependents(node), 1);
}

#[test]
fn a_removed_reference_unblocks_its_owner() {
    let mut fixture = fixture();
    fixture.observe("parent", None);
    fixture.observe("child", owned_by(&[("parent", true)]));
    fixture.observe("parent", in_foreground());
    assert_eq!(fixture.observe("child", None), [Work::Delete(Uid::of("parent"))]);
    assert!(fixture.graph.dependents.is_empty());
}

#[test]
fn an_owner_in_another_namespace_is_reported_in_either_order() {
    let reported = |effects: Effects| (effects.work, effects.invalid_references.len());
    let expected = (vec![Work::Delete(Uid::of("child"))], 1);
    let mut fixture = fixture();
    fixture.observe_in("m", "parent", None);
    let child = fixture.observe_in("n", "child", owned_by(&[("parent", false)]));
    assert_eq!(reported(child), expected);

    let mut fixture = self::fixture();
    fixture.observe_in("n", "child", owned_by(&[("parent", false)]));
    assert_eq!(reported(fixture.observe_in("m", "parent", None)), expected);
}

#[test]
fn objects_that_a_later_list_does_not_have_are_deleted() {
    let mut fixture = fixture();
    fixture.observe("parent", None);
    fixture.observe("child", owned_by(&[("parent", false)]));
    let mut effects = Effects::default();
    let listed = HashSet::from([Uid::of("parent"), Uid::of("child")]);
    fixture.graph.delete_unlisted(fixture.resource, &listed, &mut effects);
    let listed = HashSet::from([Uid::of("child")]);
    fixture.graph.delete_unlisted(fixture.resource, &listed, &mut effects);
    assert_eq!(effects.work, [Work::Delete(Uid::of("child"))]);
}

#[test]
fn a_resource_that_is_not_served_leaves_its_dependents_undecided() {
    let mut fixture = fixture();
    fixture.observe("parent", None);
    let other = fixture.graph.add_resource(Arc::clone(fixture.graph.resource(fixture.resource)));
    let mut effects = Effects::default();
    let child = object("n", "child", owned_by(&[("parent", false)]));
    fixture.graph.observe(other, child, &mut effects);
    fixture.graph.forget_resource(fixture.resource, &mut effects);
    assert_eq!(effects.work, [Work::VerifyOwner(Uid::of("parent"))]);
    let node = fixture.graph.node(Uid::of("child")).unwrap();
    assert!(!fixture.graph.are_owners_absent(node));
}

#[test]
fn dependents_that_name_an_absent_owner_differently_are_checked_one_by_one() {
    let mut fixture = fixture();
    let named = |name: &str| {
        let mut relations = owned_by(&[("absent", false)]).unwrap();
        name.clone_into(&mut relations.owners[0].name);
        Some(relations)
    };
    let mut work = 0;
    for index in 0..1000 {
        work += fixture.observe(&format!("d{index}"), named(&format!("n{index}"))).len();
    }
    let mut effects = Effects::default();
    let names = fixture.graph.unobserved_owner(Uid::of("absent"));
    for (owner, dependent) in &names {
        let namespace = dependent.key.namespace();
        fixture.graph.mark_absent(Uid::of("absent"), owner, namespace, &mut effects);
    }
    assert_eq!((names.len(), effects.work.len()), (1, 1));
    assert!(work <= 2000, "each is checked once, and the owner is verified: {work}");
    let known = fixture.observe("late", named("n0"));
    assert!(known.contains(&Work::Delete(Uid::of("late"))), "the owner is known to be absent");
}
