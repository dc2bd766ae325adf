//! The number of members where another program starts them, such as pods of a StatefulSet.

/// The number could not be read or set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CountError {
    /// It has changed since it was read.
    #[error("the number of members was changed by another program at the same time")]
    Changed,
    /// Another reason, with what helps.
    #[error("{0}")]
    Failed(String),
}

/// Reads and sets how many members there should be. They join and leave by themselves.
///
/// Calls may block: they run in a thread of their own. Each returns within a time limit.
pub trait MemberCount: Send {
    /// Returns how many members there should be.
    ///
    /// # Errors
    /// The number can't be read.
    fn get(&mut self) -> Result<u32, CountError>;

    /// Sets how many members there should be, if nothing has changed since the last [`Self::get`].
    ///
    /// # Errors
    /// The number can't be set, or it has changed.
    fn set(&mut self, members: u32) -> Result<(), CountError>;
}
