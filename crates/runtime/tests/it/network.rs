//! Over TLS and HTTP/2: more watches than a connection has streams for, and a proxy in between.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use k8s_openapi::api::core::v1::ConfigMap;

use crate::controlling::get;
use crate::proxy::Proxy;
use crate::world::{Running, World, options, until};
use informer::{ListRequest, ListWatch, Scope, WatchRequest};
use machinery::{GroupKind, GroupVersion, GroupVersionKind};
use runtime::client::config::Config;
use runtime::client::{ClientListWatch, Mapping, RestMapper, RestMapperError};
use runtime::keel::Clock;
use runtime::{Client, Manager, ManagerOptions, client};
use testenv::TestEnv;

async fn connected() -> (World, Client) {
    let (world, config) = listening().await;
    (world, client::connect(config, &Clock::system()).unwrap())
}

async fn listening() -> (World, Config) {
    let world = World::with(TestEnv::builder().listen()).await;
    let url = format!("https://{}", world.env.server().address().unwrap());
    let admin = world.env.server().admin().unwrap();
    let mut config = Config::new(url.parse().unwrap());
    config.root_cert = Some(vec![der(&world.env.server().authority())]);
    config.auth_info.client_certificate_data = Some(BASE64_STANDARD.encode(&admin.certificate));
    config.auth_info.client_key_data = Some(BASE64_STANDARD.encode(&admin.key).into());
    (world, config)
}

fn der(pem: &str) -> Vec<u8> {
    let lines = pem.lines().filter(|line| !line.starts_with("-----"));
    BASE64_STANDARD.decode(lines.collect::<String>()).unwrap()
}

#[tokio::test]
async fn hundreds_of_watches_do_not_block_other_requests() {
    let (_world, client) = connected().await;
    let maps = Scope::all(GroupVersion::new("", "v1"), "configmaps");
    let source = ClientListWatch::new(client, &maps);
    let version = source.list(ListRequest::default()).await.unwrap().resource_version;
    let mut watches = Vec::new();
    for _ in 0..250 {
        let request = WatchRequest {
            resource_version: Some(version.clone()),
            timeout_seconds: Some(600),
            ..WatchRequest::default()
        };
        watches.push(source.watch(request).await.unwrap());
    }
    assert!(source.list(ListRequest::default()).await.is_ok());
    drop(watches);
}

#[tokio::test]
async fn a_kind_is_found_after_its_crd_was_created() {
    let (world, client) = connected().await;
    let clock = Clock::manual(keel::Timestamp::from_seconds(0));
    let mapper = RestMapper::new(client, &clock);
    let thing = GroupVersionKind::new("example.com", "v1", "Thing");
    world.delete_crd().await;
    let missed = mapper.mapping(&thing).await.unwrap_err();
    assert!(matches!(missed, RestMapperError::NoKindMatch(_)), "{missed}");
    world.install_crd().await;
    clock.advance(std::time::Duration::from_secs(1));
    let expected = Mapping { kind: thing, resource: "things".to_owned(), is_namespaced: true };
    assert_eq!(mapper.preferred(&GroupKind::new("example.com", "Thing")).await.unwrap(), expected);
    let pod = mapper.mapping(&GroupVersionKind::new("", "v1", "Pod")).await.unwrap();
    assert_eq!(pod.resource, "pods");
}

#[tokio::test]
async fn a_proxy_connects_to_the_server_without_reading_the_requests() {
    let (world, mut config) = listening().await;
    let server = world.env.server().address().unwrap();
    let proxy = Proxy::http(server, "").await;
    config.proxy_url = Some(format!("http://{}", proxy.address).parse().unwrap());
    let client = client::connect(config, &Clock::system()).unwrap();
    let maps = Scope::all(GroupVersion::new("", "v1"), "configmaps");
    let source = ClientListWatch::new(client, &maps);
    for _ in 0..3 {
        assert!(source.list(ListRequest::default()).await.is_ok());
    }
    let requested = proxy.requested.lock().unwrap().clone();
    assert_eq!(requested, [server.to_string()], "one tunnel, with TLS and HTTP/2 in it");
}

#[tokio::test]
async fn requests_are_counted_with_the_host_that_responds() {
    let (world, client) = connected().await;
    let endpoint = Some("127.0.0.1:0".parse().unwrap());
    let manager = Manager::new(client, ManagerOptions { endpoint, ..options() });
    drop(manager.lister::<ConfigMap>());
    let running = Running::start(&manager);
    let address = manager.endpoint().await.unwrap();
    let host = world.env.server().address().unwrap();
    let counted =
        format!("rest_client_requests_total{{code=\"200\",host=\"{host}\",method=\"GET\"}}");
    until("the list is counted", async || get(address, "/metrics").await.contains(&counted)).await;
    running.stop().await;
}
