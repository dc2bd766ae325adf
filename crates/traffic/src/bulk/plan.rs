//! What a bulk run downloads, with its limits.

use nw_name::Name;

/// Most files of a run.
const FILES_MAX: u64 = 100_000;
/// Most segments of a run.
const SEGMENTS_MAX: u64 = 100_000_000;

/// Files to download, and how.
#[derive(Clone, Debug)]
pub struct BulkPlan {
    /// Prefix of all names.
    pub prefix: Name,
    /// Files started per second.
    pub files_per_s: f64,
    /// Seconds in which files are started.
    pub seconds: f64,
    /// Bytes of a file.
    pub file_bytes: u64,
    /// Bytes of content of a segment.
    pub payload: usize,
    /// InterestLifetime, milliseconds.
    pub lifetime_ms: u64,
    /// Most outstanding Interests of a file.
    pub window_max: usize,
}

/// Why a plan can't be run.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// Not a positive number, or too large.
    #[error("{0} files a second: give a number from 0.01 to 100000")]
    Rate(f64),
    /// Not a positive number, or too large.
    #[error("{0} seconds: give a number from 0.01 to 86400")]
    Seconds(f64),
    /// No file starts, or too many.
    #[error(
        "{0} files would be started; give a rate and a duration that start 1 to {FILES_MAX} files"
    )]
    Files(u64),
    /// A file without content.
    #[error("a file of 0 bytes; give a size such as 1250000 (10 Mbit)")]
    Empty,
    /// More segments than a run can count.
    #[error(
        "{0} segments are more than {SEGMENTS_MAX}; give fewer or smaller files, or larger segments"
    )]
    Segments(u64),
}

impl BulkPlan {
    /// Checks the numbers.
    ///
    /// # Errors
    /// The first number that is not possible.
    pub fn check(&self) -> Result<(), PlanError> {
        if !(0.01..=100_000.0).contains(&self.files_per_s) {
            return Err(PlanError::Rate(self.files_per_s));
        }
        if !(0.01..=86_400.0).contains(&self.seconds) {
            return Err(PlanError::Seconds(self.seconds));
        }
        if self.file_bytes == 0 {
            return Err(PlanError::Empty);
        }
        let files = self.files();
        if !(1..=FILES_MAX).contains(&files) {
            return Err(PlanError::Files(files));
        }
        let segments = files.saturating_mul(self.segments());
        if segments > SEGMENTS_MAX {
            return Err(PlanError::Segments(segments));
        }
        Ok(())
    }

    /// Returns the number of files.
    pub fn files(&self) -> u64 {
        (self.files_per_s * self.seconds).round() as u64
    }

    /// Returns the segments of a file.
    pub const fn segments(&self) -> u64 {
        let payload = if self.payload == 0 { 1 } else { self.payload as u64 };
        self.file_bytes.div_ceil(payload)
    }
}
