//! A plane that is killed in the middle of Jobs.

use std::collections::BTreeSet;

use super::interrupted_plane::{PODS, assert_same_end, untimed_status};
use super::pod_history::{PodHistory, is_active};
use machinery::{Value, json};

const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const COMPLETIONS: usize = 12;
const PARALLELISM: usize = 4;

#[test]
fn a_job_runs_exactly_one_pod_for_each_completion() {
    assert_same_end(&[JOBS], |plane, round| {
        let mode = if round.is_multiple_of(2) { "NonIndexed" } else { "Indexed" };
        let containers = json!([{"name": "work", "image": "work:1"}]);
        let spec = json!({
            "completions": COMPLETIONS, "parallelism": PARALLELISM, "completionMode": mode,
            "template": {"spec": {"restartPolicy": "Never", "containers": containers}},
        });
        let name = format!("job-{round}");
        plane.create(JOBS, &json!({"metadata": {"name": name}, "spec": spec}));
        let path = format!("{JOBS}/{name}");
        let job = plane.run_until(&path, 24, |_, job| job["status"]["completionTime"].is_string());
        assert_eq!(job["status"]["succeeded"], COMPLETIONS);

        let mut history = PodHistory::default();
        history.replay(plane.take_events(), |history, event| {
            let active = history.remaining().filter(|pod| is_active(pod)).count();
            assert!(active <= PARALLELISM, "{active} pods in round {round}: {event:?}");
        });
        assert_eq!(history.created.len(), COMPLETIONS, "created pods in round {round}");
        assert_eq!(history.started.len(), COMPLETIONS, "started pods in round {round}");
        assert_eq!(history.succeeded.len(), COMPLETIONS, "succeeded pods in round {round}");

        let pods = plane.list(&format!("{PODS}?labelSelector=batch.kubernetes.io/job-name={name}"));
        let finalizers: Vec<_> = pods.values().map(|pod| &pod["metadata"]["finalizers"]).collect();
        assert_eq!(finalizers, [&Value::Null; COMPLETIONS]);
        let index = |pod: &Value| {
            let annotations = &pod["metadata"]["annotations"];
            annotations["batch.kubernetes.io/job-completion-index"].as_str().map(str::to_owned)
        };
        let indexes: BTreeSet<Option<String>> = pods.values().map(index).collect();
        json!([untimed_status(&job), indexes.into_iter().collect::<Vec<_>>()])
    });
}
