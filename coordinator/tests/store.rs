//! What every engine promises: order, paging, bounds, whole batches, and that nothing acknowledged is lost.
#![expect(
    clippy::unwrap_used,
    reason = "a test stops where its stage cannot be set"
)]

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use coordinator::store::fjall::FjallStore;
use coordinator::store::memory::MemoryStore;
use coordinator::store::sled::SledStore;
use coordinator::store::{Ack, Batch, Store, StoreError, Table};

fn put(store: &dyn Store, key: &[u8], value: &[u8]) {
    let mut batch = Batch::default();
    batch.put(Table::Urls, key.to_vec(), value.to_vec());
    store.commit(&[batch], Ack::Os).unwrap();
}

fn keys(store: &dyn Store, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Vec<Vec<u8>> {
    let found = store.scan(Table::Urls, prefix, after, limit).unwrap();
    found.into_iter().map(|(key, _)| key.to_vec()).collect()
}

fn get(store: &dyn Store, key: &[u8]) -> Option<Vec<u8>> {
    let found = store.get(Table::Urls, key).unwrap();
    found.map(|value| value.to_vec())
}

/// What must hold of any engine that has no rows yet.
fn suite(store: &dyn Store) {
    keys_come_in_byte_order_and_pages_meet_without_a_gap(store);
    a_prefix_is_a_bound_on_both_sides(store);
    the_last_write_of_a_key_wins(store);
    a_batch_reaches_all_its_tables(store);
}

fn keys_come_in_byte_order_and_pages_meet_without_a_gap(store: &dyn Store) {
    let mut wanted: Vec<Vec<u8>> = (0..300_u16)
        .map(|number| [&b"p"[..], &number.wrapping_mul(7919).to_be_bytes()].concat())
        .collect();
    for key in &wanted {
        put(store, key, key);
    }
    wanted.sort();
    assert_eq!(keys(store, b"p", None, usize::MAX), wanted);
    let mut paged: Vec<Vec<u8>> = Vec::new();
    loop {
        let page = keys(store, b"p", paged.last().map(Vec::as_slice), 7);
        if page.is_empty() {
            break;
        }
        paged.extend(page);
    }
    assert_eq!(paged, wanted);
    assert_eq!(keys(store, b"p", None, 0), Vec::<Vec<u8>>::new());
    // A position that was removed meanwhile, or never was, is a position all the same.
    assert_eq!(keys(store, b"p", Some(b"o"), 1), wanted[..1]);
    assert_eq!(keys(store, b"p", Some(b"q"), 1), Vec::<Vec<u8>>::new());
}

fn a_prefix_is_a_bound_on_both_sides(store: &dyn Store) {
    let all: [&[u8]; 5] = [b"q", b"q\0", b"q\xff", b"q\xff\xff", b"r"];
    for key in all {
        put(store, key, b"");
    }
    assert_eq!(keys(store, b"q", None, 9), all[..4]);
    assert_eq!(keys(store, b"q\xff", None, 9), all[2..4]);
    assert_eq!(keys(store, b"q", Some(b"q\0"), 9), all[2..4]);
    assert_eq!(get(store, b"q").unwrap(), b"", "an empty value is a value");
    let others = store.scan(Table::Hosts, b"q", None, 9).unwrap();
    assert!(others.is_empty(), "tables do not mix");
}

fn the_last_write_of_a_key_wins(store: &dyn Store) {
    let (mut first, mut second) = (Batch::default(), Batch::default());
    let key = || b"w".to_vec();
    first.put(Table::Urls, key(), b"1".to_vec());
    first.delete(Table::Urls, key());
    first.put(Table::Urls, key(), b"2".to_vec());
    second.put(Table::Urls, key(), b"3".to_vec());
    store.commit(&[first, second], Ack::Os).unwrap();
    assert_eq!(get(store, b"w").unwrap(), b"3");
    let (mut first, mut second) = (Batch::default(), Batch::default());
    first.put(Table::Urls, key(), b"4".to_vec());
    second.delete(Table::Urls, key());
    second.delete(Table::Urls, b"never there".to_vec());
    store.commit(&[first, second], Ack::Disk).unwrap();
    assert_eq!(get(store, b"w"), None);
    put(store, b"w", b"5");
    assert_eq!(
        get(store, b"w").unwrap(),
        b"5",
        "a key comes back after its removal"
    );
}

fn a_batch_reaches_all_its_tables(store: &dyn Store) {
    let mut batch = Batch::default();
    for table in Table::ALL {
        batch.put(table, b"everywhere".to_vec(), table.name().into());
    }
    store.commit(&[batch], Ack::Disk).unwrap();
    for table in Table::ALL {
        let found = store.get(table, b"everywhere").unwrap().unwrap();
        assert_eq!(&found[..], table.name().as_bytes());
    }
}

#[test]
fn memory_keeps_the_promises() {
    suite(&MemoryStore::default());
}

#[test]
fn fjall_keeps_the_promises_also_after_it_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = FjallStore::open(folder.path()).unwrap();
    suite(&store);
    let before = store.scan(Table::Urls, b"", None, usize::MAX).unwrap();
    let second = FjallStore::open(folder.path());
    assert!(matches!(second.err(), Some(StoreError::InUse { .. })));
    drop(store);
    let store = FjallStore::open(folder.path()).unwrap();
    let after = store.scan(Table::Urls, b"", None, usize::MAX).unwrap();
    assert_eq!(after, before);
}

#[test]
fn sled_keeps_the_promises_also_after_it_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = SledStore::open(folder.path()).unwrap();
    suite(&store);
    let before = store.scan(Table::Urls, b"", None, usize::MAX).unwrap();
    drop(store);
    let store = SledStore::open(folder.path()).unwrap();
    let after = store.scan(Table::Urls, b"", None, usize::MAX).unwrap();
    assert_eq!(after, before);
}

#[test]
fn a_value_that_another_program_wrote_is_an_error_and_no_answer() {
    let folder = tempfile::tempdir().unwrap();
    drop(FjallStore::open(folder.path()).unwrap());
    let database = fjall::Database::builder(folder.path()).open().unwrap();
    let options = fjall::KeyspaceCreateOptions::default;
    let urls = database.keyspace(Table::Urls.name(), options).unwrap();
    urls.insert("foreign", "no head, no checksum").unwrap();
    drop((urls, database));
    let store = FjallStore::open(folder.path()).unwrap();
    let found = store.get(Table::Urls, b"foreign");
    assert!(matches!(
        found,
        Err(StoreError::Damaged {
            table: Table::Urls,
            ..
        })
    ));
    let found = store.scan(Table::Urls, b"", None, 9);
    assert!(matches!(found, Err(StoreError::Damaged { .. })));
}

/// Writes numbers in pairs until it is killed, and says which are acknowledged.
fn write_until_killed(store: &dyn Store) {
    let mut out = std::io::stdout();
    for number in 0_u64..100_000 {
        let mut batch = Batch::default();
        let key = number.to_be_bytes().to_vec();
        batch.put(Table::Urls, key.clone(), vec![7; 200]);
        batch.put(Table::Queue, key, vec![]);
        let ack = if number.is_multiple_of(8) {
            Ack::Disk
        } else {
            Ack::Os
        };
        store.commit(&[batch], ack).unwrap();
        writeln!(out, "kept {number}").unwrap();
    }
}

#[test]
#[ignore = "the child process of the test that kills it; it writes into its working directory"]
fn child_of_fjall() {
    write_until_killed(&FjallStore::open(Path::new("store")).unwrap());
}

#[test]
#[ignore = "the child process of the test that kills it; it writes into its working directory"]
fn child_of_sled() {
    write_until_killed(&SledStore::open(Path::new("store")).unwrap());
}

/// Starts the child in a folder, kills it in the middle of its writes, and answers what it had acknowledged.
fn killed(child: &str, folder: &Path, after: usize) -> BTreeSet<u64> {
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args([child, "--exact", "--ignored", "--nocapture"])
        .current_dir(folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut kept = BTreeSet::new();
    let lines = BufReader::new(process.stdout.take().unwrap()).lines();
    for line in lines {
        let line = line.unwrap();
        kept.extend(
            line.rsplit_once("kept ")
                .and_then(|(_, number)| number.parse::<u64>().ok()),
        );
        if kept.len() == after {
            // SIGKILL; what is still in the pipe was acknowledged as well and is read on.
            process.kill().unwrap();
        }
    }
    process.wait().unwrap();
    assert!(kept.len() >= after, "the child ended by itself");
    kept
}

fn nothing_acknowledged_is_lost(store: &dyn Store, kept: &BTreeSet<u64>) {
    let numbers = |table| -> BTreeSet<u64> {
        let found = store.scan(table, b"", None, usize::MAX).unwrap();
        let number = |key: &[u8]| u64::from_be_bytes(key.try_into().unwrap());
        found.iter().map(|(key, _)| number(key)).collect()
    };
    let (urls, queue) = (numbers(Table::Urls), numbers(Table::Queue));
    assert_eq!(urls, queue, "a batch is there whole or not at all");
    assert!(urls.is_superset(kept), "lost: {:?}", kept.difference(&urls));
    assert!(urls.len() <= kept.len() + 1, "only one batch was under way");
}

#[test]
fn fjall_loses_nothing_acknowledged_when_the_process_is_killed() {
    for after in [1, 300] {
        let folder = tempfile::tempdir().unwrap();
        let kept = killed("child_of_fjall", folder.path(), after);
        let store = FjallStore::open(&folder.path().join("store")).unwrap();
        nothing_acknowledged_is_lost(&store, &kept);
    }
}

#[test]
fn sled_loses_nothing_acknowledged_when_the_process_is_killed() {
    for after in [1, 100] {
        let folder = tempfile::tempdir().unwrap();
        let kept = killed("child_of_sled", folder.path(), after);
        let store = SledStore::open(&folder.path().join("store")).unwrap();
        nothing_acknowledged_is_lost(&store, &kept);
    }
}
