//! Ports for elements with one port per kind of packet.

nw_element_api::ports! {
    /// One port per kind of packet.
    pub enum ByKind {
        /// Interests.
        Interest = "interest" [Interest],
        /// Data.
        Data = "data" [Data],
        /// Nacks.
        Nack = "nack" [Nack],
    }
}
