//! One thread a store that commits in groups.
//!
//! Whoever has writes hands them over and goes on; while one group is on its way to the disk the next one gathers. What
//! waits for a commit is told in the order of submission, after it holds.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use super::{Ack, Batch, Store, StoreError};
use crate::metrics::{COMMIT_FAILURES, COMMIT_SECONDS, COMMIT_WRITES};

/// Writes of one group.
const GROUP_WRITES: usize = 16 * 1024;

/// Why a submission is not kept; the same for its whole group.
pub type CommitError = Arc<StoreError>;

/// Told once, after the commit.
pub type Done = Box<dyn FnOnce(Result<(), CommitError>) + Send>;

/// Writes that happen together, and who waits for them.
pub struct Submission {
    /// The writes.
    pub batch: Batch,
    /// How safe they must be.
    pub ack: Ack,
    /// Whose writes they are, where later writes build on earlier ones.
    pub writer: Option<Writer>,
    /// Told afterwards.
    pub done: Done,
}

/// One life of somebody whose writes build on each other: once a batch of it was not kept, no later one is.
#[derive(Clone, Debug, Default)]
pub struct Writer {
    is_broken: Arc<AtomicBool>,
}

impl Writer {
    fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Acquire)
    }
}

/// The thread and its queue. Whoever submits has a window of its own: an actor waits for its answer before it tells anybody.
pub struct Committer {
    queue: Arc<Queue>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    news: Condvar,
}

#[derive(Default)]
struct Waiting {
    submissions: VecDeque<Submission>,
    is_closed: bool,
}

impl Committer {
    /// Starts the thread.
    pub fn start(store: Arc<dyn Store>) -> Result<Self, StoreError> {
        let queue = Arc::new(Queue::default());
        let taken = Arc::clone(&queue);
        let thread = std::thread::Builder::new()
            .name("committer".into())
            .spawn(move || run(&*store, &taken))
            .map_err(|error| StoreError::Engine(format!("no thread for commits: {error}")))?;
        Ok(Self {
            queue,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Hands writes over. Never waits.
    pub fn submit(&self, submission: Submission) {
        let mut waiting = self.queue.waiting.lock();
        if waiting.is_closed {
            drop(waiting);
            let closed = StoreError::Engine("the store is closed".into());
            (submission.done)(Err(Arc::new(closed)));
            return;
        }
        waiting.submissions.push_back(submission);
        drop(waiting);
        self.queue.news.notify_one();
    }

    /// How many submissions wait.
    pub fn pending(&self) -> usize {
        self.queue.waiting.lock().submissions.len()
    }

    /// Commits what waits, then ends the thread. Blocks until it is done.
    pub fn close(&self) {
        self.queue.waiting.lock().is_closed = true;
        self.queue.news.notify_all();
        let thread = self.thread.lock().take();
        let own = std::thread::current().id();
        // The last handle may be dropped by the thread itself, inside an answer.
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != own)
            && thread.join().is_err()
        {
            tracing::error!("the committer's thread had panicked");
        }
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        self.close();
    }
}

fn run(store: &dyn Store, queue: &Queue) {
    loop {
        let group = {
            let mut waiting = queue.waiting.lock();
            while waiting.submissions.is_empty() {
                if waiting.is_closed {
                    return;
                }
                queue.news.wait(&mut waiting);
            }
            next_group(&mut waiting.submissions)
        };
        commit(store, group);
    }
}

fn next_group(submissions: &mut VecDeque<Submission>) -> Vec<Submission> {
    let mut group = Vec::new();
    let mut writes = 0;
    while let Some(next) = submissions.front() {
        writes += next.batch.len();
        if writes > GROUP_WRITES && !group.is_empty() {
            break;
        }
        group.extend(submissions.pop_front());
    }
    group
}

fn commit(store: &dyn Store, group: Vec<Submission>) {
    let began = Instant::now();
    let mut batches = Vec::with_capacity(group.len());
    let mut waiters = Vec::with_capacity(group.len());
    let mut ack = Ack::Os;
    let mut writes = 0_u64;
    let mut writers = Vec::new();
    for submission in group {
        if submission.writer.as_ref().is_some_and(Writer::is_broken) {
            let why = "an earlier batch of the same writer was not kept";
            tell(
                submission.done,
                Err(Arc::new(StoreError::Engine(why.into()))),
            );
            continue;
        }
        ack = ack.max(submission.ack);
        writes += submission.batch.len() as u64;
        batches.push(submission.batch);
        waiters.push(submission.done);
        writers.extend(submission.writer);
    }
    let result = store.commit(&batches, ack).map_err(Arc::new);
    metrics::histogram!(COMMIT_SECONDS).record(began.elapsed().as_secs_f64());
    metrics::counter!(COMMIT_WRITES).increment(writes);
    if let Err(error) = &result {
        metrics::counter!(COMMIT_FAILURES).increment(1);
        tracing::error!(%error, "a group of writes could not be kept");
        for writer in writers {
            writer.is_broken.store(true, Ordering::Release);
        }
    }
    for done in waiters {
        tell(done, result.clone());
    }
}

fn tell(done: Done, result: Result<(), CommitError>) {
    let told = std::panic::catch_unwind(AssertUnwindSafe(|| done(result)));
    if told.is_err() {
        tracing::error!("whoever waited for a commit panicked when told");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc;

    use super::{Committer, Submission, Writer};
    use crate::store::memory::MemoryStore;
    use crate::store::{Ack, Batch, Store as _, Table};

    fn put(key: u8, answer: &mpsc::Sender<(u8, bool)>) -> Submission {
        let mut batch = Batch::default();
        batch.put(Table::Urls, vec![key], vec![key]);
        let answer = answer.clone();
        let done = Box::new(move |result: Result<(), _>| {
            answer.send((key, result.is_ok())).unwrap();
        });
        Submission {
            batch,
            ack: Ack::Os,
            writer: None,
            done,
        }
    }

    #[test]
    fn behind_a_batch_that_was_not_kept_its_writer_keeps_nothing() {
        let store = Arc::new(MemoryStore::default());
        let committer = Committer::start(store.clone()).unwrap();
        let (sender, answers) = mpsc::channel();
        let writer = Writer::default();
        let of = |key, writer: &Writer| Submission {
            writer: Some(writer.clone()),
            ..put(key, &sender)
        };
        store.set_full(true);
        committer.submit(of(1, &writer));
        assert_eq!(answers.recv().unwrap(), (1, false));
        store.set_full(false);
        // It had not heard of it yet.
        committer.submit(of(2, &writer));
        assert_eq!(answers.recv().unwrap(), (2, false));
        committer.submit(of(3, &Writer::default()));
        assert_eq!(answers.recv().unwrap(), (3, true), "the next life goes on");
    }

    #[test]
    fn answers_come_in_order_and_after_the_commit() {
        let store = Arc::new(MemoryStore::default());
        let committer = Committer::start(store.clone()).unwrap();
        let (sender, answers) = mpsc::channel();
        for key in 0..100 {
            committer.submit(put(key, &sender));
        }
        for key in 0..100 {
            assert_eq!(answers.recv().unwrap(), (key, true));
            assert!(store.get(Table::Urls, &[key]).unwrap().is_some());
        }
    }

    #[test]
    fn a_failed_commit_is_told_and_the_next_may_succeed() {
        let store = Arc::new(MemoryStore::default());
        let committer = Committer::start(store.clone()).unwrap();
        let (sender, answers) = mpsc::channel();
        store.set_full(true);
        committer.submit(put(1, &sender));
        assert_eq!(answers.recv().unwrap(), (1, false));
        store.set_full(false);
        committer.submit(put(2, &sender));
        assert_eq!(answers.recv().unwrap(), (2, true));
    }

    #[test]
    fn closing_commits_what_waits() {
        let store = Arc::new(MemoryStore::default());
        let committer = Committer::start(store.clone()).unwrap();
        let (sender, answers) = mpsc::channel();
        for key in 0..50 {
            committer.submit(put(key, &sender));
        }
        committer.close();
        assert_eq!(answers.try_iter().filter(|(_, kept)| *kept).count(), 50);
        committer.submit(put(51, &sender));
        assert_eq!(answers.recv().unwrap(), (51, false));
    }
}
