//! Serves a recorded run, or one that is being recorded, to the page. Bounded: the oldest frames of
//! a run that goes on are removed.

use crate::ApiError;
use crate::extract::Query;
use crate::listen::{ServeError, Server, page_access, serve_paths_and_page};
use crate::openapi::finish;
use crate::page::PageAccess;
use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use nw_api::config::{Control, Page};
use nw_api::recording::{FRAMES_MAX, RecordedFrame, RecordedLink, RecordedNode, Recording};
use serde::Deserialize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Longest body of a request, bytes: nothing takes one.
const BODY_BYTES_MAX: usize = 1024;

/// A recording that may grow.
#[derive(Debug, Default)]
pub struct Recorder(Mutex<Recording>);

impl Recorder {
    /// Creates a recorder with what was recorded so far.
    pub fn new(recording: Recording) -> Arc<Self> {
        Arc::new(Recorder(Mutex::new(recording)))
    }

    fn lock(&self) -> MutexGuard<'_, Recording> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a node and a link to another one. Returns its index.
    pub fn add_node(&self, node: RecordedNode, linked_to: Option<u32>) -> u32 {
        let mut recording = self.lock();
        let index = recording.nodes.len() as u32;
        recording.nodes.push(node);
        if let Some(to) = linked_to {
            recording.links.push(RecordedLink { from: index, to });
        }
        index
    }

    /// Adds a frame. The oldest frame is removed if there are too many.
    pub fn add_frame(&self, frame: RecordedFrame) {
        let mut recording = self.lock();
        if recording.frames.len() >= FRAMES_MAX {
            recording.frames.remove(0);
            recording.frames_before += 1;
        }
        recording.frames.push(frame);
    }

    /// Marks the run as ended.
    pub fn end(&self) {
        self.lock().is_running = false;
    }

    /// Returns the recording with its frames from number `first` on.
    pub fn read(&self, first: u64) -> Recording {
        let recording = self.lock();
        let skipped = first.saturating_sub(recording.frames_before) as usize;
        let skipped = skipped.min(recording.frames.len());
        Recording {
            title: recording.title.clone(),
            nodes: recording.nodes.clone(),
            links: recording.links.clone(),
            frames: recording.frames[skipped..].to_vec(),
            frames_before: recording.frames_before + skipped as u64,
            is_running: recording.is_running,
        }
    }
}

/// Which frames are wanted.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FramesWanted {
    /// Number of the first frame.
    #[serde(default)]
    first: u64,
}

/// Serves the page of a recording until the returned server is dropped.
///
/// # Errors
/// If no address is given, or a socket or the thread can't be had.
pub fn serve_recording(
    recorder: Arc<Recorder>,
    page: &Page,
) -> Result<(Server, Arc<PageAccess>), ServeError> {
    let access = page_access(page, "recording")?.ok_or(ServeError::NoAddress)?;
    let router = Router::new().route("/v1/recording", get(show)).with_state(recorder);
    let router = finish(router, "{}".to_owned(), BODY_BYTES_MAX);
    let shown = Some((page, Arc::clone(&access)));
    Ok((serve_paths_and_page(&Control::default(), None, None, router, shown)?, access))
}

async fn show(
    State(recorder): State<Arc<Recorder>>,
    Query(wanted): Query<FramesWanted>,
) -> Result<Json<Recording>, ApiError> {
    Ok(Json(recorder.read(wanted.first)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorder_returns_frames_from_a_number_and_keeps_at_most_its_bound() {
        let recorder = Recorder::new(Recording::default());
        for at_ms in 0..FRAMES_MAX as u64 + 10 {
            recorder.add_frame(RecordedFrame { at_ms, ..RecordedFrame::default() });
        }
        let all = recorder.read(0);
        assert_eq!((all.frames.len(), all.frames_before), (FRAMES_MAX, 10));
        let last = recorder.read(FRAMES_MAX as u64 + 8);
        assert_eq!(last.frames.len(), 2);
        assert_eq!(last.frames[0].at_ms, last.frames_before);
        assert!(recorder.read(u64::MAX).frames.is_empty());
    }
}
