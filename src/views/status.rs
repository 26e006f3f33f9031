//! Activity of the views service, for its pages; kept by its tasks.

use parking_lot::{Mutex, MutexGuard};

use super::jobs::JobStatus;
use crate::model::time::Wall;

/// The newest [`ViewsState`].
#[derive(Debug, Default)]
pub struct ViewsStatus {
    state: Mutex<ViewsState>,
}

#[derive(Clone, Debug, Default)]
pub struct ViewsState {
    /// This process maps; otherwise it stands by.
    pub holds_lease: bool,
    /// The views that it maps, and their definitions' numbers.
    pub active: Vec<(String, u64)>,
    /// Views of its file that have a newer definition.
    pub left_alone: Vec<String>,
    /// Those that it works on.
    pub jobs: Vec<JobStatus>,
    /// Views that cannot be made as things are.
    pub failures: usize,
    /// Time at which everything was last compared to its end.
    pub swept: Option<Wall>,
}

impl ViewsStatus {
    pub fn get(&self) -> ViewsState {
        self.locked().clone()
    }

    pub(super) fn update(&self, change: impl FnOnce(&mut ViewsState)) {
        change(&mut self.locked());
    }

    fn locked(&self) -> MutexGuard<'_, ViewsState> {
        // Each change is a few plain stores.
        self.state.lock()
    }
}
