//! Health checks and metrics of other parts of the process, shown by the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use testenv::TestEnv;

async fn text(plane: &TestEnv, path: &str) -> (u16, String) {
    let (code, text) = plane.get(path).await;
    (code, text.as_str().unwrap().to_owned())
}

#[tokio::test]
async fn a_health_check_of_another_part_is_shown_by_its_name() {
    let plane = TestEnv::start().await;
    assert_eq!(text(&plane, "/readyz/controllers").await.0, 404);
    let is_healthy = Arc::new(AtomicBool::new(true));
    let state = Arc::clone(&is_healthy);
    plane.server().add_health_check("controllers", move || {
        if state.load(Ordering::Relaxed) { Ok(()) } else { Err("secret".to_owned()) }
    });
    plane.server().add_readiness_check("caches", || Err("listing".to_owned()));
    for path in ["/healthz", "/livez"] {
        let (code, report) = text(&plane, &format!("{path}?verbose")).await;
        assert_eq!(code, 200, "{report}");
        assert!(report.contains("[+]controllers ok\n") && !report.contains("caches"), "{report}");
    }
    let (code, report) = text(&plane, "/readyz").await;
    assert_eq!(code, 500);
    assert!(report.contains("[-]caches failed: reason withheld\n"), "{report}");
    assert_eq!(text(&plane, "/readyz?exclude=caches").await.0, 200);
    assert_eq!(text(&plane, "/readyz/controllers").await, (200, "ok".to_owned()));
    is_healthy.store(false, Ordering::Relaxed);
    for path in ["/healthz", "/livez/controllers"] {
        let (code, report) = text(&plane, path).await;
        assert!(code == 500 && !report.contains("secret"), "{report}");
    }
}

#[tokio::test]
async fn metrics_of_another_part_follow_those_of_the_server() {
    let plane = TestEnv::start().await;
    let source = "# HELP process_open_fds Mine.\n# TYPE process_open_fds gauge\nprocess_open_fds -1\n# TYPE workqueue_depth gauge\nworkqueue_depth{name=\"a\"} 3\n# EOF\n";
    plane.server().add_metrics(move || source.to_owned());
    let (_, text) = text(&plane, "/metrics").await;
    assert!(text.contains("\n# TYPE workqueue_depth gauge\nworkqueue_depth{name=\"a\"} 3\n"));
    assert_eq!(text.matches("# TYPE process_open_fds gauge").count(), 1);
    assert!(!text.contains("process_open_fds -1"));
    assert!(text.ends_with("# EOF\n") && text.matches("# EOF").count() == 1, "{text}");
}
