//! Tests of the configuration and of classification.

use futures_util::FutureExt;
use http::Method;

use super::*;
use crate::flow_control::bootstrap_configuration::{FLOW_SCHEMAS, objects};
use crate::request::Query;
use machinery::{Value, json};

/// The bootstrap configuration with these objects added.
fn configured(seats: usize, more: &[(&str, Value)]) -> PriorityAndFairness {
    let fair = PriorityAndFairness::new(seats, &Tasks::new(), &mut Registry::default());
    configure(&fair, more);
    fair
}

fn configure(fair: &PriorityAndFairness, more: &[(&str, Value)]) {
    let all = objects().map(|it| (it.plural, it.object())).chain(more.iter().cloned());
    let (schemas, levels): (Vec<_>, Vec<_>) = all.partition(|(plural, _)| *plural == FLOW_SCHEMAS);
    let read = |(_, mut value): (&str, Value)| {
        value["metadata"]["uid"] = format!("uid-{}", value["metadata"]["name"]).into();
        value
    };
    fair.configure(
        schemas.into_iter().map(|it| serde_json::from_value(read(it)).unwrap()).collect(),
        levels.into_iter().map(|it| serde_json::from_value(read(it)).unwrap()).collect(),
    );
}

fn user(name: &str, group: &str) -> User {
    User::authenticated(name, "", vec![group.to_owned()])
}

fn info(method: &Method, path: &str) -> RequestInfo {
    RequestInfo::parse(method, path, &Query::default()).unwrap()
}

fn schema_of(fair: &PriorityAndFairness, user: &User, method: &Method, path: &str) -> String {
    fair.classify(user, &info(method, path)).name.clone()
}

fn take(fair: &PriorityAndFairness, user: &User) -> Option<Result<FairSeat, TooManyRequests>> {
    let info = info(&Method::GET, "/api/v1/namespaces/a/pods/b");
    let schema = fair.classify(user, &info);
    let now = Instant::now();
    let request =
        SeatRequest { user, info: &info, arrival: now, deadline: now + Duration::from_mins(1) };
    fair.take(&schema, request, |_| WorkEstimate::of_seats(1)).now_or_never()
}

#[tokio::test]
async fn requests_have_the_schemas_of_kubernetes() {
    let fair = configured(600, &[]);
    let (get, put) = (Method::GET, Method::PUT);
    let pods = "/api/v1/namespaces/a/pods";
    let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n";
    let node = user("system:node:n", "system:nodes");
    let account =
        |name: &str| User::authenticated(name, "", vec!["system:serviceaccounts".to_owned()]);
    let manager = user("system:kube-controller-manager", "x");
    let cases = [
        (user("root", "system:masters"), &get, pods, "exempt"),
        (User::anonymous(), &get, "/readyz", "probes"),
        (User::anonymous(), &get, "/version", "global-default"),
        (manager.clone(), &put, lease, "system-leader-election"),
        (manager, &get, pods, "kube-controller-manager"),
        (node.clone(), &put, lease, "system-node-high"),
        (node.clone(), &put, "/api/v1/nodes/n/status", "system-node-high"),
        (node, &get, pods, "system-nodes"),
        (user("system:kube-scheduler", "x"), &get, pods, "kube-scheduler"),
        (
            account("system:serviceaccount:kube-system:a"),
            &get,
            pods,
            "kube-system-service-accounts",
        ),
        (account("system:serviceaccount:team:a"), &get, pods, "service-accounts"),
        (user("alice", "team"), &get, pods, "global-default"),
    ];
    for (user, method, path, expected) in cases {
        assert_eq!(schema_of(&fair, &user, method, path), expected, "{} {path}", user.name);
    }
}

#[tokio::test]
async fn the_limits_of_the_levels_are_those_of_kubernetes() {
    let fair = configured(600, &[]);
    let levels = fair.configured.lock().unwrap();
    let limits = |name: &str| {
        let level = &levels[name];
        (level.limits.nominal, level.limits.lower, level.max_seats())
    };
    assert_eq!(limits("global-default"), (49, 24, 8));
    assert_eq!(limits("workload-low"), (245, 24, 37));
    assert_eq!(limits("node-high"), (98, 73, 15));
    assert_eq!(limits("leader-election"), (25, 25, 4));
    assert_eq!(limits("catch-all"), (13, 13, usize::MAX));
    assert!(levels["exempt"].id.is_none());
}

#[tokio::test]
async fn a_schema_with_a_lower_number_is_tried_first_and_one_without_a_level_is_ignored() {
    let rule = json!([{"subjects": [{"kind": "User", "user": {"name": "alice"}}],
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"]}]}]);
    let schema = |name: &str, level: &str, precedence: i64| {
        (
            FLOW_SCHEMAS,
            json!({"metadata": {"name": name}, "spec": {
            "priorityLevelConfiguration": {"name": level}, "matchingPrecedence": precedence,
            "rules": rule}}),
        )
    };
    let fair = configured(
        600,
        &[schema("lost", "missing", 3), schema("b", "system", 9000), schema("a", "system", 9000)],
    );
    let alice = user("alice", "team");
    assert_eq!(schema_of(&fair, &alice, &Method::GET, "/api/v1/namespaces/a/pods"), "a");
    assert_eq!(schema_of(&fair, &alice, &Method::GET, "/api/v1/nodes"), "global-default");
}

#[tokio::test]
async fn without_objects_the_mandatory_schemas_are_in_effect() {
    let fair = PriorityAndFairness::new(600, &Tasks::new(), &mut Registry::default());
    let pods = "/api/v1/pods";
    assert_eq!(schema_of(&fair, &user("root", "system:masters"), &Method::GET, pods), "exempt");
    assert_eq!(schema_of(&fair, &user("alice", "team"), &Method::GET, pods), "catch-all");
}

#[tokio::test]
async fn a_user_who_floods_leaves_seats_for_nodes_and_service_accounts() {
    let fair = configured(60, &[]);
    let alice = user("alice", "team");
    let seats: Vec<_> = std::iter::from_fn(|| take(&fair, &alice)).collect();
    assert!(seats.len() > 10);
    assert!(matches!(take(&fair, &user("root", "system:masters")), Some(Ok(_))));
    assert!(matches!(take(&fair, &user("system:node:n", "system:nodes")), Some(Ok(_))));
    let account = user("system:serviceaccount:team:a", "system:serviceaccounts");
    assert!(matches!(take(&fair, &account), Some(Ok(_))));
}

#[tokio::test]
async fn a_level_that_is_deleted_between_classification_and_seat_is_replaced() {
    let level = json!({"metadata": {"name": "mine"}, "spec": {"type": "Limited", "limited": {
        "nominalConcurrencyShares": 10, "lendablePercent": 0,
        "limitResponse": {"type": "Reject"}}}});
    let schema = json!({"metadata": {"name": "mine"}, "spec": {
        "priorityLevelConfiguration": {"name": "mine"}, "matchingPrecedence": 10,
        "rules": [{"subjects": [{"kind": "User", "user": {"name": "alice"}}],
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"],
                "namespaces": ["*"]}]}]}});
    let fair = configured(600, &[("prioritylevelconfigurations", level), (FLOW_SCHEMAS, schema)]);
    let alice = user("alice", "team");
    let info = info(&Method::GET, "/api/v1/namespaces/a/pods/b");
    let schema = fair.classify(&alice, &info);
    assert_eq!(schema.name, "mine");
    configure(&fair, &[]);
    let now = Instant::now();
    let request = SeatRequest { user: &alice, info: &info, arrival: now, deadline: now + MAX_WAIT };
    assert!(
        fair.take(&schema, request, |_| WorkEstimate::of_seats(1)).now_or_never().unwrap().is_ok()
    );
}

#[tokio::test]
async fn a_schema_that_is_deleted_or_moved_to_another_level_leaves_no_series() {
    let schema = |level: &str| {
        let spec = json!({"priorityLevelConfiguration": {"name": level}, "matchingPrecedence": 10});
        (FLOW_SCHEMAS, json!({"metadata": {"name": "mine"}, "spec": spec}))
    };
    let mut registry = Registry::default();
    let fair = PriorityAndFairness::new(600, &Tasks::new(), &mut registry);
    let series = || {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let lines = text.lines().map(ToOwned::to_owned);
        lines.filter(|it| it.contains("flow_schema=\"mine\"")).collect::<Vec<String>>()
    };
    configure(&fair, &[schema("system")]);
    let first = series();
    assert!(first.len() > 9 && first.iter().all(|it| it.contains("\"system\"")), "{first:?}");
    configure(&fair, &[schema("workload-low")]);
    let second = series();
    assert_eq!(second.len(), first.len());
    assert!(second.iter().all(|it| it.contains("\"workload-low\"")), "{second:?}");
    configure(&fair, &[]);
    assert_eq!(series(), Vec::<String>::new());
}

/// The cells of a dump, without its header.
fn dump(fair: &PriorityAndFairness, name: &str, query: &str) -> Vec<Vec<String>> {
    let text = fair.dump(name, &Query::parse(Some(query)), 1_700_000_000_000_000_000).unwrap();
    let cells = |line: &str| line.split(',').map(|it| it.trim().to_owned()).collect();
    text.lines().skip(1).map(cells).collect()
}

#[tokio::test]
async fn dumps_show_the_requests_that_are_executed_and_those_that_wait() {
    let fair = configured(60, &[]);
    let alice = user("alice", "team");
    let seats: Vec<_> = std::iter::from_fn(|| take(&fair, &alice)).collect();
    let info = info(&Method::GET, "/apis/apps/v1/namespaces/a/deployments/b/status");
    let schema = fair.classify(&alice, &info);
    let now = Instant::now();
    let request = SeatRequest { user: &alice, info: &info, arrival: now, deadline: now + MAX_WAIT };
    let mut waiting = Box::pin(fair.take(&schema, request, |_| WorkEstimate::of_seats(1)));
    assert!((&mut waiting).now_or_never().is_none());
    let of_level = |rows: Vec<Vec<String>>| -> Vec<Vec<String>> {
        rows.into_iter().filter(|it| it[0] == "global-default").collect()
    };
    let executing = seats.len().to_string();
    // The last attempt of `take` has waited and was dropped.
    let expected =
        ["global-default", "1", "false", "false", "1", &executing, &executing, "1", "0", "1"];
    assert_eq!(of_level(dump(&fair, "dump_priority_levels", "")), [expected]);
    let queues = of_level(dump(&fair, "dump_queues", ""));
    assert_eq!(queues.len(), 128);
    let sum = |column: usize| -> usize {
        queues.iter().map(|it| it[column].parse::<usize>().unwrap()).sum()
    };
    assert_eq!([sum(2), sum(3), sum(4), sum(6), sum(7)], [1, seats.len(), seats.len(), 1, 1]);
    assert!(queues.iter().any(|it| it[8] == "0.00300000ss"));
    let requests = of_level(dump(&fair, "dump_requests", "includeRequestDetails=1"));
    assert_eq!(requests.len(), seats.len() + 1);
    let last = requests.last().unwrap();
    assert_eq!((&*last[1], &*last[3], &*last[4]), ("global-default", "0", "alice"));
    // The time of the arrival is a little before that of the dump.
    assert!(last[5].starts_with("2023-11-14T22:13:1"), "{}", last[5]);
    assert_eq!(last[6..10], ["1", "0", "0s", "0001-01-01T00:00:00Z"]);
    let path = "/apis/apps/v1/namespaces/a/deployments/b/status";
    assert_eq!(last[10..], ["alice", "get", path, "a", "b", "apps/v1", "deployments", "status"]);
    assert!(requests[..seats.len()].iter().all(|it| it[3] == "-1"));
    assert_eq!(dump(&fair, "dump_requests", "")[0].len(), 10);
    drop((waiting, seats));
    assert!(dump(&fair, "dump_requests", "").is_empty());
    assert!(fair.dump("other", &Query::default(), 0).is_none());
}

#[tokio::test]
async fn a_write_has_its_seats_until_its_events_are_sent() {
    let tasks = Tasks::new();
    let fair = PriorityAndFairness::new(60, &tasks, &mut Registry::default());
    configure(&fair, &[]);
    let alice = user("alice", "team");
    let info = info(&Method::POST, "/api/v1/namespaces/a/pods");
    let schema = fair.classify(&alice, &info);
    let now = Instant::now();
    let request = SeatRequest { user: &alice, info: &info, arrival: now, deadline: now + MAX_WAIT };
    let write = |additional_latency| {
        let estimate = WorkEstimate { seats: 1, final_seats: 3, additional_latency };
        fair.take(&schema, request, move |_| estimate)
    };
    let (long, short) =
        (write(Duration::from_hours(1)).await.unwrap(), write(Duration::from_millis(1)).await);
    let seats = || schema.metrics.seats.get();
    assert_eq!(seats(), 6);
    let _others: Vec<_> = std::iter::from_fn(|| take(&fair, &alice)).collect();
    let before = seats();
    drop(long);
    assert_eq!(seats(), before);
    drop(short);
    // The level has no other free seats than those of the short write, a millisecond later.
    assert!(write(Duration::ZERO).await.is_ok());
    tasks.stop(Duration::from_mins(1)).await.unwrap();
    assert_eq!(seats(), before - 6);
}
