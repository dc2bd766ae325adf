//! Local publish/subscribe: publications are written once, to a ring in shared memory, and read by
//! all subscribers of the machine.
//!
//! ```text
//!  publisher ── RingWriter ──▶ ring (memory file) ──▶ RingReader ── subscriber 1 … n
//!      ▲                       read-only for readers       │ cursor in the reader's own memory
//!      └── cursor, counts, "waits" ◀── ReaderPage ◀────────┘ one small memory file per reader
//! ```
//!
//! A reader can harm no other process: it maps the ring for reading only (F_SEAL_FUTURE_WRITE). A
//! publisher can give its readers wrong bytes, which they check as they check any packet. No end
//! waits for another one unless it chooses to. [`frame_socket`] is the socket between an
//! application and its node, which also passes the descriptors (decision 0070).

pub mod frame_socket;
pub mod reader_page;
pub mod ring;
pub mod ring_reader;
pub mod ring_writer;

pub use frame_socket::{FrameSocket, SocketFault};
pub use reader_page::{Progress, READER_SLOTS_MAX, ReaderPage, Wakeup, item_bit};
pub use ring::{RingFault, RingSize};
pub use ring_reader::{ReadEvent, RingReader};
pub use ring_writer::RingWriter;
