//! The kubeconfig of a plane that listens.

use base64::prelude::{BASE64_STANDARD, Engine};

use apiserver::Server;
use machinery::codec::yaml;
use machinery::json;

/// A kubeconfig with one context.
pub(crate) fn render(server: &Server) -> String {
    let address = server.address().expect("the plane listens");
    let admin = server.admin().expect("the authority of the plane signs a certificate");
    let kubeconfig = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "testenv", "cluster": {
            "server": format!("https://{address}"),
            "certificate-authority-data": BASE64_STANDARD.encode(server.authority()),
        }}],
        "users": [{"name": "admin", "user": {
            "client-certificate-data": BASE64_STANDARD.encode(&admin.certificate),
            "client-key-data": BASE64_STANDARD.encode(&admin.key),
        }}],
        "contexts": [{"name": "testenv", "context": {"cluster": "testenv", "user": "admin"}}],
        "current-context": "testenv",
    });
    yaml::encode(&kubeconfig)
}
