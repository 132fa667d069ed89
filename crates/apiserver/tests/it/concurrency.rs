//! Concurrent writers of one object: no change is lost without an error.

use tokio::task::JoinSet;

use crate::objects::{CONFIG_MAPS, config_map};
use machinery::{Value, json};
use testenv::TestEnv;

#[tokio::test]
async fn one_of_two_writers_with_the_same_revision_wins() {
    let plane = TestEnv::start().await;
    let read = plane.create(CONFIG_MAPS, &config_map("a", &json!({}))).await;
    let path = format!("{CONFIG_MAPS}/a");
    let (mut one, mut two) = (read.clone(), read);
    one["data"] = json!({"by": "one"});
    two["data"] = json!({"by": "two"});
    assert_eq!(plane.put(&path, &one).await.0, 200);
    let (code, status) = plane.put(&path, &two).await;
    assert_eq!((code, &status["reason"]), (409, &json!("Conflict")));
    assert_eq!(plane.read(&path).await["data"]["by"], "one");
}

#[tokio::test]
async fn an_update_without_a_revision_overwrites_unless_the_kind_requires_one() {
    let plane = TestEnv::start().await;
    plane.create(CONFIG_MAPS, &config_map("a", &json!({"by": "one"}))).await;
    let (code, written) =
        plane.put(&format!("{CONFIG_MAPS}/a"), &config_map("a", &json!({"by": "two"}))).await;
    assert_eq!((code, &written["data"]["by"]), (200, &json!("two")));
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    let path = format!("{classes}/system-node-critical");
    let mut class = plane.read(&path).await;
    class["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    assert_eq!(plane.put(&path, &class).await.0, 200);
    let apis = "/apis/apiregistration.k8s.io/v1/apiservices";
    let service = json!({"metadata": {"name": "v1.example.com"}, "spec": {"group": "example.com",
        "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1}});
    plane.create(apis, &service).await;
    let (code, status) = plane.put(&format!("{apis}/v1.example.com"), &service).await;
    let field = &status["details"]["causes"][0]["field"];
    assert_eq!((code, field), (422, &json!("metadata.resourceVersion")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_patches_of_different_fields_all_succeed() {
    let plane = TestEnv::start().await;
    plane.create(CONFIG_MAPS, &config_map("a", &json!({}))).await;
    let mut writers = JoinSet::new();
    for writer in 0..20 {
        let client = plane.clone();
        writers.spawn(async move {
            let patch = json!({"data": {format!("k{writer}"): "v"}});
            client.merge(&format!("{CONFIG_MAPS}/a"), &patch).await;
        });
    }
    writers.join_all().await;
    let data = plane.read(&format!("{CONFIG_MAPS}/a")).await["data"].take();
    assert_eq!(data.as_object().map(serde_json::Map::len), Some(20), "{data}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_counter_with_retries_on_conflict_is_exact() {
    const WRITERS: usize = 4;
    const EACH: usize = 10;
    let plane = TestEnv::start().await;
    plane.create(CONFIG_MAPS, &config_map("a", &json!({"n": "0"}))).await;
    let mut writers = JoinSet::new();
    for _ in 0..WRITERS {
        let client = plane.clone();
        writers.spawn(async move {
            let path = format!("{CONFIG_MAPS}/a");
            let mut done = 0;
            while done < EACH {
                let mut read = client.read(&path).await;
                let count: usize = read["data"]["n"].as_str().unwrap().parse().unwrap();
                read["data"]["n"] = (count + 1).to_string().into();
                match client.put(&path, &read).await.0 {
                    200 => done += 1,
                    code => assert_eq!(code, 409),
                }
            }
        });
    }
    writers.join_all().await;
    let count = plane.read(&format!("{CONFIG_MAPS}/a")).await["data"]["n"].take();
    assert_eq!(count, (WRITERS * EACH).to_string());
}

#[tokio::test]
async fn an_update_of_another_object_of_the_same_name_is_a_conflict() {
    let plane = TestEnv::start().await;
    let path = format!("{CONFIG_MAPS}/a");
    let mut first = plane.create(CONFIG_MAPS, &config_map("a", &json!({}))).await;
    plane.delete(&path).await;
    plane.create(CONFIG_MAPS, &config_map("a", &json!({}))).await;
    first["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    let (code, status) = plane.put(&path, &first).await;
    assert_eq!((code, &status["reason"]), (409, &json!("Conflict")));
}

#[tokio::test]
async fn a_deletion_with_failed_preconditions_deletes_nothing() {
    let plane = TestEnv::start().await;
    let path = format!("{CONFIG_MAPS}/a");
    let created = plane.create(CONFIG_MAPS, &config_map("a", &json!({}))).await;
    let changed = plane.merge(&path, &json!({"data": {"k": "v"}})).await;
    let (uid, old) = (&created["metadata"]["uid"], &created["metadata"]["resourceVersion"]);
    for wrong in [json!({"uid": "another"}), json!({"uid": uid, "resourceVersion": old})] {
        let (code, status) = plane.delete_with(&path, &json!({"preconditions": wrong})).await;
        assert_eq!((code, &status["reason"]), (409, &json!("Conflict")), "{wrong}");
    }
    let new = &changed["metadata"]["resourceVersion"];
    let right = json!({"preconditions": {"uid": uid, "resourceVersion": new}});
    assert_eq!(plane.delete_with(&path, &right).await.0, 200);
}

/// The first names that a plane generates after it has created `count` objects with other names.
/// Another plane with the same seed generates the same names after as many creates.
async fn names_to_come(seed: u64, count: usize) -> Vec<String> {
    let plane = TestEnv::builder().seed(seed).start().await;
    for index in 0..count {
        plane.create(CONFIG_MAPS, &config_map(&format!("other-{index}"), &json!({}))).await;
    }
    let mut names = Vec::new();
    for _ in 0..=count {
        let created = plane.create(CONFIG_MAPS, &generated()).await;
        names.push(created["metadata"]["name"].as_str().unwrap().to_owned());
    }
    names
}

fn generated() -> Value {
    json!({"metadata": {"generateName": "web-"}})
}

#[tokio::test]
async fn a_generated_name_that_exists_is_replaced() {
    let names = names_to_come(7, 1).await;
    let plane = TestEnv::builder().seed(7).start().await;
    plane.create(CONFIG_MAPS, &config_map(&names[0], &json!({}))).await;
    let created = plane.create(CONFIG_MAPS, &generated()).await;
    assert_eq!(created["metadata"]["name"], names[1]);
    assert!(names[1].starts_with("web-") && names[1].len() == 9, "{}", names[1]);
}

#[tokio::test]
async fn eight_existing_generated_names_are_an_error() {
    let names = names_to_come(7, 8).await;
    let plane = TestEnv::builder().seed(7).start().await;
    for name in &names[..8] {
        plane.create(CONFIG_MAPS, &config_map(name, &json!({}))).await;
    }
    let (code, status) = plane.post(CONFIG_MAPS, &generated()).await;
    assert_eq!((code, &status["reason"]), (409, &json!("AlreadyExists")));
    let message = status["message"].as_str().unwrap();
    assert!(message.contains("the server was not able to generate a unique name"), "{message}");
}
