//! Cases: ranges at the present and at earlier revisions.

use super::{Fixture, show};
use crate::{Error, Page, Revision};

async fn page(f: &Fixture, prefix: &str, start: Option<&str>, limit: usize) -> Page {
    f.store.range(prefix, start, limit, None).await.unwrap()
}

pub async fn a_range_is_sorted_and_limited_to_its_prefix(f: &Fixture) {
    for key in ["/pods/b", "/pods/a/x", "/pods/a", "/pod", "/podsx", "/pods", "/z"] {
        f.set(key, "").await;
    }
    let page = page(f, "/pods/", None, usize::MAX).await;
    assert_eq!(show(&page.records), ["/pods/a=", "/pods/a/x=", "/pods/b="]);
    assert_eq!((page.remaining, page.more()), (0, false));
    assert_eq!(page.revision, f.store.revision().await.unwrap());
}

pub async fn a_range_can_be_read_page_by_page(f: &Fixture) {
    for key in ["/a/1", "/a/2", "/a/3", "/a/4", "/a/5", "/b"] {
        f.set(key, "").await;
    }
    let first = page(f, "/a/", None, 2).await;
    assert_eq!((show(&first.records), first.remaining), (vec!["/a/1=".into(), "/a/2=".into()], 3));
    let second = page(f, "/a/", Some("/a/2\0"), 2).await;
    assert_eq!(
        (show(&second.records), second.remaining),
        (vec!["/a/3=".into(), "/a/4=".into()], 1)
    );
    let third = page(f, "/a/", Some("/a/5"), 2).await;
    assert_eq!((show(&third.records), third.remaining), (vec!["/a/5=".into()], 0));
    let counted = page(f, "/a/", None, 0).await;
    assert_eq!((counted.records.len(), counted.remaining), (0, 5));
}

pub async fn a_range_starts_at_its_prefix_at_the_earliest(f: &Fixture) {
    f.set("/a", "").await;
    f.set("/b", "").await;
    assert_eq!(show(&page(f, "/b", Some("/a"), 9).await.records), ["/b="]);
    assert_eq!(show(&page(f, "/a", Some("/b"), 9).await.records), Vec::<String>::new());
}

pub async fn pages_at_one_revision_do_not_show_later_writes(f: &Fixture) {
    for key in ["/1", "/2", "/3"] {
        f.set(key, "old").await;
    }
    let first = page(f, "/", None, 1).await;
    f.unset("/2").await;
    f.set("/3", "new").await;
    f.set("/25", "new").await;
    let rest = f.store.range("/", Some("/1\0"), 9, Some(first.revision)).await.unwrap();
    assert_eq!(show(&rest.records), ["/2=old", "/3=old"]);
    assert_eq!((rest.revision, rest.remaining), (first.revision, 0));
}

pub async fn the_state_at_each_past_revision_can_be_read(f: &Fixture) {
    let start = f.store.revision().await.unwrap();
    f.set("/a", "1").await;
    f.set("/b", "1").await;
    f.set("/a", "2").await;
    f.unset("/a").await;
    f.set("/a", "3").await;
    let expected: [&[&str]; 6] =
        [&[], &["/a=1"], &["/a=1", "/b=1"], &["/a=2", "/b=1"], &["/b=1"], &["/a=3", "/b=1"]];
    for (revision, state) in (start..).zip(expected) {
        assert_eq!(f.all(Some(revision)).await, state, "at revision {revision}");
    }
}

async fn read_at(f: &Fixture, revision: Revision) -> Result<Page, Error> {
    f.store.range("/", None, 9, Some(revision)).await
}

pub async fn a_compacted_revision_cannot_be_read(f: &Fixture) {
    let first = f.set("/a", "1").await;
    let second = f.set("/a", "2").await;
    f.set("/a", "3").await;
    f.store.compact(second).await.unwrap();
    let result = read_at(f, first).await;
    let Err(Error::Compacted { asked, oldest }) = result else { panic!("{result:?}") };
    assert_eq!((asked, oldest), (first, second));
    assert_eq!(f.all(Some(second)).await, ["/a=2"]);
    assert_eq!(f.all(None).await, ["/a=3"]);
}

pub async fn a_future_revision_cannot_be_read(f: &Fixture) {
    let current = f.set("/a", "1").await;
    let result = read_at(f, current + 1).await;
    let Err(Error::Future { asked, current: newest }) = result else { panic!("{result:?}") };
    assert_eq!((asked, newest), (current + 1, current));
}

pub async fn the_future_cannot_be_compacted(f: &Fixture) {
    let current = f.set("/a", "1").await;
    let result = f.store.compact(current + 1).await;
    assert!(matches!(result, Err(Error::Future { .. })), "{result:?}");
}

pub async fn compacting_twice_is_no_error(f: &Fixture) {
    let first = f.set("/a", "1").await;
    let second = f.set("/a", "2").await;
    for upto in [second, second, first] {
        f.store.compact(upto).await.unwrap();
    }
    assert!(matches!(read_at(f, first).await, Err(Error::Compacted { .. })));
    assert_eq!(f.all(Some(second)).await, ["/a=2"]);
}
