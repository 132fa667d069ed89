//! Validation of the probes and lifecycle hooks of containers.

use crate::validation::rules::{
    add_invalid, at_least_zero, port_or_name, required, supported_only,
};
use machinery::fields::{list, number, part, text};
use machinery::{ErrorList, Path, Value};

/// What a handler belongs to. Both may have `exec`, `httpGet` or `tcpSocket`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HandlerOwner {
    /// A probe, which may also have `grpc`.
    Probe,
    /// A lifecycle hook, which may also have `sleep`.
    Hook,
}

const GRACE: &str = "terminationGracePeriodSeconds";

/// Validates the probes of a container; `grace_period` is that of the pod.
pub(super) fn validate_probes(
    errors: &mut ErrorList,
    path: &Path<'_>,
    container: &Value,
    grace_period: Option<i64>,
) {
    for kind in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(probe) = part(container, kind) else { continue };
        let path = path.child(kind);
        validate_handler(errors, &path, probe, grace_period, HandlerOwner::Probe);
        for field in [
            "initialDelaySeconds",
            "timeoutSeconds",
            "periodSeconds",
            "successThreshold",
            "failureThreshold",
        ] {
            at_least_zero(errors, &path.child(field), number(probe, field));
        }
        let own_grace_period = probe.get(GRACE).and_then(Value::as_i64);
        if let Some(seconds) = own_grace_period.filter(|seconds| *seconds <= 0) {
            errors.invalid(&path.child(GRACE), seconds, "must be greater than 0");
        }
        if kind == "readinessProbe" {
            if let Some(seconds) = own_grace_period {
                errors.invalid(&path.child(GRACE), seconds, "must not be set for readinessProbes");
            }
        } else if number(probe, "successThreshold") != 1 {
            let threshold = number(probe, "successThreshold");
            errors.invalid(&path.child("successThreshold"), threshold, "must be 1");
        }
    }
}

/// Validates the lifecycle hooks of a container, if it has any; `os` is that of the pod.
pub(super) fn validate_lifecycle(
    errors: &mut ErrorList,
    path: &Path<'_>,
    container: &Value,
    grace_period: Option<i64>,
    os: Option<&str>,
) {
    let Some(lifecycle) = part(container, "lifecycle") else { return };
    let path = path.child("lifecycle");
    for hook in ["postStart", "preStop"] {
        if let Some(handler) = part(lifecycle, hook) {
            validate_handler(errors, &path.child(hook), handler, grace_period, HandlerOwner::Hook);
        }
    }
    if part(lifecycle, "stopSignal").is_some() {
        let path = path.child("stopSignal");
        let signal = text(lifecycle, "stopSignal");
        match os {
            None => {
                errors.forbidden(&path, "may not be set for containers with empty `spec.os.name`");
            }
            Some("windows") => supported_only(errors, &path, signal, &["SIGKILL", "SIGTERM"]),
            Some("linux") => {
                let signals = linux_signals();
                let listed: Vec<&str> = signals.iter().map(String::as_str).collect();
                supported_only(errors, &path, signal, &listed);
            }
            Some(_) => {}
        }
    }
}

/// The signals of Linux, in the order of their names.
fn linux_signals() -> Vec<String> {
    const NAMED: &str = "ABRT ALRM BUS CHLD CLD CONT FPE HUP ILL INT IO IOT KILL PIPE POLL PROF PWR \
        QUIT SEGV STKFLT STOP SYS TERM TRAP TSTP TTIN TTOU URG USR1 USR2 VTALRM WINCH XCPU XFSZ \
        RTMIN RTMAX";
    let named = NAMED.split_whitespace().map(|name| format!("SIG{name}"));
    let above = (1..=15).map(|offset| format!("SIGRTMIN+{offset}"));
    let below = (1..=14).map(|offset| format!("SIGRTMAX-{offset}"));
    let mut signals: Vec<String> = named.chain(above).chain(below).collect();
    signals.sort();
    signals
}

fn validate_handler(
    errors: &mut ErrorList,
    path: &Path<'_>,
    handler: &Value,
    grace_period: Option<i64>,
    owner: HandlerOwner,
) {
    let last = match owner {
        HandlerOwner::Probe => "grpc",
        HandlerOwner::Hook => "sleep",
    };
    let mut is_first = true;
    for kind in ["exec", "httpGet", "tcpSocket", last] {
        let Some(action) = part(handler, kind) else { continue };
        let path = path.child(kind);
        if !std::mem::take(&mut is_first) {
            errors.forbidden(&path, "may not specify more than 1 handler type");
            continue;
        }
        match kind {
            "exec" if list(action, "command").is_empty() => {
                errors.required(&path.child("command"), "");
            }
            "httpGet" => validate_http_get(errors, &path, action),
            "tcpSocket" | "grpc" => {
                let port = action.get("port").unwrap_or(&Value::Null);
                port_or_name(errors, &path.child("port"), port);
            }
            "sleep" => validate_sleep(errors, &path, number(action, "seconds"), grace_period),
            _ => {}
        }
    }
    if is_first {
        errors.required(path, "must specify a handler type");
    }
}

fn validate_http_get(errors: &mut ErrorList, path: &Path<'_>, action: &Value) {
    required(errors, &path.child("path"), text(action, "path"));
    port_or_name(errors, &path.child("port"), action.get("port").unwrap_or(&Value::Null));
    supported_only(errors, &path.child("scheme"), text(action, "scheme"), &["HTTP", "HTTPS"]);
    for header in list(action, "httpHeaders") {
        let name = text(header, "name");
        let is_valid =
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        if !is_valid {
            let message = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')";
            add_invalid(errors, &path.child("httpHeaders"), name, vec![message.to_owned()]);
        }
    }
}

fn validate_sleep(
    errors: &mut ErrorList,
    path: &Path<'_>,
    seconds: i64,
    grace_period: Option<i64>,
) {
    if let Some(grace_period) = grace_period.filter(|it| !(0..=*it).contains(&seconds)) {
        let message = format!(
            "must be non-negative and less than terminationGracePeriodSeconds ({grace_period})"
        );
        errors.invalid(path, seconds, &message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::lines;
    use machinery::json;

    fn check(container: Value, expected: &[&str]) {
        let mut errors = ErrorList::new();
        validate_probes(&mut errors, &Path::root("c"), &container, Some(30));
        validate_lifecycle(&mut errors, &Path::root("c"), &container, Some(30), None);
        assert_eq!(lines(&errors), expected);
    }

    #[test]
    fn a_probe_requires_exactly_one_handler() {
        check(
            json!({"readinessProbe": {}, "livenessProbe": {"successThreshold": 1,
                "exec": {"command": ["x"]}, "tcpSocket": {"port": 80}}}),
            &[
                "c.livenessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type",
                "c.readinessProbe: Required value: must specify a handler type",
            ],
        );
    }

    #[test]
    fn a_liveness_probe_requires_a_success_threshold_of_one() {
        check(
            json!({"livenessProbe": {"successThreshold": 2, "periodSeconds": -1,
                "httpGet": {"path": "/", "port": "http", "scheme": "HTTP"}}}),
            &[
                "c.livenessProbe.periodSeconds: Invalid value: -1: must be greater than or equal to 0",
                "c.livenessProbe.successThreshold: Invalid value: 2: must be 1",
            ],
        );
    }

    #[test]
    fn a_hook_may_not_sleep_longer_than_the_grace_period() {
        check(json!({"lifecycle": {"preStop": {"sleep": {"seconds": 30}}}}), &[]);
        check(
            json!({"lifecycle": {"preStop": {"sleep": {"seconds": 31}}, "stopSignal": "SIGUSR1"}}),
            &[
                "c.lifecycle.preStop.sleep: Invalid value: 31: must be non-negative and less than terminationGracePeriodSeconds (30)",
                "c.lifecycle.stopSignal: Forbidden: may not be set for containers with empty `spec.os.name`",
            ],
        );
    }
}
