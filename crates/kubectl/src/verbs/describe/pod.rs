//! Pods and pod templates: containers, volumes, tolerations.

mod container;
mod volume;

use super::sheet::{Sheet, date};
use machinery::Value;
use machinery::fields::{flag, list, number, text};

/// Describes a pod; whether its events are wanted.
pub(super) fn describe(sheet: &mut Sheet, object: &Value) -> bool {
    let (metadata, spec, status) = (&object["metadata"], &object["spec"], &object["status"]);
    sheet.field(0, "Name", text(metadata, "name"));
    sheet.field(0, "Namespace", text(metadata, "namespace"));
    if spec["priority"].is_number() {
        sheet.field(0, "Priority", &number(spec, "priority").to_string());
    }
    sheet.optional(0, "Priority Class Name", text(spec, "priorityClassName"));
    sheet.optional(0, "Runtime Class Name", text(spec, "runtimeClassName"));
    sheet.optional(0, "Service Account", text(spec, "serviceAccountName"));
    match text(spec, "nodeName") {
        "" => sheet.field(0, "Node", "<none>"),
        node => sheet.field(0, "Node", &format!("{node}/{}", text(status, "hostIP"))),
    }
    if !text(status, "startTime").is_empty() {
        sheet.field(0, "Start Time", &date(text(status, "startTime")));
    }
    sheet.labels("Labels", &metadata["labels"]);
    sheet.annotations("Annotations", &metadata["annotations"]);
    let phase = text(status, "phase");
    match text(metadata, "deletionTimestamp") {
        time if !time.is_empty() && phase != "Failed" && phase != "Succeeded" => {
            sheet.field(0, "Status", &format!("Terminating (lasts {})", sheet.since(time)));
            let seconds = number(metadata, "deletionGracePeriodSeconds");
            sheet.field(0, "Termination Grace Period", &format!("{seconds}s"));
        }
        _ => sheet.field(0, "Status", phase),
    }
    sheet.optional(0, "Reason", text(status, "reason"));
    sheet.optional(0, "Message", text(status, "message"));
    let seccomp = &spec["securityContext"]["seccompProfile"];
    sheet.optional(0, "SeccompProfile", text(seccomp, "type"));
    sheet.field(0, "IP", text(status, "podIP"));
    addresses(sheet, list(status, "podIPs"));
    let owner = list(metadata, "ownerReferences").iter().find(|it| flag(it, "controller"));
    if let Some(owner) = owner {
        let owner = format!("{}/{}", text(owner, "kind"), text(owner, "name"));
        sheet.field(0, "Controlled By", &owner);
    }
    sheet.optional(0, "NominatedNodeName", text(status, "nominatedNodeName"));
    for (title, field, statuses) in [
        ("Init Containers", "initContainers", "initContainerStatuses"),
        ("Containers", "containers", "containerStatuses"),
        ("Ephemeral Containers", "ephemeralContainers", "ephemeralContainerStatuses"),
    ] {
        if field == "containers" || !list(spec, field).is_empty() {
            container::describe(sheet, title, list(spec, field), list(status, statuses), "");
        }
    }
    conditions(sheet, status);
    volume::describe(sheet, list(spec, "volumes"), "");
    sheet.field(0, "QoS Class", text(status, "qosClass"));
    sheet.labels("Node-Selectors", &spec["nodeSelector"]);
    sheet.lines("Tolerations", &tolerations(spec));
    true
}

fn addresses(sheet: &mut Sheet, addresses: &[Value]) {
    if addresses.is_empty() {
        return sheet.field(0, "IPs", "<none>");
    }
    sheet.line(0, "IPs:");
    for it in addresses {
        sheet.field(1, "IP", text(it, "ip"));
    }
}

fn conditions(sheet: &mut Sheet, status: &Value) {
    let conditions = list(status, "conditions");
    if conditions.is_empty() {
        return;
    }
    sheet.line(0, "Conditions:");
    sheet.line(1, "Type\tStatus");
    for it in conditions {
        sheet.line(1, &format!("{} \t{} ", text(it, "type"), text(it, "status")));
    }
}

/// Describes the template of a workload's pods.
pub(super) fn pod_template(sheet: &mut Sheet, template: &Value) {
    let (metadata, spec) = (&template["metadata"], &template["spec"]);
    sheet.line(0, "Pod Template:");
    sheet.labels("  Labels", &metadata["labels"]);
    if metadata["annotations"].as_object().is_some_and(|it| !it.is_empty()) {
        sheet.annotations("  Annotations", &metadata["annotations"]);
    }
    sheet.optional(1, "Service Account", text(spec, "serviceAccountName"));
    if !list(spec, "initContainers").is_empty() {
        container::describe(sheet, "Init Containers", list(spec, "initContainers"), &[], "  ");
    }
    container::describe(sheet, "Containers", list(spec, "containers"), &[], "  ");
    volume::describe(sheet, list(spec, "volumes"), "  ");
    sheet.optional(1, "Priority Class Name", text(spec, "priorityClassName"));
    sheet.labels("  Node-Selectors", &spec["nodeSelector"]);
    sheet.lines("  Tolerations", &tolerations(spec));
}

/// A line for each toleration, sorted by key.
fn tolerations(spec: &Value) -> Vec<String> {
    let mut tolerations: Vec<&Value> = list(spec, "tolerations").iter().collect();
    tolerations.sort_by_key(|it| text(it, "key"));
    let line = |it: &&Value| {
        let mut line = text(it, "key").to_owned();
        if !text(it, "value").is_empty() {
            line.push_str(&format!("={}", text(it, "value")));
        }
        if !text(it, "effect").is_empty() {
            line.push_str(&format!(":{}", text(it, "effect")));
        }
        if text(it, "operator") == "Exists" && text(it, "value").is_empty() {
            line.push_str(if line.is_empty() { "op=Exists" } else { " op=Exists" });
        }
        if it["tolerationSeconds"].is_number() {
            line.push_str(&format!(" for {}s", number(it, "tolerationSeconds")));
        }
        line
    };
    tolerations.iter().map(line).collect()
}
