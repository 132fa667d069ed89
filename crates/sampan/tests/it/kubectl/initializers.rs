//! A sidecar that an initializer injects while `kubectl create` waits.

use serde_json::{Value, json};

use crate::kubectl::session::Kubectl;
use crate::kubectl::{assert_lines, each, table};

/// An initializer configuration with a YAML comment.
const CONFIGURATION: &str = "
apiVersion: admissionregistration.k8s.io/v1alpha1
kind: InitializerConfiguration
metadata:
  name: envoy-config
initializers:
  # The name has at least two dots.
  - name: envoy.initializer.kubernetes.io
    rules:
      - apiGroups:
          - \"\"
        apiVersions:
          - v1
        resources:
          - pods
";

const POD: &str = "/api/v1/namespaces/default/pods/web";

/// Waits for the uninitialized pod and returns it.
fn uninitialized(kubectl: &Kubectl) -> Value {
    for _ in 0..100 {
        let found = kubectl.outcome(&format!("get --raw {POD}?includeUninitialized=true"), "");
        if found.code == 0 {
            return serde_json::from_str(&found.stdout).unwrap();
        }
    }
    panic!("the pod was not stored")
}

#[test]
fn a_sidecar_is_injected_before_create_returns() {
    each(|kubectl| {
        let created = kubectl.does_with("create -f -", CONFIGURATION);
        assert_eq!(
            created,
            "initializerconfiguration.admissionregistration.k8s.io/envoy-config created\n"
        );
        let creating = kubectl.starts("run web --image=nginx");
        let mut pod = uninitialized(kubectl);
        let missing = "Error from server (NotFound): pods \"web\" not found";
        assert_eq!(kubectl.fails("get pod web"), missing);
        assert_eq!(kubectl.does("get pods -o name"), "");
        let envoy = json!({"name": "envoy", "image": "lyft/envoy"});
        pod["spec"]["containers"].as_array_mut().unwrap().push(envoy);
        pod["metadata"]["initializers"]["pending"].as_array_mut().unwrap().remove(0);
        kubectl.does_with(&format!("replace --raw {POD} -f -"), &pod.to_string());
        assert_eq!(creating.end(), (0, "pod/web created".to_owned()));
        let names = "get pod web -o jsonpath={.spec.containers[*].name}";
        assert_eq!(kubectl.does(names), "web envoy");
    });
}

#[test]
fn an_initializer_configuration_is_printed_and_explained() {
    each(|kubectl| {
        kubectl.does_with("apply -f -", CONFIGURATION);
        let listed = table(&kubectl.does("get initializerconfigurations -o name"));
        assert_eq!(listed, "initializerconfiguration.admissionregistration.k8s.io/envoy-config");
        assert_lines(
            &kubectl.does("describe initializerconfiguration envoy-config"),
            &["Name: envoy-config", "Name: envoy.initializer.kubernetes.io", "pods"],
        );
        let explained = kubectl.does("explain initializerconfiguration.initializers.rules");
        for field in ["apiGroups", "apiVersions", "resources"] {
            assert!(explained.contains(field), "{explained}");
        }
    });
}

#[test]
fn create_fails_with_the_error_of_the_initializer() {
    each(|kubectl| {
        kubectl.does_with("create -f -", CONFIGURATION);
        let creating = kubectl.starts("run web --image=nginx");
        let mut pod = uninitialized(kubectl);
        pod["metadata"]["initializers"]["result"] = json!({"status": "Failure", "code": 403,
            "reason": "Forbidden", "message": "there is no envoy"});
        kubectl.does_with(&format!("replace --raw {POD} -f -"), &pod.to_string());
        // The code depends on kubectl's version and on its log level.
        let (code, printed) = creating.end();
        assert_eq!((code != 0, printed.as_str()), (true, ""));
        kubectl.fails(&format!("get --raw {POD}?includeUninitialized=true"));
    });
}
