//! The one place that asks what time it is.

use std::time::{Duration, UNIX_EPOCH};

use tokio::time::Instant;

use crate::Timestamp;

/// A clock that never goes back: the wall clock at its making, moved on by the runtime's own time.
///
/// Pausing tokio's time pauses it, so tests need no second kind of clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    anchor: Timestamp,
    since: Instant,
}

impl Clock {
    /// Starts a clock at the wall clock's present time.
    #[allow(
        clippy::disallowed_methods,
        reason = "the one reading of the wall clock"
    )]
    pub fn start() -> Self {
        let wall = std::time::SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or(Duration::ZERO);
        Self::start_at(Timestamp::default() + wall)
    }

    /// Starts a clock that shows `anchor` now.
    pub fn start_at(anchor: Timestamp) -> Self {
        Self {
            anchor,
            since: Instant::now(),
        }
    }

    /// The present moment.
    pub fn now(&self) -> Timestamp {
        self.anchor + self.since.elapsed()
    }

    /// The runtime's instant at which this clock will show `moment`; now, if it is past.
    pub fn instant(&self, moment: Timestamp) -> Instant {
        Instant::now() + moment.since(self.now())
    }
}
