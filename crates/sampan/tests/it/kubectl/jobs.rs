//! Jobs and cron jobs on a plane with controllers and simulated nodes.

use crate::kubectl::{each_alive, each_since_alive, table};

#[test]
fn a_job_completes() {
    each_alive(1, |kubectl| {
        assert_eq!(kubectl.does("create job once --image=busybox"), "job.batch/once created\n");
        let complete = kubectl.does("wait --for=condition=Complete job/once --timeout=60s");
        assert_eq!(complete, "job.batch/once condition met\n");
        let pods = table(&kubectl.does("get pods"));
        assert!(pods.lines().nth(1).unwrap().contains(" 0/1 Completed 0 "), "{pods}");
        let described = kubectl.does("describe job once");
        for line in ["Created pod: once-", "Job completed"] {
            assert!(described.contains(line), "{described}");
        }
        assert_eq!(kubectl.does("get job once -o jsonpath={.status.succeeded}"), "1");
        kubectl.does("delete job once");
        kubectl.until_gone("pods --selector=job-name=once");
    });
}

#[test]
fn a_cron_job_is_created_and_started_by_hand() {
    // Older releases create CronJobs of a version that is not served.
    each_since_alive(21, 1, |kubectl| {
        let created = kubectl.does("create cronjob nightly --image=busybox --schedule='0 0 * * *'");
        assert_eq!(created, "cronjob.batch/nightly created\n");
        let jobs = table(&kubectl.does("get cronjobs"));
        assert!(jobs.lines().nth(1).unwrap().starts_with("nightly 0 0 * * *"), "{jobs}");
        let started = kubectl.does("create job now --from=cronjob/nightly");
        assert_eq!(started, "job.batch/now created\n");
        kubectl.does("wait --for=condition=Complete job/now --timeout=60s");
    });
}
