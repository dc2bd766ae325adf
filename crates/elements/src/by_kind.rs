//! The ports of elements through which each kind of packet goes its own way, and leaves as it came.

nw_element_api::ports! {
    /// One port for each kind.
    pub enum ByKind {
        /// Interests.
        Interest = "interest" [Interest],
        /// Data.
        Data = "data" [Data],
        /// Refused Interests.
        Nack = "nack" [Nack],
    }
}
