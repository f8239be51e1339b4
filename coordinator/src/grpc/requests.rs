//! One start at a time for each request id, so that two at once are one session.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

type Turns = Arc<Mutex<BTreeMap<(String, String), Arc<tokio::sync::Mutex<()>>>>>;

/// The request ids that are being started, by owner.
#[derive(Clone, Default)]
pub(crate) struct Requests(Turns);

/// The turn of one start; the next one with its request id waits until this is dropped.
pub(crate) struct Turn {
    turns: Turns,
    name: (String, String),
    _held: OwnedMutexGuard<()>,
}

impl Requests {
    /// Waits for the turn of a request id.
    pub(crate) async fn turn(&self, owner: &str, request: &str) -> Turn {
        let name = (owner.to_owned(), request.to_owned());
        let turn = self.0.lock().entry(name.clone()).or_default().clone();
        Turn {
            turns: self.0.clone(),
            name,
            _held: turn.lock_owned().await,
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut turns = self.turns.lock();
        // Two: the table and this guard; whoever waits holds one more.
        if turns
            .get(&self.name)
            .is_some_and(|turn| Arc::strong_count(turn) <= 2)
        {
            turns.remove(&self.name);
        }
    }
}
