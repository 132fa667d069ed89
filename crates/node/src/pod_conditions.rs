//! The conditions of a pod, computed from the states of its containers as a kubelet does.
//!
//! Upstream: `kubelet/status/generate.go`.

use crate::pod_resize::PendingResize;
use crate::pod_view::{ContainerStatus, PodCondition, PodSpec, PodStatus};

/// Sets the conditions of `status`, whose other fields are complete. Conditions of other clients
/// remain.
pub(crate) fn set_all(status: &mut PodStatus, spec: &PodSpec, has_sandbox: bool, now: &str) {
    let ready_to_start = Computed::of(has_sandbox, "", String::new());
    let initialized = initialized(status, spec);
    let containers_ready = containers_ready(status, spec);
    let ready = ready(status, spec, &containers_ready);
    let scheduled = Computed::of(true, "", String::new());
    let all = [
        ("PodReadyToStartContainers", ready_to_start),
        ("Initialized", initialized),
        ("Ready", ready),
        ("ContainersReady", containers_ready),
        ("PodScheduled", scheduled),
    ];
    let generation = (status.observed_generation > 0).then_some(status.observed_generation);
    for (type_, computed) in all {
        let status_text = if computed.is_true { "True" } else { "False" };
        let known = status.conditions.iter_mut().find(|condition| condition.type_ == type_);
        if let Some(known) = known {
            if known.status != status_text {
                status_text.clone_into(&mut known.status);
                known.last_transition_time = Some(now.to_owned());
            }
            known.observed_generation = generation;
            (known.reason, known.message) = (computed.reason.to_owned(), computed.message);
            continue;
        }
        status.conditions.push(PodCondition {
            type_: type_.to_owned(),
            status: status_text.to_owned(),
            reason: computed.reason.to_owned(),
            message: computed.message,
            last_transition_time: Some(now.to_owned()),
            observed_generation: generation,
        });
    }
}

/// Sets or removes the condition that the pod waits for other resources.
pub(crate) fn set_resize(status: &mut PodStatus, pending: Option<&PendingResize>, now: &str) {
    const TYPE: &str = "PodResizePending";
    let Some(PendingResize { reason, message }) = pending else {
        status.conditions.retain(|condition| condition.type_ != TYPE);
        return;
    };
    let known = status.conditions.iter().position(|condition| condition.type_ == TYPE);
    let index = known.unwrap_or_else(|| {
        status.conditions.push(PodCondition { type_: TYPE.to_owned(), ..PodCondition::default() });
        status.conditions.len() - 1
    });
    let condition = &mut status.conditions[index];
    if condition.reason != *reason {
        condition.last_transition_time = Some(now.to_owned());
    }
    "True".clone_into(&mut condition.status);
    (*reason).clone_into(&mut condition.reason);
    condition.message.clone_from(message);
    condition.observed_generation = Some(status.observed_generation);
}

struct Computed {
    is_true: bool,
    reason: &'static str,
    message: String,
}

impl Computed {
    fn of(is_true: bool, reason: &'static str, message: String) -> Self {
        Self { is_true, reason, message }
    }
}

fn initialized(status: &PodStatus, spec: &PodSpec) -> Computed {
    if status.phase == "Succeeded" {
        return Computed::of(true, "PodCompleted", String::new());
    }
    let is_complete = |name: &str, is_sidecar: bool| {
        let status = status.init_container_statuses.iter().find(|status| status.name == name);
        status.is_some_and(|status| {
            let terminated = status.state.terminated.as_ref();
            if is_sidecar {
                return status.started == Some(true) || terminated.is_some();
            }
            terminated.is_some_and(|terminated| terminated.exit_code == 0)
        })
    };
    let incomplete = spec.init_containers.iter();
    let incomplete = incomplete.filter(|it| !is_complete(&it.name, it.is_sidecar()));
    let incomplete: Vec<&str> = incomplete.map(|container| container.name.as_str()).collect();
    if incomplete.is_empty() {
        return Computed::of(true, "", String::new());
    }
    let message = format!("containers with incomplete status: [{}]", incomplete.join(" "));
    Computed::of(false, "ContainersNotInitialized", message)
}

fn containers_ready(status: &PodStatus, spec: &PodSpec) -> Computed {
    match status.phase.as_str() {
        "Succeeded" => return Computed::of(false, "PodCompleted", String::new()),
        "Failed" => return Computed::of(false, "PodFailed", String::new()),
        _ => {}
    }
    let is_ready = |statuses: &[ContainerStatus], name: &str| {
        statuses.iter().any(|status| status.name == name && status.ready)
    };
    let sidecars = spec.init_containers.iter().filter(|container| container.is_sidecar());
    let sidecars = sidecars.filter(|it| !is_ready(&status.init_container_statuses, &it.name));
    let others = spec.containers.iter();
    let others = others.filter(|it| !is_ready(&status.container_statuses, &it.name));
    let unready: Vec<&str> = sidecars.chain(others).map(|it| it.name.as_str()).collect();
    if unready.is_empty() {
        return Computed::of(true, "", String::new());
    }
    let message = format!("containers with unready status: [{}]", unready.join(" "));
    Computed::of(false, "ContainersNotReady", message)
}

fn ready(status: &PodStatus, spec: &PodSpec, containers: &Computed) -> Computed {
    if !containers.is_true {
        return Computed::of(false, containers.reason, containers.message.clone());
    }
    let mut problems = Vec::new();
    for gate in &spec.readiness_gates {
        let type_ = &gate.condition_type;
        match status.condition(type_) {
            None => problems.push(format!(
                "corresponding condition of pod readiness gate \"{type_}\" does not exist."
            )),
            Some(condition) if condition.status != "True" => problems.push(format!(
                "the status of pod readiness gate \"{type_}\" is not \"True\", but {}",
                condition.status
            )),
            Some(_) => {}
        }
    }
    if problems.is_empty() {
        return Computed::of(true, "", String::new());
    }
    Computed::of(false, "ReadinessGatesNotReady", problems.join(", "))
}
