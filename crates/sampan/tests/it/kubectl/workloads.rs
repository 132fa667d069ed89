//! Workloads on a plane with controllers and simulated nodes: `create deployment`, `scale`, `rollout`,
//! `set image`, `autoscale`, `expose`, `top`.

use crate::kubectl::{collapse_spaces, each_alive, each_since_alive, table};

const READY: &str = "rollout status deployment/web --timeout=60s";

#[test]
fn a_deployment_becomes_ready_and_is_scaled() {
    each_alive(1, |kubectl| {
        let created = kubectl.does("create deployment web --image=nginx --replicas=2");
        assert_eq!(created, "deployment.apps/web created\n");
        let status = kubectl.does(READY);
        assert!(status.ends_with("deployment \"web\" successfully rolled out\n"), "{status}");
        let expected = "NAME READY UP-TO-DATE AVAILABLE AGE\nweb 2/2 2 2 *";
        assert_eq!(table(&kubectl.does("get deployments")), expected);
        assert_eq!(
            kubectl.does("scale deployment web --replicas=4"),
            "deployment.apps/web scaled\n"
        );
        kubectl.does(READY);
        let pods = table(&kubectl.does("get pods"));
        let running = pods.lines().filter(|it| it.ends_with("1/1 Running 0 *")).count();
        assert_eq!(running, 4, "{pods}");
        kubectl.does("scale deployment web --replicas=0");
        kubectl.until_gone("pods --selector=app=web");
        assert_eq!(table(&kubectl.does("get deployments")).lines().last(), Some("web 0/0 0 0 *"));
    });
}

#[test]
fn rollouts_have_a_history_and_can_be_undone_paused_and_restarted() {
    each_alive(1, |kubectl| {
        kubectl.does("create deployment web --image=nginx:1");
        kubectl.does(READY);
        assert_eq!(
            kubectl.does("set image deployment/web nginx=nginx:2"),
            "deployment.apps/web image updated\n"
        );
        kubectl.does(READY);
        let history = collapse_spaces(&kubectl.does("rollout history deployment/web"));
        let expected = "deployment.apps/web\nREVISION CHANGE-CAUSE\n1 <none>\n2 <none>";
        assert_eq!(history.trim(), expected);
        let second = kubectl.does("rollout history deployment/web --revision=2");
        assert!(second.contains("nginx:2"), "{second}");

        assert_eq!(
            kubectl.does("rollout undo deployment/web"),
            "deployment.apps/web rolled back\n"
        );
        kubectl.does(READY);
        let image = "get deployment web -o jsonpath={.spec.template.spec.containers[0].image}";
        assert_eq!(kubectl.does(image), "nginx:1");

        assert_eq!(kubectl.does("rollout pause deployment/web"), "deployment.apps/web paused\n");
        kubectl.does("set image deployment/web nginx=nginx:3");
        kubectl.does("wait --for=condition=Progressing=Unknown deployment/web --timeout=60s");
        let sets = table(&kubectl.does("get replicasets"));
        assert_eq!(sets.lines().count(), 3, "{sets}");
        assert_eq!(kubectl.does("rollout resume deployment/web"), "deployment.apps/web resumed\n");
        kubectl.does(READY);

        let pods = || kubectl.does("get pods -o name");
        let before = pods();
        assert_eq!(
            kubectl.does("rollout restart deployment/web"),
            "deployment.apps/web restarted\n"
        );
        kubectl.does(READY);
        assert_ne!(pods(), before);
    });
}

#[test]
fn a_service_of_a_deployment_has_its_pods_as_endpoints() {
    each_alive(1, |kubectl| {
        kubectl.does("create deployment web --image=nginx --port=80 --replicas=2");
        kubectl.does(READY);
        let exposed = kubectl.does("expose deployment web --port=8080 --target-port=80");
        assert_eq!(exposed, "service/web exposed\n");
        let endpoints = "get endpoints web -o jsonpath={.subsets[*].addresses[*].ip}";
        let slices = "get endpointslices -l kubernetes.io/service-name=web \
             -o jsonpath={.items[*].endpoints[*].addresses[*]}";
        let mut ips = kubectl.does("get pods -o jsonpath={.items[*].status.podIP}");
        let sorted = |text: &str| {
            let mut words: Vec<String> = text.split(' ').map(str::to_owned).collect();
            words.sort_unstable();
            words
        };
        // The controllers of endpoints react to the service at some time after its creation.
        kubectl.until(|| sorted(&kubectl.does(endpoints)) == sorted(&ips));
        kubectl.until(|| sorted(&kubectl.does(slices)) == sorted(&ips));
        kubectl.does("scale deployment web --replicas=1");
        kubectl.does(READY);
        kubectl.until(|| {
            ips = kubectl.does("get pods -o jsonpath={.items[*].status.podIP}");
            sorted(&kubectl.does(slices)) == sorted(&ips)
        });
        let described = kubectl.does("describe service web");
        assert!(described.contains(&format!("{}:80", ips.trim())), "{described}");
    });
}

#[test]
fn top_shows_the_usage_of_simulated_pods_and_an_autoscaler_follows_it() {
    each_since_alive(24, 1, |kubectl| {
        kubectl.does("create deployment web --image=nginx");
        kubectl.does("set resources deployment web --requests=cpu=100m,memory=64Mi");
        kubectl.does(READY);
        let nodes = table(&kubectl.does("top nodes"));
        assert!(nodes.lines().nth(1).unwrap().starts_with("sampan-0 "), "{nodes}");
        let pods = table(&kubectl.does("top pods"));
        assert!(pods.contains("web-"), "{pods}");
        kubectl.does("create rolebinding jane --clusterrole=view --user=jane");
        let may_list = "auth can-i list pods.metrics.k8s.io --as=jane";
        kubectl.until(|| kubectl.outcome(may_list, "").code == 0);
        assert!(table(&kubectl.does("top pods --as=jane")).contains("web-"));
        let scaled = kubectl.does("autoscale deployment web --min=1 --max=5 --cpu-percent=50");
        assert_eq!(scaled, "horizontalpodautoscaler.autoscaling/web autoscaled\n");
        let active = "wait --for=condition=ScalingActive hpa/web --timeout=60s";
        assert_eq!(kubectl.does(active), "horizontalpodautoscaler.autoscaling/web condition met\n");
    });
}

#[test]
fn the_log_of_a_simulated_pod_says_that_it_is_simulated() {
    each_alive(1, |kubectl| {
        kubectl.does("run web --image=nginx");
        kubectl.does("wait --for=condition=Ready pod/web --timeout=60s");
        let log = kubectl.does("logs web");
        assert!(log.contains("simulated"), "{log}");
        let refused = kubectl.fails("exec web -- ls");
        assert!(refused.contains("simulated"), "{refused}");
    });
}
