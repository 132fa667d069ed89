//! Lists: pages, revisions, selectors.

use std::time::Duration;

use crate::objects::{CONFIG_MAPS, THINGS, any_schema, config_map, labeled, thing, thing_crd};
use machinery::{Value, json};
use testenv::TestEnv;

/// The names in a list, in the order of the list.
fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().unwrap();
    items.iter().map(|it| it["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

fn text<'a>(list: &'a Value, field: &str) -> &'a str {
    list["metadata"][field].as_str().unwrap_or_default()
}

#[tokio::test]
async fn pages_are_consistent_during_writes() {
    let plane = TestEnv::start().await;
    for index in 0..7 {
        plane.create(CONFIG_MAPS, &config_map(&format!("m{index}"), &json!({"k": "old"}))).await;
    }
    let whole = plane.read(CONFIG_MAPS).await;
    let mut page = plane.read(&format!("{CONFIG_MAPS}?limit=3")).await;
    assert_eq!(page["metadata"]["remainingItemCount"], 4);
    let mut items = Vec::new();
    loop {
        let revision = text(&page, "resourceVersion");
        assert_eq!(revision, text(&whole, "resourceVersion"));
        items.extend(page["items"].as_array().unwrap().clone());
        let token = text(&page, "continue").to_owned();
        if token.is_empty() {
            break;
        }
        let turn = items.len();
        plane.create(CONFIG_MAPS, &config_map(&format!("m5-{turn}"), &json!({}))).await;
        plane.delete(&format!("{CONFIG_MAPS}/m{}", turn + 1)).await;
        plane.merge(&format!("{CONFIG_MAPS}/m6"), &json!({"data": {"k": turn.to_string()}})).await;
        page = plane.read(&format!("{CONFIG_MAPS}?limit=3&continue={token}")).await;
    }
    assert_eq!(json!(items), whole["items"]);
    assert_ne!(plane.read(CONFIG_MAPS).await["items"], whole["items"]);
}

#[tokio::test]
async fn a_limit_counts_selected_objects() {
    let plane = TestEnv::start().await;
    for index in 0..6 {
        let tier = if index % 2 == 0 { "front" } else { "back" };
        plane.create(CONFIG_MAPS, &labeled(&format!("m{index}"), "tier", tier)).await;
    }
    let path = format!("{CONFIG_MAPS}?labelSelector=tier%3Dfront&limit=2");
    let first = plane.read(&path).await;
    assert_eq!(names(&first), ["m0", "m2"]);
    assert_eq!(
        first["metadata"].get("remainingItemCount"),
        None,
        "with a selector, the remaining items are not counted"
    );
    let rest = plane.read(&format!("{path}&continue={}", text(&first, "continue"))).await;
    assert_eq!((names(&rest), text(&rest, "continue")), (vec!["m4".to_owned()], ""));
}

#[tokio::test]
async fn a_list_at_an_exact_revision_shows_an_earlier_state() {
    let plane = TestEnv::start().await;
    plane.create(CONFIG_MAPS, &config_map("a", &json!({"k": "old"}))).await;
    plane.create(CONFIG_MAPS, &config_map("b", &json!({}))).await;
    let before = plane.read(CONFIG_MAPS).await;
    plane.delete(&format!("{CONFIG_MAPS}/b")).await;
    plane.merge(&format!("{CONFIG_MAPS}/a"), &json!({"data": {"k": "new"}})).await;
    let last = plane.create(CONFIG_MAPS, &config_map("c", &json!({}))).await;
    let (revision, last) = (text(&before, "resourceVersion"), text(&last, "resourceVersion"));
    let exact = format!("{CONFIG_MAPS}?resourceVersion={revision}&resourceVersionMatch=Exact");
    assert_eq!(plane.read(&exact).await, before);
    let newer = format!("{CONFIG_MAPS}?resourceVersion={last}&resourceVersionMatch=NotOlderThan");
    assert_eq!(names(&plane.read(&newer).await), ["a", "c"]);
}

#[tokio::test]
async fn a_list_at_a_future_revision_waits_for_it() {
    let plane = TestEnv::start().await;
    let now: u64 = text(&plane.read(CONFIG_MAPS).await, "resourceVersion").parse().unwrap();
    let path =
        format!("{CONFIG_MAPS}?resourceVersion={}&resourceVersionMatch=NotOlderThan", now + 1);
    let object = config_map("a", &json!({}));
    let (list, _) = tokio::join!(plane.read(&path), plane.create(CONFIG_MAPS, &object));
    assert_eq!(names(&list), ["a"]);
}

/// Advances the clock by five minutes, and lets other tasks run, so that the compaction that is due
/// then happens.
async fn pass_five_minutes(plane: &TestEnv) {
    plane.advance(Duration::from_mins(5));
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_continue_token_expires_after_five_to_ten_minutes() {
    let plane = TestEnv::start().await;
    for name in ["a", "b"] {
        plane.create(CONFIG_MAPS, &config_map(name, &json!({"k": "old"}))).await;
    }
    pass_five_minutes(&plane).await;
    let first = plane.read(&format!("{CONFIG_MAPS}?limit=1")).await;
    let path = format!("{CONFIG_MAPS}?limit=1&continue={}", text(&first, "continue"));
    plane.merge(&format!("{CONFIG_MAPS}/b"), &json!({"data": {"k": "new"}})).await;
    pass_five_minutes(&plane).await;
    assert_eq!(plane.read(&path).await["items"][0]["data"]["k"], "old");
    pass_five_minutes(&plane).await;
    let (code, status) = plane.get(&path).await;
    assert_eq!((code, &status["reason"]), (410, &json!("Expired")), "{status}");
    let message = status["message"].as_str().unwrap();
    assert!(message.starts_with("The provided continue parameter is too old"), "{message}");
    let rest = format!("{CONFIG_MAPS}?limit=1&continue={}", text(&status, "continue"));
    assert_eq!(plane.read(&rest).await["items"][0]["data"]["k"], "new");
}

#[tokio::test]
async fn a_continue_token_expires_though_its_list_has_not_changed() {
    let plane = TestEnv::start().await;
    for name in ["a", "b"] {
        plane.create(CONFIG_MAPS, &config_map(name, &json!({}))).await;
    }
    let first = plane.read(&format!("{CONFIG_MAPS}?limit=1")).await;
    let path = format!("{CONFIG_MAPS}?limit=1&continue={}", text(&first, "continue"));
    pass_five_minutes(&plane).await;
    // Without any write the revision of the token is still the present one.
    pass_five_minutes(&plane).await;
    assert_eq!(plane.get(&path).await.0, 200);
    plane.create("/api/v1/namespaces", &json!({"metadata": {"name": "other"}})).await;
    pass_five_minutes(&plane).await;
    assert_eq!(plane.get(&path).await.0, 200);
    pass_five_minutes(&plane).await;
    let (code, status) = plane.get(&path).await;
    assert_eq!((code, &status["reason"]), (410, &json!("Expired")), "{status}");
    let rest = plane.read(&format!("{CONFIG_MAPS}?continue={}", text(&status, "continue"))).await;
    assert_eq!(names(&rest), ["b"]);
    assert_ne!(text(&rest, "resourceVersion"), text(&first, "resourceVersion"));
}

#[tokio::test]
async fn an_expired_token_comes_with_a_token_for_an_inconsistent_list() {
    let plane = TestEnv::start().await;
    plane.install_crd(&thing_crd(&any_schema())).await;
    for name in ["a", "b", "c"] {
        plane.create(THINGS, &thing(name, &json!({}))).await;
    }
    let first = plane.read(&format!("{THINGS}?limit=1")).await;
    let (token, revision) = (text(&first, "continue"), text(&first, "resourceVersion"));
    // The server retains the snapshots of the last 64 paginated lists beyond the event log.
    for turn in 0..64 {
        plane.merge(&format!("{THINGS}/b"), &json!({"spec": {"turn": turn}})).await;
        plane.read(&format!("{THINGS}?limit=1")).await;
    }
    crate::watch::overflow_event_log(&plane).await;

    let (code, status) = plane.get(&format!("{THINGS}?limit=1&continue={token}")).await;
    assert_eq!((code, &status["reason"]), (410, &json!("Expired")));
    let other = text(&status, "continue");
    let rest = plane.read(&format!("{THINGS}?limit=1&continue={other}")).await;
    assert_eq!(names(&rest), ["b"]);
    assert_eq!(rest["items"][0]["spec"]["turn"], 63, "it is the current object");
    assert_ne!(text(&rest, "resourceVersion"), revision);

    let exact = format!("{THINGS}?resourceVersion={revision}&resourceVersionMatch=Exact");
    let (code, status) = plane.get(&exact).await;
    assert_eq!((code, &status["reason"]), (410, &json!("Expired")));
}

#[tokio::test]
async fn conflicting_list_options_are_refused() {
    let plane = TestEnv::start().await;
    for (query, expected) in [
        ("resourceVersionMatch=Exact", 422),
        ("resourceVersionMatch=Exact&resourceVersion=0", 422),
        ("resourceVersionMatch=Nonsense&resourceVersion=1", 422),
        ("sendInitialEvents=true", 422),
        ("continue=nonsense", 400),
        ("limit=many", 400),
        ("resourceVersion=young", 400),
        ("labelSelector=a+b", 400),
        ("fieldSelector=data.k%3Dv", 400),
    ] {
        let (code, status) = plane.get(&format!("{CONFIG_MAPS}?{query}")).await;
        assert_eq!(code, expected, "{query}: {status}");
    }
}

#[tokio::test]
async fn a_token_with_a_resource_version_is_refused() {
    let plane = TestEnv::start().await;
    for name in ["a", "b"] {
        plane.create(CONFIG_MAPS, &config_map(name, &json!({}))).await;
    }
    let page = plane.read(&format!("{CONFIG_MAPS}?limit=1")).await;
    let (token, revision) = (text(&page, "continue"), text(&page, "resourceVersion"));
    let path = format!("{CONFIG_MAPS}?limit=1&continue={token}&resourceVersion={revision}");
    assert_eq!(plane.get(&path).await.0, 400);
}

#[tokio::test]
async fn label_selectors_support_all_operators() {
    let plane = TestEnv::start().await;
    plane.create(CONFIG_MAPS, &labeled("a", "tier", "front")).await;
    plane.create(CONFIG_MAPS, &labeled("b", "tier", "back")).await;
    plane.create(CONFIG_MAPS, &labeled("c", "other", "x")).await;
    for (selector, expected) in [
        ("tier=front", "a"),
        ("tier==back", "b"),
        ("tier!=front", "b c"),
        ("tier in (front,back)", "a b"),
        ("tier notin (front)", "b c"),
        ("tier", "a b"),
        ("!tier", "c"),
        ("tier,tier!=back", "a"),
        ("tier=front,other", ""),
    ] {
        let query: String = form_urlencoded::byte_serialize(selector.as_bytes()).collect();
        let list = plane.read(&format!("{CONFIG_MAPS}?labelSelector={query}")).await;
        assert_eq!(names(&list).join(" "), expected, "{selector}");
    }
}

#[tokio::test]
async fn field_selectors_support_the_fields_of_the_kind() {
    let plane = TestEnv::start().await;
    for (name, phase) in [("one", "Running"), ("two", "Pending")] {
        let pods = "/api/v1/namespaces/default/pods";
        let pod = json!({"metadata": {"name": name},
            "spec": {"containers": [{"name": "c", "image": "i"}]}});
        plane.create(pods, &pod).await;
        let status = json!({"status": {"phase": phase}});
        plane.merge(&format!("{pods}/{name}/status"), &status).await;
    }
    for (selector, expected) in [
        ("metadata.name=one", "one"),
        ("metadata.namespace=kube-system", ""),
        ("status.phase=Running", "one"),
        ("status.phase!=Running", "two"),
        ("status.phase=Running,metadata.name=two", ""),
    ] {
        let query: String = form_urlencoded::byte_serialize(selector.as_bytes()).collect();
        let list = plane.read(&format!("/api/v1/pods?fieldSelector={query}")).await;
        assert_eq!(names(&list).join(" "), expected, "{selector}");
    }
}

#[tokio::test]
async fn a_list_of_all_namespaces_is_sorted_by_namespace() {
    let plane = TestEnv::start().await;
    for (namespace, name) in [("kube-public", "a"), ("default", "z"), ("default", "b")] {
        let path = format!("/api/v1/namespaces/{namespace}/configmaps");
        plane.create(&path, &config_map(name, &json!({}))).await;
    }
    let all = plane.read("/api/v1/configmaps").await;
    assert_eq!(names(&all)[..3], ["b", "z", "a"]);
    let page = plane.read("/api/v1/configmaps?limit=2").await;
    let rest = format!("/api/v1/configmaps?continue={}", text(&page, "continue"));
    assert_eq!(names(&plane.read(&rest).await)[0], "a");
}

#[tokio::test]
async fn a_list_at_revision_0_ignores_the_limit() {
    let plane = TestEnv::start().await;
    for name in ["a", "b"] {
        plane.create(CONFIG_MAPS, &config_map(name, &json!({}))).await;
    }
    let all = plane.read(&format!("{CONFIG_MAPS}?limit=1&resourceVersion=0")).await;
    assert_eq!(all["items"].as_array().unwrap().len(), 2);
    assert_eq!(all["metadata"].get("continue"), None);
}

#[tokio::test]
async fn pages_of_a_list_at_a_revision_have_that_revision() {
    let plane = TestEnv::start().await;
    let then = plane.create(CONFIG_MAPS, &config_map("a", &json!({}))).await;
    plane.create(CONFIG_MAPS, &config_map("b", &json!({}))).await;
    plane.read(&format!("{CONFIG_MAPS}/b")).await;
    let then = then["metadata"]["resourceVersion"].as_str().unwrap();
    let count = async |query: &str| {
        let list = plane.read(&format!("{CONFIG_MAPS}?resourceVersion={then}&{query}")).await;
        list["items"].as_array().unwrap().len()
    };
    assert_eq!(count("limit=5").await, 1);
    assert_eq!(count("limit=5&resourceVersionMatch=NotOlderThan").await, 2);
    assert_eq!(count("").await, 2);
}

#[tokio::test]
async fn the_error_of_an_unsupported_field_label_is_that_of_its_kind() {
    let plane = TestEnv::start().await;
    for (path, expect) in [
        ("/apis/batch/v1/jobs", "field label \"x\" not supported for Job"),
        (
            "/apis/resource.k8s.io/v1/resourceslices",
            "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: x",
        ),
        ("/api/v1/pods", "field label not supported: x"),
    ] {
        let (code, status) = plane.get(&format!("{path}?fieldSelector=x%3Dy")).await;
        assert_eq!((code, status["message"].as_str()), (400, Some(expect)));
    }
}

/// Creates enough config maps for a list of several chunks.
async fn create_many(plane: &TestEnv) -> usize {
    const COUNT: usize = 60;
    let text = "line \"one\"\nitems: []\n\"items\":[] ö ".repeat(100);
    for index in 0..COUNT {
        let data = json!({"k": text, "items": "", "n": index.to_string()});
        plane.create(CONFIG_MAPS, &config_map(&format!("m{index:03}"), &data)).await;
    }
    COUNT
}

/// The items of a list that is read in small pages, each of one chunk.
async fn in_pages(plane: &TestEnv, accept: &str, member: &str) -> Vec<Value> {
    let mut all = Vec::new();
    let mut path = format!("{CONFIG_MAPS}?limit=5");
    loop {
        let page = decoded(&plane.get_as(&path, accept).await);
        all.extend(page[member].as_array().unwrap().iter().cloned());
        match page["metadata"]["continue"].as_str() {
            Some(token) if !token.is_empty() => {
                path = format!("{CONFIG_MAPS}?limit=5&continue={token}");
            }
            _ => return all,
        }
    }
}

fn decoded(reply: &testenv::Response) -> Value {
    match reply.headers["content-type"].to_str().unwrap() {
        "application/yaml" => machinery::codec::yaml::decode(&reply.bytes).unwrap().value,
        _ => reply.value(),
    }
}

#[tokio::test]
async fn a_list_in_chunks_equals_its_pages_in_every_format() {
    let plane = TestEnv::start().await;
    let count = create_many(&plane).await;
    let formats = [
        ("application/json", "items"),
        ("application/yaml", "items"),
        ("application/json;as=Table;g=meta.k8s.io;v=v1", "rows"),
        ("application/yaml;as=Table;g=meta.k8s.io;v=v1", "rows"),
        ("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", "items"),
    ];
    for (accept, member) in formats {
        let reply = plane.get_as(&format!("{CONFIG_MAPS}?includeObject=Object"), accept).await;
        let whole = decoded(&reply);
        let pages = in_pages(&plane, accept, member).await;
        assert_eq!(whole[member].as_array().unwrap().len(), count, "{accept}");
        let names = |list: &[Value]| -> Vec<Value> {
            list.iter()
                .map(|it| it.pointer("/metadata/name").or(it.pointer("/cells/0")).unwrap().clone())
                .collect()
        };
        assert_eq!(names(whole[member].as_array().unwrap()), names(&pages), "{accept}");
        if member == "items" {
            assert_eq!(whole[member], Value::from(pages), "{accept}");
        }
        assert!(whole["metadata"]["resourceVersion"].is_string(), "{accept}");
    }
}

/// The same JSON with indentation, its fields in the same order.
fn indented(compact: &[u8]) -> Vec<u8> {
    let (mut out, mut depth, mut in_string, mut escaped) = (Vec::new(), 0, false, false);
    let line = |out: &mut Vec<u8>, depth: usize| {
        out.push(b'\n');
        out.extend("  ".repeat(depth).bytes());
    };
    for (at, byte) in compact.iter().copied().enumerate() {
        if in_string {
            in_string = byte != b'"' || escaped;
            escaped = byte == b'\\' && !escaped;
            out.push(byte);
            continue;
        }
        let is_empty = matches!(compact.get(at + 1), Some(b'}' | b']'));
        match byte {
            b'{' | b'[' if is_empty => out.push(byte),
            b'{' | b'[' => {
                out.push(byte);
                depth += 1;
                line(&mut out, depth);
            }
            b'}' | b']' => {
                if !matches!(compact[at - 1], b'{' | b'[') {
                    depth -= 1;
                    line(&mut out, depth);
                }
                out.push(byte);
            }
            b',' => {
                out.push(byte);
                line(&mut out, depth);
            }
            b':' => out.extend_from_slice(b": "),
            _ => {
                in_string = byte == b'"';
                out.push(byte);
            }
        }
    }
    out
}

#[tokio::test]
async fn a_list_in_chunks_is_indented_as_one_document() {
    let plane = TestEnv::start().await;
    create_many(&plane).await;
    for accept in ["application/json", "application/json;as=Table;g=meta.k8s.io;v=v1"] {
        let compact = plane.get_as(CONFIG_MAPS, accept).await;
        let reply = plane.get_as(&format!("{CONFIG_MAPS}?pretty=1"), accept).await;
        assert!(reply.bytes == indented(compact.bytes.trim_ascii_end()), "{accept}");
        let yaml = accept.replace("json", "yaml");
        let reply = plane.get_as(CONFIG_MAPS, &yaml).await;
        let value = machinery::codec::yaml::decode(&reply.bytes).unwrap().value;
        let text = machinery::codec::yaml::encode(&value);
        assert_eq!(String::from_utf8_lossy(&reply.bytes), text, "{yaml}");
    }
}

#[tokio::test]
async fn a_protobuf_list_in_chunks_has_a_correct_length() {
    const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
    let plane = TestEnv::start().await;
    create_many(&plane).await;
    let first = plane.get_as(CONFIG_MAPS, PROTOBUF).await;
    let envelope = types::protobuf::Envelope::read(&first.bytes).unwrap();
    assert_eq!((&*envelope.kind, envelope.raw.len() > 100_000), ("ConfigMapList", true));
    // Enough unread lists that further ones are not encoded before they are read.
    let mut unread = Vec::new();
    for _ in 0..500 {
        unread.push(plane.get_streaming(CONFIG_MAPS, PROTOBUF).await);
    }
    let last = plane.get_as(CONFIG_MAPS, PROTOBUF).await;
    assert_eq!(last.bytes, first.bytes);
}
