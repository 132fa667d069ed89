//! [`controllers_note`]: what does not happen without nodes, or without the controllers that are turned
//! off.

use cluster::Selection;

/// What a plane says at its start, if it has no nodes, or if controllers that most need are turned off.
pub(super) fn controllers_note(selection: &Selection, nodes: u16) -> Option<&'static str> {
    if selection.is_empty() {
        return Some("no controllers run: deployments get no pods, and deleted namespaces stay");
    }
    let has_scheduler = selection.includes("kube-scheduler");
    if nodes == 0 && has_scheduler {
        return Some("no simulated nodes: pods stay Pending until there is a node");
    }
    if nodes > 0 && !has_scheduler {
        return Some("no scheduler runs (kube-scheduler in --controllers): pods stay Pending");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plane_without_a_scheduler_says_that_pods_stay_pending() {
        let note = |names: &[&str], nodes| {
            controllers_note(&Selection::parse(names).unwrap(), nodes).unwrap_or_default()
        };
        assert!(note(&["none"], 1).starts_with("no controllers run"));
        assert!(note(&["deployment", "replicaset"], 1).ends_with("pods stay Pending"));
        assert!(note(&["*", "-kube-scheduler"], 1).ends_with("pods stay Pending"));
        assert_eq!(note(&["*", "-daemonset"], 1), "");
        assert_eq!(note(&["namespace"], 0), "");
    }

    #[test]
    fn a_plane_without_nodes_says_that_pods_stay_pending() {
        let note = controllers_note(&Selection::all(), 0).unwrap();
        assert_eq!(note, "no simulated nodes: pods stay Pending until there is a node");
    }
}
