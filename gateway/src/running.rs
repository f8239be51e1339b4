//! Which call of a connection started which session, so that cancelling the call cancels the session.
//!
//! An entry stays after the call's token fired, because the notice that fires it arrives separately; the
//! oldest entries make room.

use std::collections::VecDeque;

use parking_lot::Mutex;
use rmcp::model::RequestId;

const MOST: usize = 256;

#[derive(Debug)]
struct Entry {
    id: RequestId,
    session: Option<String>,
    is_cancelled: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Running(Mutex<VecDeque<Entry>>);

impl Running {
    pub(crate) fn begin(&self, id: &RequestId) {
        let mut entries = self.0.lock();
        if entries.len() >= MOST {
            entries.pop_front();
        }
        entries.push_back(Entry {
            id: id.clone(),
            session: None,
            is_cancelled: false,
        });
    }

    /// Names the session of a call; true when the call was cancelled before.
    pub(crate) fn started(&self, id: &RequestId, session: &str) -> bool {
        let mut entries = self.0.lock();
        let Some(entry) = entries.iter_mut().rfind(|entry| entry.id == *id) else {
            return false;
        };
        entry.session = Some(session.to_owned());
        entry.is_cancelled
    }

    /// The session to cancel, when one was started.
    pub(crate) fn cancel(&self, id: &RequestId) -> Option<String> {
        let mut entries = self.0.lock();
        let entry = entries.iter_mut().rfind(|entry| entry.id == *id)?;
        entry.is_cancelled = true;
        entry.session.clone()
    }

    /// The call was answered: a late notice must not end its session.
    pub(crate) fn answered(&self, id: &RequestId) {
        self.0.lock().retain(|entry| entry.id != *id);
    }
}
