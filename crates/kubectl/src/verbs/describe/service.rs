//! Services, with their endpoints.

use super::sheet::Sheet;
use crate::error::Error;
use crate::lists::with_query;
use crate::print::table::labels_text;
use crate::session::Session;
use machinery::fields::{list, number, text, texts};
use machinery::{Value, json};

/// The number of addresses that are shown.
const ADDRESSES_MAX: usize = 3;

/// The endpoint slices of a service.
pub(super) async fn endpoint_slices(
    session: &Session,
    service: &Value,
) -> Result<Vec<Value>, Error> {
    let metadata = &service["metadata"];
    let namespace = text(metadata, "namespace");
    let path = format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices");
    let selector = format!("kubernetes.io/service-name={}", text(metadata, "name"));
    match session.get(&with_query(&path, &[("labelSelector", selector)])).await {
        Ok(found) => Ok(list(&found, "items").to_vec()),
        Err(Error::Server(_)) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Describes a service; whether its events are wanted.
pub(super) fn describe(sheet: &mut Sheet, object: &Value, slices: &[Value]) -> bool {
    sheet.head(object);
    let spec = &object["spec"];
    sheet.field(0, "Selector", &labels_text(&json!({"labels": spec["selector"]})));
    sheet.field(0, "Type", text(spec, "type"));
    sheet.optional(0, "IP Family Policy", text(spec, "ipFamilyPolicy"));
    let joined = |field: &str| {
        let values: Vec<&str> = texts(spec, field).collect();
        if values.is_empty() { "<none>".to_owned() } else { values.join(",") }
    };
    sheet.field(0, "IP Families", &joined("ipFamilies"));
    sheet.field(0, "IP", text(spec, "clusterIP"));
    sheet.field(0, "IPs", &joined("clusterIPs"));
    if !list(spec, "externalIPs").is_empty() {
        sheet.field(0, "External IPs", &joined("externalIPs"));
    }
    sheet.optional(0, "Desired LoadBalancer IP", text(spec, "loadBalancerIP"));
    sheet.optional(0, "External Name", text(spec, "externalName"));
    let ingress: Vec<&str> = list(&object["status"]["loadBalancer"], "ingress")
        .iter()
        .map(|it| if text(it, "ip").is_empty() { text(it, "hostname") } else { text(it, "ip") })
        .collect();
    sheet.optional(0, "LoadBalancer Ingress", &ingress.join(", "));
    for port in list(spec, "ports") {
        ports(sheet, port, slices);
    }
    sheet.field(0, "Session Affinity", text(spec, "sessionAffinity"));
    sheet.optional(0, "External Traffic Policy", text(spec, "externalTrafficPolicy"));
    sheet.optional(0, "Internal Traffic Policy", text(spec, "internalTrafficPolicy"));
    if number(spec, "healthCheckNodePort") != 0 {
        let port = number(spec, "healthCheckNodePort").to_string();
        sheet.field(0, "HealthCheck NodePort", &port);
    }
    if !list(spec, "loadBalancerSourceRanges").is_empty() {
        sheet.field(0, "LoadBalancer Source Ranges", &joined("loadBalancerSourceRanges"));
    }
    sheet.optional(0, "Traffic Distribution", text(spec, "trafficDistribution"));
    true
}

fn ports(sheet: &mut Sheet, port: &Value, slices: &[Value]) {
    let name = match text(port, "name") {
        "" => "<unset>",
        name => name,
    };
    let protocol = text(port, "protocol");
    sheet.line(0, &format!("Port:\t{name}\t{}/{protocol}", number(port, "port")));
    let target = match &port["targetPort"] {
        Value::String(name) => name.clone(),
        other => other.to_string(),
    };
    sheet.field(0, "TargetPort", &format!("{target}/{protocol}"));
    sheet.optional(0, "AppProtocol", text(port, "appProtocol"));
    let node_port = number(port, "nodePort");
    if node_port != 0 {
        sheet.line(0, &format!("NodePort:\t{name}\t{node_port}/{protocol}"));
    }
    sheet.field(0, "Endpoints", &endpoints(text(port, "name"), slices));
}

/// The addresses that are ready, for the port of this name.
fn endpoints(port_name: &str, slices: &[Value]) -> String {
    if slices.is_empty() {
        return "<none>".to_owned();
    }
    let mut addresses = Vec::new();
    for slice in slices {
        for port in list(slice, "ports").iter().filter(|it| text(it, "name") == port_name) {
            for endpoint in list(slice, "endpoints") {
                if endpoint["conditions"]["ready"] == false {
                    continue;
                }
                let number = number(port, "port");
                let with_port = |address: &str| {
                    let shown = if address.contains(':') {
                        format!("[{address}]")
                    } else {
                        address.to_owned()
                    };
                    format!("{shown}:{number}")
                };
                addresses.extend(texts(endpoint, "addresses").map(with_port));
            }
        }
    }
    let more = addresses.len().saturating_sub(ADDRESSES_MAX);
    addresses.truncate(ADDRESSES_MAX);
    let joined = addresses.join(",");
    if more > 0 { format!("{joined} + {more} more...") } else { joined }
}
