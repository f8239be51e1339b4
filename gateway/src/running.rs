//! Which call of a connection started which session, so that cancelling the call cancels the session.
//!
//! An entry stays after the call's token fired, because the notice that fires it arrives separately; the
//! oldest entries make room.

use std::collections::VecDeque;

use parking_lot::Mutex;
use proto::v1::SessionSpec;
use rmcp::model::RequestId;

const MOST: usize = 256;

/// What a call has begun.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    Nothing,
    /// Asked for, its id not known yet: starting it again with the same request id tells it.
    Asked(Box<SessionSpec>),
    Session(String),
}

#[derive(Debug)]
struct Entry {
    id: RequestId,
    work: Work,
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
            work: Work::Nothing,
            is_cancelled: false,
        });
    }

    /// Names the session of a call; true when the call was cancelled before.
    pub(crate) fn started(&self, id: &RequestId, session: &str) -> bool {
        let mut entries = self.0.lock();
        let Some(entry) = entries.iter_mut().rfind(|entry| entry.id == *id) else {
            return false;
        };
        entry.work = Work::Session(session.to_owned());
        entry.is_cancelled
    }

    /// Remembers what is asked of the session door, before it answers.
    pub(crate) fn starting(&self, id: &RequestId, spec: SessionSpec) {
        let mut entries = self.0.lock();
        if let Some(entry) = entries.iter_mut().rfind(|entry| entry.id == *id) {
            entry.work = Work::Asked(Box::new(spec));
        }
    }

    /// What to cancel.
    pub(crate) fn cancel(&self, id: &RequestId) -> Work {
        let mut entries = self.0.lock();
        let Some(entry) = entries.iter_mut().rfind(|entry| entry.id == *id) else {
            return Work::Nothing;
        };
        entry.is_cancelled = true;
        entry.work.clone()
    }

    /// The call was answered: a late notice must not end its session.
    pub(crate) fn answered(&self, id: &RequestId) {
        self.0.lock().retain(|entry| entry.id != *id);
    }
}
