//! Lists of a store in pages.

use super::*;
use keel::Timestamp;
use store::{Expect, Memory, Options};

fn open(options: Options, tasks: &Tasks) -> Arc<dyn Store> {
    Memory::open(options, &Clock::manual(Timestamp::from_seconds(0)), tasks)
}

async fn put(store: &dyn Store, key: &str) {
    store.put(key, "{}".into(), Expect::Any, None).await.unwrap();
}

#[tokio::test]
async fn the_pages_of_a_list_show_one_revision() {
    let tasks = Tasks::new();
    let store = open(Options::default(), &tasks);
    for name in ["a", "b", "c", "d", "e"] {
        put(&*store, &format!("/registry/pods/{name}")).await;
    }
    let source = StoreListWatch { store: Arc::clone(&store) };
    let (mut keys, mut sizes, mut token) = (Vec::new(), Vec::new(), None);
    loop {
        let request =
            ListRequest { limit: Some(2), continue_token: token, ..ListRequest::default() };
        let list = source.list(request).await.unwrap();
        assert_eq!(list.resource_version, "5");
        sizes.push(list.items.len());
        keys.extend(list.items.iter().map(ReflectorItem::key));
        token = list.continue_token;
        if token.is_none() {
            break;
        }
        put(&*store, "/registry/pods/later").await;
    }
    assert_eq!(sizes, [2, 2, 1]);
    let expected = ["a", "b", "c", "d", "e"].map(|name| format!("/registry/pods/{name}").into());
    assert_eq!(keys, expected);
}

#[tokio::test]
async fn a_page_of_a_compacted_revision_fails_as_expired() {
    let tasks = Tasks::new();
    let store = open(Options::default(), &tasks);
    for name in ["a", "b", "c"] {
        put(&*store, &format!("/registry/pods/{name}")).await;
    }
    let source = StoreListWatch { store: Arc::clone(&store) };
    let request = ListRequest { limit: Some(2), ..ListRequest::default() };
    let continue_token = source.list(request.clone()).await.unwrap().continue_token;
    put(&*store, "/registry/pods/d").await;
    store.compact(4).await.unwrap();
    let answer = source.list(ListRequest { continue_token, ..request }).await;
    assert!(matches!(answer, Err(ListWatchError::Expired(_))), "{:?}", answer.err());
}

#[tokio::test]
async fn all_records_are_read_in_pages() {
    let tasks = Tasks::new();
    let store = open(Options::default(), &tasks);
    let count = PAGE_SIZE as usize + 1;
    for number in 0..count {
        put(&*store, &format!("/registry/pods/{number:06}")).await;
    }
    let all = read_all(&*store).await.unwrap();
    assert_eq!((all.records.len(), all.remaining), (count, 0));
    assert!(all.records.is_sorted_by_key(|record| &record.key));
}
