//! The outcomes of reconciles: retries, requeues, metrics and records.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, mpsc};

use crate::world::{Running, THINGS, Thing, World, manual_clock, options, until};
use machinery::{Value, json};
use runtime::informer::work_queue::RateLimits;
use runtime::reconcile_history::ReconcileOutcome;
use runtime::{Action, Controller, Failure, Manager, ManagerOptions, Mapper, Predicate, Request};

/// The outcome of one call of the reconcile function.
#[derive(Clone, Copy)]
enum Step {
    Panics,
    Fails,
    FailsPermanently,
    RequeuesSoon,
    RequeuesLater,
    Succeeds,
}

/// The outcomes of the calls in their order. The last one is repeated.
struct Script {
    steps: Vec<Step>,
    calls: AtomicU32,
}

impl Script {
    fn new(steps: &[Step]) -> Self {
        Self { steps: steps.to_vec(), calls: AtomicU32::new(0) }
    }
}

async fn run_step(_: Request, script: Arc<Script>) -> Result<Action, Failure> {
    let call = script.calls.fetch_add(1, Ordering::SeqCst) as usize;
    match script.steps[call.min(script.steps.len() - 1)] {
        Step::Panics => panic!("expected in this test"),
        Step::Fails => Err(Failure::transient("not now")),
        Step::FailsPermanently => Err(Failure::permanent("never")),
        Step::RequeuesSoon => Ok(Action::RequeueAfter(Duration::from_millis(1))),
        Step::RequeuesLater => Ok(Action::RequeueAfter(Duration::from_mins(10))),
        Step::Succeeds => Ok(Action::Done),
    }
}

pub(crate) async fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    response
}

#[tokio::test]
async fn panics_and_failures_are_caught_counted_recorded_and_retried() {
    let world = World::new().await;
    let endpoint = Some("127.0.0.1:0".parse().unwrap());
    let manager = Manager::new(world.client.clone(), ManagerOptions { endpoint, ..options() });
    let script =
        Script::new(&[Step::Panics, Step::Fails, Step::RequeuesSoon, Step::FailsPermanently]);
    let (send, requests) = mpsc::channel(1);
    manager.add(Controller::for_::<Thing>().channel(requests).reconcile(run_step, script));
    drop(manager.recorder("example.com/tester"));
    manager.add_metrics(|| "# TYPE boats gauge\nboats 7\n".to_owned());
    manager.queue::<u32>("boats", RateLimits::default()).add(1);
    let running = Running::start(&manager);
    send.send(Request::new("default", "a")).await.unwrap();
    until("four calls", async || manager.records("thing").len() == 4).await;
    let outcomes: Vec<_> =
        manager.records("thing").into_iter().rev().map(|record| record.outcome).collect();
    assert_eq!(outcomes[0], ReconcileOutcome::Panicked("expected in this test".to_owned()));
    assert_eq!(outcomes[1], ReconcileOutcome::Failed("not now".to_owned()));
    assert_eq!(outcomes[2], ReconcileOutcome::RequeueAfter(Duration::from_millis(1)));
    assert_eq!(outcomes[3], ReconcileOutcome::FailedPermanently("never".to_owned()));

    let address = manager.endpoint().await.unwrap();
    let metrics = get(address, "/metrics").await;
    for line in [
        r#"controller_runtime_reconcile_panics_total{controller="thing"} 1"#,
        r#"controller_runtime_reconcile_errors_total{controller="thing"} 3"#,
        r#"controller_runtime_terminal_reconcile_errors_total{controller="thing"} 1"#,
        r#"controller_runtime_reconcile_total{controller="thing",result="requeue_after"} 1"#,
        r#"workqueue_retries_total{name="thing",controller="thing"} 2"#,
        r#"workqueue_depth{name="thing",controller="thing"} 0"#,
        r#"sampan_cache_synced{resource="things.example.com/v1"} 1"#,
        r#"sampan_cache_failing{resource="things.example.com/v1"} 0"#,
        r#"sampan_events_dropped_total{controller="example.com/tester"} 0"#,
        r#"workqueue_depth{name="boats",controller="boats"} 1"#,
        "boats 7",
    ] {
        assert!(metrics.lines().any(|it| it == line), "no {line} in {metrics}");
    }
    for name in ["process_cpu_seconds_total ", "process_resident_memory_bytes "] {
        assert!(!cfg!(target_os = "linux") || metrics.contains(&format!("\n{name}")), "{metrics}");
    }
    let reconciles = get(address, "/reconciles").await;
    let body: Value = serde_json::from_str(reconciles.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    assert_eq!(body["thing"][3]["causes"][0]["event"], "channel");
    assert_eq!(body["thing"][2]["causes"][0], json!({"event": "retry", "failures": 1}));
    assert!(get(address, "/healthz").await.ends_with("\r\n\r\nok"));
    assert!(get(address, "/readyz?verbose").await.contains("[+]caches ok"));
    manager.health().add("disk", || Err("full".to_owned()));
    assert!(get(address, "/healthz").await.starts_with("HTTP/1.1 500"));
    running.stop().await;
}

#[tokio::test]
async fn rejected_events_are_ignored_and_keys_of_channels_reconciled() {
    let world = World::new().await;
    world.create_thing("a", json!(1)).await;
    let manager = Manager::new(world.client.clone(), options());
    let (send, requests) = mpsc::channel(4);
    let controller = Controller::for_::<Thing>()
        .when(Predicate::generation_changed())
        .watches::<Thing>(Mapper::custom(|item| match item.name() {
            "b" => vec![Request::new("default", "from-b")],
            _ => Vec::new(),
        }))
        .channel(requests)
        .reconcile(run_step, Script::new(&[Step::Succeeds]));
    manager.add(controller);
    let running = Running::start(&manager);
    let times = |name: &str| {
        let records = manager.records("thing");
        records.iter().filter(|record| record.request.name() == name).count()
    };
    until("a is seen", async || times("a") == 1).await;
    let labels = json!({"metadata": {"labels": {"x": "y"}}});
    let request = http::Request::patch(format!("{THINGS}/a"))
        .header("content-type", "application/merge-patch+json")
        .body(labels.to_string().into_bytes())
        .unwrap();
    let _: Value = world.client.request(request).await.unwrap();
    send.send(Request::new("default", "sent")).await.unwrap();
    world.create_thing("b", json!(1)).await;
    until("b and the key that it is mapped to are reconciled", async || {
        times("b") + times("from-b") == 2
    })
    .await;
    until("the sent key is reconciled", async || times("sent") == 1).await;
    // The events of one informer arrive in order, so that of the label has arrived before that of b.
    assert_eq!(times("a"), 1);
    running.stop().await;
}

#[tokio::test]
async fn the_keys_of_many_namespaces_are_reconciled_in_turns() {
    struct Gate {
        order: Mutex<Vec<String>>,
        permits: Semaphore,
    }
    async fn pass(request: Request, gate: Arc<Gate>) -> Result<Action, Failure> {
        gate.permits.acquire().await.unwrap().forget();
        gate.order.lock().unwrap().push(request.to_string());
        Ok(Action::Done)
    }

    let world = World::new().await;
    let manager = Manager::new(world.client.clone(), options());
    let gate = Arc::new(Gate { order: Mutex::default(), permits: Semaphore::new(0) });
    let (send, requests) = mpsc::channel(10);
    let things = Controller::for_::<Thing>().channel(requests).workers(1);
    manager.add(things.reconcile(pass, Arc::clone(&gate)));
    let running = Running::start(&manager);
    let queue = async |name: &str, value: u32| {
        let line = format!("{name}{{name=\"thing\",controller=\"thing\"}} {value}\n");
        until(&line, async || manager.metrics_text().contains(&line)).await;
    };
    send.send(Request::new("first", "1")).await.unwrap();
    queue("workqueue_adds_total", 1).await;
    queue("workqueue_depth", 0).await;
    for (namespace, name) in [("a", "1"), ("a", "2"), ("a", "3"), ("b", "1"), ("c", "1")] {
        send.send(Request::new(namespace, name)).await.unwrap();
    }
    queue("workqueue_depth", 5).await;
    gate.permits.add_permits(6);
    until("six calls", async || gate.order.lock().unwrap().len() == 6).await;
    let order = ["first/1", "a/1", "b/1", "c/1", "a/2", "a/3"];
    assert_eq!(*gate.order.lock().unwrap(), order);
    running.stop().await;
}

#[tokio::test]
async fn a_delayed_key_and_a_changed_object_have_different_causes() {
    let world = World::new().await;
    world.create_thing("a", json!(1)).await;
    let clock = manual_clock();
    let manager =
        Manager::new(world.client.clone(), ManagerOptions { clock: clock.clone(), ..options() });
    let script = Script::new(&[Step::RequeuesLater, Step::Succeeds]);
    let (send, requests) = mpsc::channel(4);
    let controller = Controller::for_::<Thing>().channel(requests);
    manager.add(controller.reconcile(run_step, script));
    let running = Running::start(&manager);
    until("a was reconciled", async || manager.records("thing").len() == 1).await;
    clock.advance(Duration::from_mins(1));
    send.send(Request::new("default", "a")).await.unwrap();
    until("a was reconciled again", async || manager.records("thing").len() == 2).await;
    clock.advance(Duration::from_mins(9));
    until("a was reconciled after its delay", async || manager.records("thing").len() == 3).await;
    let records = manager.records("thing").into_iter().rev();
    let causes: Vec<_> = records.map(|record| record.causes.to_string()).collect();
    assert_eq!(causes, ["Thing default/a found", "sent through a channel", "requested"]);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn reconciles_that_block_their_threads_run_concurrently() {
    let world = World::new().await;
    let manager = Manager::new(world.client.clone(), options());
    let (send, requests) = mpsc::channel(100);
    let reconcile = async |request: Request, cx: Arc<(Mutex<u32>, Condvar)>| {
        if request.name() == "first" {
            return Ok(Action::Done);
        }
        let (arrived, arrival) = &*cx;
        let mut arrived = arrived.lock().unwrap();
        *arrived += 1;
        arrival.notify_all();
        let timeout = Duration::from_secs(10);
        let waited = arrival.wait_timeout_while(arrived, timeout, |it| *it < 2).unwrap();
        if waited.1.timed_out() {
            Err(Failure::permanent("the other reconcile does not run"))
        } else {
            Ok(Action::Done)
        }
    };
    let controller = Controller::for_::<Thing>().channel(requests);
    manager.add(controller.reconcile(reconcile, (Mutex::new(0), Condvar::new())));
    let running = Running::start(&manager);
    send.send(Request::new("default", "first")).await.unwrap();
    until("the workers run", async || manager.records("thing").len() == 1).await;
    for name in ["a", "b"] {
        send.send(Request::new("default", name)).await.unwrap();
    }
    until("both are done", async || manager.records("thing").len() == 3).await;
    let records = manager.records("thing");
    assert!(records.iter().all(|record| record.outcome == ReconcileOutcome::Done), "{records:?}");
    running.stop().await;
}

#[tokio::test]
async fn a_manager_with_a_reconcile_that_does_not_end_is_not_healthy() {
    let world = World::new().await;
    let clock = manual_clock();
    let options = ManagerOptions { clock: clock.clone(), ..options() };
    let manager = Manager::new(world.client.clone(), options);
    let (send, requests) = mpsc::channel(1);
    let (started, mut is_started) = mpsc::channel(1);
    let (end, is_ended) = tokio::sync::watch::channel(false);
    let reconcile = move |_: Request, started: Arc<mpsc::Sender<()>>| {
        let mut is_ended = is_ended.clone();
        async move {
            started.send(()).await.unwrap();
            is_ended.wait_for(|is_ended| *is_ended).await.unwrap();
            Ok(Action::Done)
        }
    };
    manager.add(Controller::for_::<Thing>().channel(requests).reconcile(reconcile, started));
    manager.check_reconciles(Duration::from_mins(30));
    let running = Running::start(&manager);
    send.send(Request::new("default", "a")).await.unwrap();
    is_started.recv().await.unwrap();
    assert_eq!(manager.health().check(), Ok(()));
    clock.advance(Duration::from_mins(31));
    let failed = "reconciles: a reconcile of thing has not ended for 1860 s";
    assert_eq!(manager.health().check(), Err(failed.to_owned()));
    end.send_replace(true);
    until("it has ended", async || manager.health().check().is_ok()).await;
    running.stop().await;
}
