//! Requests of a client that supports only protobuf, through the in-process client.

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use tower_service::Service;

use crate::InProcessClient;
use crate::config::{Config, StoreConfig};
use crate::http::body::Body;
use crate::server::Server;
use machinery::{Value, json};
use types::protobuf::{self, Envelope};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const METADATA: &str =
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

struct Client {
    server: Server,
    client: InProcessClient,
}

impl Client {
    async fn start() -> Self {
        let config = Config { listen: None, store: StoreConfig::Memory, ..Config::default() };
        let server = Server::start(config).await.unwrap();
        Self { client: server.in_process_client(), server }
    }

    async fn send(
        &mut self,
        method: Method,
        path: &str,
        accept: &str,
        body: Vec<u8>,
    ) -> Response<Body> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(ACCEPT, accept)
            .header(CONTENT_TYPE, protobuf::MEDIA_TYPE)
            .body(Full::new(Bytes::from(body)));
        self.client.call(request.unwrap()).await.unwrap()
    }

    /// The status code and the object of a response, which must be in protobuf.
    async fn request(&mut self, method: Method, path: &str, body: Vec<u8>) -> (u16, Value) {
        let response = self.send(method, path, protobuf::MEDIA_TYPE, body).await;
        assert_eq!(response.headers()[CONTENT_TYPE], protobuf::MEDIA_TYPE);
        let code = response.status().as_u16();
        (code, decode_envelope(&response.into_body().collect().await.unwrap().to_bytes()))
    }

    async fn create(&mut self, name: &str) -> (u16, Value) {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
            "data": {"k": "v"}});
        self.request(Method::POST, CONFIG_MAPS, protobuf::encode(&map).unwrap()).await
    }

    async fn stop(self) {
        self.server.stop().await.unwrap();
    }
}

/// Decodes an object in its envelope.
fn decode_envelope(bytes: &[u8]) -> Value {
    let Envelope { api_version, kind, raw } = Envelope::read(bytes).unwrap();
    let ty = types::of_kind(&api_version, &kind)
        .or_else(|| types::of_kind("meta.k8s.io/v1", &kind))
        .unwrap();
    let mut object = protobuf::decode(ty, raw).unwrap();
    object.insert("kind".to_owned(), kind.into());
    Value::Object(object)
}

/// Removes the first event from the bytes of a watch, if it is complete.
fn next_event(bytes: &mut Vec<u8>) -> Option<(String, Value)> {
    let (length, rest) = bytes.split_first_chunk()?;
    let length = u32::from_be_bytes(*length) as usize;
    let event = rest.get(..length)?;
    // {type (1), object (2): {raw (1)}}: the object begins with its magic bytes.
    let type_end = 2 + usize::from(event[1]);
    let event_type = String::from_utf8(event[2..type_end].to_vec()).unwrap();
    let object_at = event.windows(4).position(|it| it == b"k8s\0").unwrap();
    let object = decode_envelope(&event[object_at..]);
    bytes.drain(..4 + length);
    Some((event_type, object))
}

#[tokio::test]
async fn objects_are_created_and_read_in_protobuf() {
    let mut client = Client::start().await;
    let (code, created) = client.create("a").await;
    assert_eq!(
        (code, &created["kind"], &created["data"]),
        (201, &json!("ConfigMap"), &json!({"k": "v"}))
    );
    let (code, found) = client.request(Method::GET, &format!("{CONFIG_MAPS}/a"), Vec::new()).await;
    assert_eq!((code, found), (200, created));
    let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "dryRun": ["All"]});
    let options = protobuf::encode(&options).unwrap();
    let (code, status) = client.request(Method::DELETE, &format!("{CONFIG_MAPS}/a"), options).await;
    assert_eq!((code, &status["status"]), (200, &json!("Success")));
    let (code, _) = client.request(Method::GET, &format!("{CONFIG_MAPS}/a"), Vec::new()).await;
    assert_eq!(code, 200, "the deletion was a dry run");
    client.stop().await;
}

#[tokio::test]
async fn a_failure_is_in_protobuf() {
    let mut client = Client::start().await;
    client.create("a").await;
    let (code, status) = client.create("a").await;
    assert_eq!(
        (code, &status["kind"], &status["reason"]),
        (409, &json!("Status"), &json!("AlreadyExists"))
    );
    let (code, status) = client.request(Method::POST, CONFIG_MAPS, b"{}".to_vec()).await;
    assert_eq!((code, &status["reason"]), (400, &json!("BadRequest")));
    client.stop().await;
}

#[tokio::test]
async fn lists_of_objects_and_of_metadata_are_in_protobuf() {
    let mut client = Client::start().await;
    client.create("a").await;
    client.create("b").await;
    let (_, list) = client.request(Method::GET, CONFIG_MAPS, Vec::new()).await;
    assert_eq!(list["kind"], "ConfigMapList");
    assert_eq!(list["items"][1]["metadata"]["name"], "b");
    assert_eq!(list["items"][1]["data"], json!({"k": "v"}));
    assert_eq!(
        list["metadata"]["resourceVersion"],
        list["items"][1]["metadata"]["resourceVersion"]
    );
    let response = client.send(Method::GET, CONFIG_MAPS, METADATA, Vec::new()).await;
    let metadata = decode_envelope(&response.into_body().collect().await.unwrap().to_bytes());
    assert_eq!(metadata["kind"], "PartialObjectMetadataList");
    assert_eq!(metadata["items"][0], json!({"metadata": list["items"][0]["metadata"]}));
    client.stop().await;
}

#[tokio::test]
async fn a_watch_is_a_sequence_of_events_with_length_prefixes() {
    let mut client = Client::start().await;
    client.create("a").await;
    let path = format!(
        "{CONFIG_MAPS}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    );
    let response = client.send(Method::GET, &path, protobuf::MEDIA_TYPE, Vec::new()).await;
    let stream = "application/vnd.kubernetes.protobuf;stream=watch";
    assert_eq!(response.headers()[CONTENT_TYPE], stream);
    let mut body = response.into_body();
    let mut bytes = Vec::new();
    let mut events = Vec::new();
    while events.len() < 2 {
        bytes.extend(body.frame().await.unwrap().unwrap().into_data().unwrap());
        while let Some(event) = next_event(&mut bytes) {
            events.push(event);
        }
    }
    let [(added, object), (bookmark, end)] = events.try_into().unwrap();
    assert_eq!((added.as_str(), bookmark.as_str()), ("ADDED", "BOOKMARK"));
    assert_eq!(object["metadata"]["name"], "a");
    assert_eq!(end["metadata"]["annotations"], json!({"k8s.io/initial-events-end": "true"}));
    client.stop().await;
}
