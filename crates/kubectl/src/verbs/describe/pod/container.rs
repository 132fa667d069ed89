//! Containers with their state, resources, probes, environment and mounts.

use super::super::sheet::{Sheet, date};
use crate::print::template::plain_text;
use machinery::Value;
use machinery::fields::{entries, flag, list, number, text};

/// Describes a list of containers. `space` is the indentation of a template.
pub(super) fn describe(
    sheet: &mut Sheet,
    title: &str,
    containers: &[Value],
    statuses: &[Value],
    space: &str,
) {
    let none = if containers.is_empty() { " <none>" } else { "" };
    sheet.line(0, &format!("{space}{title}:{none}"));
    let indent = if space.is_empty() { "" } else { " " };
    for container in containers {
        let status = statuses.iter().find(|it| text(it, "name") == text(container, "name"));
        sheet.line(1, &format!("{indent}{}:", text(container, "name")));
        basics(sheet, container, status);
        commands(sheet, container);
        if let Some(status) = status {
            state(sheet, "State", &status["state"]);
            if status["lastState"]["terminated"].is_object() {
                state(sheet, "Last State", &status["lastState"]);
            }
            sheet.field(2, "Ready", if flag(status, "ready") { "True" } else { "False" });
            sheet.field(2, "Restart Count", &number(status, "restartCount").to_string());
        }
        for (title, field) in [("Limits", "limits"), ("Requests", "requests")] {
            resources(sheet, title, &container["resources"], field);
        }
        for (title, field) in [
            ("Liveness", "livenessProbe"),
            ("Readiness", "readinessProbe"),
            ("Startup", "startupProbe"),
        ] {
            if container[field].is_object() {
                sheet.field(2, title, &probe(&container[field]));
            }
        }
        environment(sheet, container);
        mounts(sheet, container);
    }
}

fn basics(sheet: &mut Sheet, container: &Value, status: Option<&Value>) {
    if let Some(status) = status {
        sheet.field(2, "Container ID", text(status, "containerID"));
    }
    sheet.field(2, "Image", text(container, "image"));
    if let Some(status) = status {
        sheet.field(2, "Image ID", text(status, "imageID"));
    }
    for (title, field) in [("Port", "containerPort"), ("Host Port", "hostPort")] {
        let ports: Vec<String> = list(container, "ports")
            .iter()
            .map(|it| {
                let port = format!("{}/{}", number(it, field), text(it, "protocol"));
                match text(it, "name") {
                    "" => port,
                    name => format!("{port} ({name})"),
                }
            })
            .collect();
        match ports.len() {
            0 => sheet.field(2, title, "<none>"),
            1 => sheet.field(2, title, &ports[0]),
            _ => sheet.field(2, &format!("{title}s"), &ports.join(", ")),
        }
    }
    let seccomp = &container["securityContext"]["seccompProfile"];
    sheet.optional(2, "SeccompProfile", text(seccomp, "type"));
}

fn commands(sheet: &mut Sheet, container: &Value) {
    for (title, field) in [("Command", "command"), ("Args", "args")] {
        let words = list(container, field);
        if words.is_empty() {
            continue;
        }
        sheet.line(2, &format!("{title}:"));
        for line in words.iter().flat_map(|it| it.as_str().unwrap_or_default().split('\n')) {
            sheet.line(3, line);
        }
    }
}

fn state(sheet: &mut Sheet, title: &str, state: &Value) {
    let (running, terminated) = (&state["running"], &state["terminated"]);
    if running.is_object() {
        sheet.field(2, title, "Running");
        sheet.field(3, "Started", &date(text(running, "startedAt")));
    } else if terminated.is_object() {
        sheet.field(2, title, "Terminated");
        sheet.optional(3, "Reason", text(terminated, "reason"));
        sheet.optional(3, "Message", text(terminated, "message"));
        sheet.field(3, "Exit Code", &number(terminated, "exitCode").to_string());
        if number(terminated, "signal") > 0 {
            sheet.field(3, "Signal", &number(terminated, "signal").to_string());
        }
        sheet.field(3, "Started", &date(text(terminated, "startedAt")));
        sheet.field(3, "Finished", &date(text(terminated, "finishedAt")));
    } else {
        sheet.field(2, title, "Waiting");
        sheet.optional(3, "Reason", text(&state["waiting"], "reason"));
    }
}

fn resources(sheet: &mut Sheet, title: &str, resources: &Value, field: &str) {
    if entries(resources, field).next().is_none() {
        return;
    }
    sheet.line(2, &format!("{title}:"));
    for (name, amount) in entries(resources, field) {
        sheet.field(3, name, &plain_text(amount));
    }
}

fn probe(probe: &Value) -> String {
    let count = |field, default| probe[field].as_i64().unwrap_or(default);
    let attributes = format!(
        "delay={}s timeout={}s period={}s #success={} #failure={}",
        count("initialDelaySeconds", 0),
        count("timeoutSeconds", 1),
        count("periodSeconds", 10),
        count("successThreshold", 1),
        count("failureThreshold", 3)
    );
    let (exec, http, tcp, grpc) =
        (&probe["exec"], &probe["httpGet"], &probe["tcpSocket"], &probe["grpc"]);
    if exec.is_object() {
        let words: Vec<String> = list(exec, "command").iter().map(plain_text).collect();
        format!("exec [{}] {attributes}", words.join(" "))
    } else if http.is_object() {
        let scheme = text(http, "scheme").to_lowercase();
        let (host, port) = (text(http, "host"), plain_text(&http["port"]));
        let path = text(http, "path");
        format!("http-get {scheme}://{host}:{port}{path} {attributes}")
    } else if tcp.is_object() {
        format!("tcp-socket {}:{} {attributes}", text(tcp, "host"), plain_text(&tcp["port"]))
    } else if grpc.is_object() {
        format!("grpc <pod>:{} {} {attributes}", number(grpc, "port"), text(grpc, "service"))
    } else {
        format!("unknown {attributes}")
    }
}

fn environment(sheet: &mut Sheet, container: &Value) {
    let sources = list(container, "envFrom");
    if !sources.is_empty() {
        sheet.line(2, "Environment Variables from:");
    }
    for source in sources {
        let (kind, reference) = match &source["configMapRef"] {
            Value::Null => ("Secret", &source["secretRef"]),
            reference => ("ConfigMap", reference),
        };
        let kind = match text(source, "prefix") {
            "" => kind.to_owned(),
            prefix => format!("{kind} with prefix '{prefix}'"),
        };
        let optional = flag(reference, "optional");
        sheet.line(3, &format!("{}\t{kind}\tOptional: {optional}", text(reference, "name")));
    }
    let variables = list(container, "env");
    let none = if variables.is_empty() { "\t<none>" } else { "" };
    sheet.line(2, &format!("Environment:{none}"));
    for variable in variables {
        sheet.line(3, &format!("{}:\t{}", text(variable, "name"), value(variable)));
    }
}

fn value(variable: &Value) -> String {
    let from = &variable["valueFrom"];
    let (field, resource) = (&from["fieldRef"], &from["resourceFieldRef"]);
    let (secret, map) = (&from["secretKeyRef"], &from["configMapKeyRef"]);
    if field.is_object() {
        format!(" ({}:{})", text(field, "apiVersion"), text(field, "fieldPath"))
    } else if resource.is_object() {
        format!(" ({})", text(resource, "resource"))
    } else if secret.is_object() {
        let (key, name) = (text(secret, "key"), text(secret, "name"));
        let optional = flag(secret, "optional");
        format!("<set to the key '{key}' in secret '{name}'>\tOptional: {optional}")
    } else if map.is_object() {
        let (key, name) = (text(map, "key"), text(map, "name"));
        let optional = flag(map, "optional");
        format!("<set to the key '{key}' of config map '{name}'>\tOptional: {optional}")
    } else {
        text(variable, "value").replace('\n', "\n      \t")
    }
}

fn mounts(sheet: &mut Sheet, container: &Value) {
    let mut mounts: Vec<&Value> = list(container, "volumeMounts").iter().collect();
    mounts.sort_by_key(|it| text(it, "mountPath"));
    let none = if mounts.is_empty() { "\t<none>" } else { "" };
    sheet.line(2, &format!("Mounts:{none}"));
    for mount in mounts {
        let mut flags = if flag(mount, "readOnly") { "ro" } else { "rw" }.to_owned();
        if !text(mount, "subPath").is_empty() {
            flags.push_str(&format!(",path={:?}", text(mount, "subPath")));
        }
        let (path, name) = (text(mount, "mountPath"), text(mount, "name"));
        sheet.line(3, &format!("{path} from {name} ({flags})"));
    }
    let devices = list(container, "volumeDevices");
    if !devices.is_empty() {
        sheet.line(2, &format!("Devices:{none}"));
    }
    for device in devices {
        let (path, name) = (text(device, "devicePath"), text(device, "name"));
        sheet.line(3, &format!("{path} from {name}"));
    }
}
